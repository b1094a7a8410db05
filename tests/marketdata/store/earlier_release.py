"""A version as an earlier release created it: the SQL of each is frozen in a script."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg

from marketdata.store.version import Version

SCRIPTS = ("earlier_release.sql", "previous_release.sql")
"""The release before ``json_prefix``, and the one before ``final_until`` and the buy volumes."""

_PREAMBLE = "SELECT set_config('search_path', current_setting('search_path') || ', pg_temp', true);"


def create(conn: psycopg.Connection[Any], version: Version, script: str = SCRIPTS[0]) -> None:
    """Create the tables, functions and triggers of that release; ``market_aliases`` must exist."""
    text: Any = f"{_PREAMBLE}\n{Path(__file__).with_name(script).read_text(encoding='utf-8')}"
    with conn.transaction():
        conn.execute(version.query(text), prepare=False)

"""A version as an earlier release created it: its SQL is frozen in ``earlier_release.sql``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg

from marketdata.store.version import Version

_SCRIPT = Path(__file__).with_suffix(".sql")
_PREAMBLE = "SELECT set_config('search_path', current_setting('search_path') || ', pg_temp', true);"


def create(conn: psycopg.Connection[Any], version: Version) -> None:
    """Create the tables, functions and triggers of that release; ``market_aliases`` must exist."""
    script: Any = f"{_PREAMBLE}\n{_SCRIPT.read_text(encoding='utf-8')}"
    with conn.transaction():
        conn.execute(version.query(script), prepare=False)

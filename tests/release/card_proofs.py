"""Proofs of the shipped cards' snapshots, in a form that can be compared between Debian releases.

After a change of a card, record its proofs again::

    .venv/bin/python -m tests.release.card_proofs
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cardapp.card import proof
from cardapp.card.catalog import Catalog
from cardapp.card.model import Card, Snapshot
from cardapp.card.source import load_card
from cardapp.session_client import session_tools
from cardapp.settings import ROOT
from tests.functional.session_process import RunningSession, SessionTool

CARDS = ("arena", "calc")
RECORDED = Path(__file__).with_name("card_proofs.json")
"""The digest of each snapshot's proof by card and key, as recorded on Debian 12."""


@contextmanager
def card_session(tool: SessionTool, name: str) -> Iterator[tuple[RunningSession, Card]]:
    """A session of the shipped card ``name``."""
    folder = ROOT / "etc" / "cards" / name
    tool.must("start", "--name", name, str(folder))
    session = RunningSession.of(tool, name)
    try:
        yield session, load_card(folder).card
    finally:
        session.stop()


def replayed(
    session: RunningSession, card: Card, key: str, snapshot: Snapshot, *, fresh: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A replay's result and the proof in it: everything that the replay reports about the snapshot. Its values must
    match the card."""
    binding = session_tools.Binding.of(session.ask("session_binding"))
    asked = session_tools.replay_arguments(binding, 1, key, snapshot, card.allocator, seconds=20, fresh=fresh)
    result = session.ask(session_tools.REPLAY, **asked)
    checks = proof.checks(snapshot, result)
    assert proof.drift_reason(checks) is None, (key, result["method"])
    seen = {part: result[part] for part in ("file", "line", "function", "values", "allocator")}
    return result, seen | {"checks": [check.as_json() for check in checks]}


def digest(proved: dict[str, Any]) -> str:
    """A digest of a proof without its addresses, which differ with the compiler and the C library."""
    allocator = proved["allocator"]
    comparable = proved | {"allocator": allocator and allocator | {"base": 0}}
    text = re.sub(r"0x[0-9a-f]+", "0x", json.dumps(comparable, sort_keys=True))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _record() -> None:
    recorded: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp", ignore_cleanup_errors=True) as state:
        for name in CARDS:
            with card_session(SessionTool(Path(state)), name) as (session, card):
                snapshots = Catalog(card).snapshots
                recorded[name] = {key: digest(replayed(session, card, key, snapshots[key])[1]) for key in snapshots}
    RECORDED.write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    _record()

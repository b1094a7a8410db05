"""An open database in a fresh state directory, and a function that appends an event."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cardapp.card.model import Identity
from cardapp.state import events
from cardapp.state.database import Database

AT = "2025-03-01T10:00:00.000Z"
CARD = Identity("arena", "u-1", "1.0.0", "ab" * 32)


@pytest.fixture
def db(state_dir: Path, empty_database: bytes) -> Iterator[Database]:
    (state_dir / "card-state").write_bytes(empty_database)
    database = Database.open(state_dir / "card-state")
    yield database
    database.close()


@pytest.fixture
def add(db: Database) -> Callable[..., dict[str, Any]]:
    """Append one event in a separate write. All members have defaults."""

    def append(**members: Any) -> dict[str, Any]:
        event: dict[str, Any] = {"kind": "note", "actor": "api", "key": "t1", "card": CARD, "data": {}, "at": AT}
        with db.write() as conn:
            return events.append(conn, **(event | members))

    return append

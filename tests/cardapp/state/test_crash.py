"""After kill -9 of a writing process, each acknowledged write is complete, and the hash chain is intact."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from cardapp.card.model import Identity
from cardapp.state import card_state, events, learners
from cardapp.state.database import Database

WRITER = """
import sys, threading
from pathlib import Path
from cardapp.card.model import Identity
from cardapp.card.navigation import Position
from cardapp.state import card_state, events
from cardapp.state.database import Database
import json

AT = "2025-03-01T10:00:00.000Z"
CARD = Identity("arena", "u-1", "1", "00" * 32)
database = Database.open(Path(sys.argv[1]))
saying = threading.Lock()

def work(name):
    number = 0
    while True:
        number += 1
        with database.write() as conn:
            note = f"{name}-{number}"
            saved = card_state.save_position(conn, "u", Position(task_id=note, focus_level="task"), AT)
            row = card_state.set_status(conn, "u", name, "approved", note, "me", AT)
            event = events.append(conn, kind="note", actor=name, key="", card=CARD, data={"note": note}, at=AT)
        with saying:
            print(json.dumps([event["seq"], event["hash"], saved.revision, name, row.revision, note]), flush=True)

for name in "abcd":
    threading.Thread(target=work, args=(name,)).start()
"""


def test_acknowledged_writes_survive_kill_9(state_dir: Path) -> None:
    path = state_dir / "card-state"
    acknowledged: dict[int, str] = {}
    for count in (7, 53):
        lines = killed_after(path, count=count)
        said = [json.loads(line) for line in lines]
        acknowledged |= {seq: digest for seq, digest, *_ in said}
        database = Database.open(path)
        with database.read() as conn:
            stored = {event["seq"]: event for event in events.stream(conn)}
            position = card_state.load_position(conn, "u")
            rows = card_state.load_statuses(conn, "u")
        database.close()
        assert events.verify_file(path).intact
        assert acknowledged.items() <= {seq: event["hash"] for seq, event in stored.items()}.items()
        assert position.revision >= max(revision for _, _, revision, *_ in said)
        # One transaction wrote position, item and event: they must belong to the last events.
        assert position.position.task_id == stored[len(stored)]["data"]["note"]
        last = {event["actor"]: event["data"]["note"] for event in stored.values()}
        assert {name: row.note for name, row in rows.items()} == last


SWITCHER = """
import json, sys
from pathlib import Path
from cardapp.card.model import Identity
from cardapp.state import card_state, events, learners
from cardapp.state.database import Database

AT = "2025-03-01T10:00:00.000Z"
CARD = Identity("arena", "u-1", "1", "00" * 32)
database = Database.open(Path(sys.argv[1]))
with database.read() as conn:
    number = len(learners.overview(conn)["learners"])
while True:
    name = f"L{number}"
    with database.write() as conn:
        learners.create(conn, name, actor="me", card=CARD, at=AT)
        card_state.set_status(conn, "u", "item", "approved", name, "me", AT)
    with database.write() as conn:
        event = events.append(conn, kind="note", actor="me", key="", card=CARD, data={"of": name}, at=AT)
    print(json.dumps([name, event["seq"]]), flush=True)
    number += 1
"""


def test_each_learners_chain_and_record_survive_kill_9(state_dir: Path) -> None:
    path = state_dir / "card-state"
    said: list[list[Any]] = []
    for count in (5, 12):
        said += [json.loads(line) for line in killed_after(path, count=count, program=SWITCHER)]
        assert events.verify_file(path).intact
        database = Database.open(path)
        with database.read() as conn:
            known = [each["name"] for each in learners.overview(conn)["learners"]]
        assert known == ["unnamed", *(f"L{number}" for number in range(1, len(known)))]
        for name, seq in said:
            with database.write() as tx:
                learners.choose(tx, name, actor="me", card=Identity("arena", "u-1", "1", "00" * 32), at="")
            with database.read() as conn:
                chain = list(events.stream(conn))
                assert card_state.load_statuses(conn, "u")["item"].note == name
            assert [chain[0]["data"]["name"], chain[1]["seq"], chain[1]["data"]] == [name, seq, {"of": name}]
        database.close()


def killed_after(path: Path, *, count: int, program: str = WRITER) -> list[str]:
    """Kill a writing process after ``count`` acknowledgements. Returns all of them, also those still in the pipe."""
    child = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        try:
            lines = [child.stdout.readline() for _ in range(count)]
        finally:
            child.kill()
        lines += child.stdout.readlines()
    return [line for line in lines if line.endswith("\n")]

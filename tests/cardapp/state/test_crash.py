"""After kill -9 of a writing process, each acknowledged write is complete, and the hash chain is intact."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from cardapp.state import card_state, events
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


def killed_after(path: Path, *, count: int) -> list[str]:
    """Kill a writing process after ``count`` acknowledgements. Returns all of them, also those still in the pipe."""
    child = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        try:
            lines = [child.stdout.readline() for _ in range(count)]
        finally:
            child.kill()
        lines += child.stdout.readlines()
    return [line for line in lines if line.endswith("\n")]

"""The service is killed with SIGKILL while it writes. Every acknowledged write is there afterwards, and the chain
verifies."""

from __future__ import annotations

import http.client
import itertools
import json
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import pytest

from cardapp.state import events
from tests.functional.serving import Api, make_card, until

pytestmark = pytest.mark.functional

PROGRESS_ITEMS = [f"t1.b1.p1.{name}" for name in ("quick", "slow", "drifted", "beyond")]


class Server:
    """The service as a program, on a port of the kernel's choice."""

    def __init__(self, environment: dict[str, str], *, inside: Sequence[str] = (), log: IO[str] | None = None) -> None:
        """``inside`` is a command that executes the command after it. ``log`` receives the standard error."""
        self.process = subprocess.Popen(
            [*inside, sys.executable, "-P", "-m", "cardapp", "serve"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        assert self.address, "the service did not start"
        self.api = Api.tcp(int(self.address.rsplit(":", 1)[1]), timeout=60)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(60)
        self.process.stdout.close()  # type: ignore[union-attr]


class Writer(threading.Thread):
    """Repeats a request until the service ends, and records which requests were acknowledged."""

    def __init__(self, write: Callable[[int], Any]) -> None:
        super().__init__(daemon=True)
        self._write = write
        self.acknowledged: list[Any] = []
        self.attempted = 0

    def run(self) -> None:
        try:
            for number in itertools.count():
                self.attempted = number
                self.acknowledged.append(self._write(number))
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            return  # killed in the middle of a request: not acknowledged


def writers(api: Api, round_number: int) -> dict[str, Writer]:
    def event(number: int) -> int:
        answer = api.post("/api/events", {"kind": "note", "actor": "crash", "text": f"{round_number}.{number}"})
        assert answer.status == 201, answer.body
        return int(answer.json["seq"])

    def move(number: int) -> tuple[int, str]:
        answer = api.post("/api/navigation/move", {"level": "step", "delta": 1 if number % 6 < 3 else -1})
        assert answer.status == 200, answer.body
        return answer.json["revision"], answer.json["key"]

    def approve(number: int) -> tuple[str, str]:
        item, note = PROGRESS_ITEMS[number % 4], f"{round_number}.{number}"
        answer = api.put(f"/api/progress/{item}", {"status": "approved", "note": note, "actor": "crash"})
        assert answer.status == 200, answer.body
        return item, note

    return {"event": Writer(event), "move": Writer(move), "approve": Writer(approve)}


@pytest.fixture
def environment(card_environment: dict[str, str], state_dir: Path) -> dict[str, str]:
    card = make_card(state_dir / "card")
    return {**card_environment, "CARD_STATE_DIR": str(state_dir / "state"), "CARD_SOURCE": str(card)}


def test_acknowledged_writes_survive_a_killed_service(
    environment: dict[str, str], rng: random.Random, state_dir: Path
) -> None:
    written: dict[str, Writer] = {}
    seen_events = 0
    for number in range(3):
        server = Server(environment)
        try:
            if written:
                seen_events = check(server.api, written, seen_events)
            written = writers(server.api, number)
            for writer in written.values():
                writer.start()
            goal = rng.randint(2, 40)
            until(lambda goal=goal, running=written: sum(len(w.acknowledged) for w in running.values()) >= goal, 60)
        finally:
            server.kill()
        for writer in written.values():
            writer.join(60)
        report = events.verify_file(state_dir / "state" / "card-state")
        assert report.intact, report
    assert seen_events > 0


def check(api: Api, written: dict[str, Writer], after: int) -> int:
    """Every acknowledged write is there. A request that the kill interrupted may be there or not. Returns the last
    event."""
    events: dict[int, Any] = {}
    last = after
    while page := api.get(f"/api/events?after={last}&limit=1000")["events"]:
        events |= {event["seq"]: event for event in page}
        last = page[-1]["seq"]
    for place, seq in enumerate(written["event"].acknowledged):
        assert events[seq]["data"]["text"].endswith(f".{place}")
    if written["move"].acknowledged:
        revision, key = written["move"].acknowledged[-1]
        current = api.get("/api/navigation/current")
        assert current["revision"] in (revision, revision + 1)
        assert current["revision"] == revision + 1 or current["key"] == key
    notes = {item["id"]: item["note"] for item in api.get("/api/progress")["items"]}
    attempted = written["approve"].attempted
    for item, note in dict(written["approve"].acknowledged).items():
        cut_off = PROGRESS_ITEMS[attempted % 4] == item and notes[item].endswith(f".{attempted}")
        assert notes[item] == note or cut_off
    return last

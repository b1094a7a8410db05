"""``bin/cardapp backup`` and ``restore``, as programs, with the service running and writing."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cardapp.state import events
from tests.functional.command_line import cardapp
from tests.functional.serving import Api, make_card, picture, until
from tests.functional.test_crash import Server, Writer

pytestmark = pytest.mark.functional

PATHS = (
    "/api/events?limit=500", "/api/navigation/current", "/api/viewer/state", "/api/progress", "/api/control/state",
)  # fmt: skip


@pytest.fixture
def environment(card_environment: dict[str, str], state_dir: Path) -> dict[str, str]:
    card = make_card(state_dir / "card")
    return {**card_environment, "CARD_STATE_DIR": str(state_dir / "state"), "CARD_SOURCE": str(card)}


@pytest.fixture
def server(environment: dict[str, str]) -> Iterator[Server]:
    running = Server(environment)
    yield running
    end(running)


def end(server: Server) -> None:
    if server.process.poll() is None:
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(60)
    assert server.process.stdout is not None
    server.process.stdout.close()


def add_picture(api: Api, colour: int) -> str:
    headers = {"Content-Type": "image/png"}
    answer = api.request("POST", f"/api/evidence?caption=colour-{colour}", picture(colour), headers)
    assert answer.status == 201, answer.body
    name: str = answer.json["name"]
    return name


def fill(api: Api) -> list[str]:
    """Store one or more values of every kind. Returns the names of the pictures."""
    assert api.post("/api/events", {"kind": "note", "actor": "me", "text": "α\u2028ω"}).status == 201
    assert api.post("/api/navigation/move", {"level": "step", "delta": 1}).status == 200
    assert api.put("/api/progress/t1.b1.p1.quick", {"status": "approved", "note": "n", "actor": "me"}).status == 200
    return [add_picture(api, colour) for colour in (1, 2, 3)]


def bodies(api: Api, names: list[str]) -> dict[str, bytes]:
    found = {path: api.request("GET", path) for path in (*PATHS, *(f"/api/evidence/{name}" for name in names))}
    assert {answer.status for answer in found.values()} == {200}
    return {path: answer.body for path, answer in found.items()}


def test_a_restored_backup_gives_the_same_bytes(server: Server, environment: dict[str, str], state_dir: Path) -> None:
    names = fill(server.api)
    before = bodies(server.api, names)
    done = cardapp("backup", state_dir / "backup", **environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(os.listdir(state_dir / "backup")) == ["card-state", "evidence"]
    assert {path.stat().st_mode & 0o077 for path in (state_dir / "backup").rglob("*")} == {0}
    assert (state_dir / "backup").stat().st_mode & 0o777 == 0o700

    elsewhere = {**environment, "CARD_STATE_DIR": str(state_dir / "restored")}
    done = cardapp("restore", state_dir / "backup", **elsewhere)
    assert (done.returncode, done.stderr) == (0, "")
    restored = Server(elsewhere)
    try:
        assert bodies(restored.api, names) == before
        assert restored.api.post("/api/events", {"kind": "note", "actor": "me", "text": "on"}).status == 201
    finally:
        end(restored)
    assert cardapp("verify-events", **elsewhere).returncode == 0


def test_a_backup_amid_writes_holds_the_state_of_one_moment(
    server: Server, environment: dict[str, str], state_dir: Path
) -> None:
    note = Writer(lambda number: server.api.post("/api/events", {"kind": "note", "actor": "w", "text": str(number)}))
    image = Writer(lambda number: add_picture(server.api, number % 200))
    for writer in (note, image):
        writer.start()
    until(lambda: len(image.acknowledged) > 3, 60)
    acknowledged = len(note.acknowledged)
    done = cardapp("backup", state_dir / "backup", **environment)
    assert (done.returncode, done.stderr) == (0, "")
    report = events.verify_file(state_dir / "backup" / "card-state", evidence_root=state_dir / "backup" / "evidence")
    assert report.intact, report
    assert report.count >= acknowledged
    server.kill()


def test_nothing_that_exists_is_replaced_and_what_is_broken_is_named(
    server: Server, environment: dict[str, str], state_dir: Path
) -> None:
    names = fill(server.api)
    end(server)
    backup, elsewhere = state_dir / "backup", {**environment, "CARD_STATE_DIR": str(state_dir / "restored")}
    assert cardapp("backup", backup, **environment).returncode == 0
    for arguments, code, said in (
        (("backup", backup), 2, "already exists"),
        (("restore", backup), 1, "a restore replaces nothing"),
        (("restore", state_dir / "card"), 2, "is not a backup"),
    ):
        refused = cardapp(*arguments, **environment)
        assert (refused.returncode, said in refused.stderr) == (code, True), refused.stderr

    (state_dir / "state" / "evidence" / names[1]).unlink()
    done = cardapp("backup", state_dir / "broken", **environment)
    assert (done.returncode, names[1] in done.stderr) == (1, True)
    with closing(sqlite3.connect(state_dir / "broken" / "card-state")) as copy:
        assert copy.execute("SELECT count(*) FROM event").fetchone()[0] >= 5
    done = cardapp("restore", state_dir / "broken", **elsewhere)
    assert (done.returncode, names[1] in done.stderr) == (1, True)
    assert (state_dir / "restored" / "card-state").is_file()

    content = bytearray((backup / "card-state").read_bytes())
    content[4096:12288] = b"\xff" * 8192
    (backup / "card-state").write_bytes(content)
    done = cardapp("restore", backup, **{**elsewhere, "CARD_STATE_DIR": str(state_dir / "damaged")})
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert not (state_dir / "damaged" / "card-state").exists()

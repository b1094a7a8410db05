"""``bin/cardapp backup`` and ``restore``, as programs, with the service running and writing."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cardapp.state import events
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
        server.process.wait(20)
    assert server.process.stdout is not None
    server.process.stdout.close()


def command(environment: dict[str, str], *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-P", "-m", "cardapp", *map(str, arguments)]
    return subprocess.run(program, env=environment, capture_output=True, text=True, timeout=60, check=False)


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
    done = command(environment, "backup", state_dir / "backup")
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(os.listdir(state_dir / "backup")) == ["card-state", "evidence"]
    assert {path.stat().st_mode & 0o077 for path in (state_dir / "backup").rglob("*")} == {0}
    assert (state_dir / "backup").stat().st_mode & 0o777 == 0o700

    elsewhere = {**environment, "CARD_STATE_DIR": str(state_dir / "restored")}
    done = command(elsewhere, "restore", state_dir / "backup")
    assert (done.returncode, done.stderr) == (0, "")
    restored = Server(elsewhere)
    try:
        assert bodies(restored.api, names) == before
        assert restored.api.post("/api/events", {"kind": "note", "actor": "me", "text": "on"}).status == 201
    finally:
        end(restored)
    assert command(elsewhere, "verify-events").returncode == 0


@pytest.mark.full
def test_a_backup_amid_writes_holds_the_state_of_one_moment(
    server: Server, environment: dict[str, str], state_dir: Path, loops: Callable[..., int]
) -> None:
    note = Writer(lambda number: server.api.post("/api/events", {"kind": "note", "actor": "w", "text": str(number)}))
    image = Writer(lambda number: add_picture(server.api, number % 200))
    for writer in (note, image):
        writer.start()
    for number in range(loops(quick=2, full=5)):
        reached = len(image.acknowledged)
        until(lambda reached=reached: len(image.acknowledged) > reached + 3)  # type: ignore[misc]
        acknowledged = len(note.acknowledged)
        done = command(environment, "backup", state_dir / str(number))
        assert (done.returncode, done.stderr) == (0, "")
        report = events.verify_file(
            state_dir / str(number) / "card-state", evidence_root=state_dir / str(number) / "evidence"
        )
        assert report.intact, report
        assert report.count >= acknowledged
    server.kill()


@pytest.mark.full
def test_nothing_that_exists_is_replaced(server: Server, environment: dict[str, str], state_dir: Path) -> None:
    fill(server.api)
    assert command(environment, "backup", state_dir / "backup").returncode == 0
    again = command(environment, "backup", state_dir / "backup")
    assert (again.returncode, "already exists" in again.stderr) == (2, True)
    over = command(environment, "restore", state_dir / "backup")
    assert (over.returncode, "a restore replaces nothing" in over.stderr) == (1, True)
    assert server.api.get("/api/health")["status"] == "ok"
    nothing = command(environment, "restore", state_dir / "card")
    assert (nothing.returncode, "is not a backup" in nothing.stderr) == (2, True)


@pytest.mark.full
def test_what_is_broken_is_named_and_kept(server: Server, environment: dict[str, str], state_dir: Path) -> None:
    names = fill(server.api)
    (state_dir / "state" / "evidence" / names[1]).unlink()
    done = command(environment, "backup", state_dir / "backup")
    assert (done.returncode, names[1] in done.stderr) == (1, True)
    with closing(sqlite3.connect(state_dir / "backup" / "card-state")) as copy:
        assert copy.execute("SELECT count(*) FROM event").fetchone()[0] >= 5
    elsewhere = {**environment, "CARD_STATE_DIR": str(state_dir / "restored")}
    done = command(elsewhere, "restore", state_dir / "backup")
    assert (done.returncode, names[1] in done.stderr) == (1, True)
    assert (state_dir / "restored" / "card-state").is_file()


@pytest.mark.full
def test_a_damaged_backup_is_refused(server: Server, environment: dict[str, str], state_dir: Path) -> None:
    fill(server.api)
    assert command(environment, "backup", state_dir / "backup").returncode == 0
    file = state_dir / "backup" / "card-state"
    content = bytearray(file.read_bytes())
    content[4096:12288] = b"\xff" * 8192
    file.write_bytes(content)
    elsewhere = {**environment, "CARD_STATE_DIR": str(state_dir / "restored")}
    done = command(elsewhere, "restore", state_dir / "backup")
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    assert not (state_dir / "restored" / "card-state").exists()

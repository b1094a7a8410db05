"""A disk that is really full, and a disk that cannot be written. The service answers writes with problems, serves
reads, and loses no acknowledged write. The same process works again as soon as there is room."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.functional import small_disk
from tests.functional.serving import Api, Response, Stage, make_card, picture, position, until
from tests.functional.small_disk import Disk
from tests.functional.test_crash import Server

pytestmark = pytest.mark.functional

BYTES = 4 << 20
ITEM = "/api/progress/t1.b1.p1.quick"
READS = ("/api/state", "/api/control/state", "/api/navigation/current", "/api/events", "/api/progress", "/api/identity")
PNG = {"Content-Type": "image/png"}
WAIT = 60.0


@pytest.fixture
def state(state_dir: Path) -> Path:
    """The state directory, which for the server is on the small disk."""
    folder = state_dir / "state"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def environment(card_environment: dict[str, str], state: Path) -> dict[str, str]:
    card = make_card(state.parent / "card")
    return {**card_environment, "CARD_STATE_DIR": str(state), "CARD_SOURCE": str(card)}


@pytest.fixture
def server(environment: dict[str, str], state: Path) -> Iterator[Server]:
    with (state.parent / "log").open("w") as log:
        server = Server(environment, inside=small_disk.inside(state, BYTES), log=log)
    yield server
    server.kill()
    assert "Traceback" not in (state.parent / "log").read_text()


class Writer:
    """Makes writes of every kind, and records which were acknowledged."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._number = 0
        self.events: list[int] = []
        self.pictures: list[str] = []
        self.note = ""

    def event(self, size: int = 2000) -> Response:
        answer = self._api.post("/api/events", {"kind": "note", "actor": "me", "text": "x" * size})
        if answer.status == 201:
            self.events.append(answer.json["seq"])
        return answer

    def progress(self) -> Response:
        self._number += 1
        answer = self._api.put(ITEM, {"status": "approved", "note": f"{self._number}" * 1000})
        if answer.status == 200:
            self.note = answer.json["note"]
        return answer

    def picture(self) -> Response:
        self._number += 1
        answer = self._api.request("POST", "/api/evidence", picture(self._number % 256), PNG)
        if answer.status == 201:
            self.pictures.append(answer.json["name"])
        return answer

    def move(self) -> Response:
        return self._api.post("/api/navigation/move", {"level": "step", "delta": 1 if self._number % 2 else -1})

    def all(self) -> list[Response]:
        return [self.event(), self.progress(), self.picture(), self.move()]


def is_full(answer: Response) -> bool:
    return answer.status == 503 and bool(answer.json["code"] == "state_disk_full")


def assert_kept(api: Api, writer: Writer) -> None:
    stored: set[int] = set()
    page: dict[str, Any] = {"next_after": 0, "last_seq": 1}
    while page["next_after"] < page["last_seq"]:
        page = api.get(f"/api/events?after={page['next_after']}&limit=1000")
        stored |= {event["seq"] for event in page["events"]}
    assert set(writer.events) <= stored
    items = {each["id"]: each for each in api.get("/api/progress")["items"]}
    assert items["t1.b1.p1.quick"]["note"] == writer.note
    for name in writer.pictures:
        assert api.request("GET", f"/api/evidence/{name}").status == 200


def within(server: Server, *command: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command in the mount namespace of the server."""
    enter = ["nsenter", "-t", str(server.process.pid), "-m", *command]
    return subprocess.run(enter, capture_output=True, text=True, check=False, **options)


def assert_verified(server: Server, environment: dict[str, str]) -> None:
    done = within(server, sys.executable, "-P", "-m", "cardapp", "verify-events", env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


def test_on_a_full_disk_writes_are_refused_and_reads_answered(
    server: Server, state: Path, environment: dict[str, str]
) -> None:
    disk, api = Disk(server.process.pid, state), server.api
    writer = Writer(api)
    assert [answer.status for answer in writer.all()] == [201, 200, 201, 200]
    disk.fill()
    until(lambda: is_full(writer.event(9000)), WAIT)
    for _ in range(5):
        disk.fill()
        assert all(is_full(answer) or answer.status < 300 for answer in writer.all())
        assert is_full(writer.picture())
        for path in READS:
            assert api.request("GET", path).status == 200
    assert_kept(api, writer)
    disk.free()
    assert [answer.status for answer in writer.all()] == [201, 200, 201, 200]
    until(lambda: is_full(writer.event(10_000)), WAIT)  # the state itself fills its disk
    assert len(writer.events) > 20
    assert_kept(api, writer)
    assert_verified(server, environment)


def test_a_folder_that_turned_read_only_still_serves_reads_and_open_databases(
    server: Server, state: Path, environment: dict[str, str]
) -> None:
    """The open database still accepts writes as long as the kernel allows them. A process that opens it now can only
    read."""
    writer = Writer(server.api)
    assert writer.picture().status == 201
    for folder in (state / "evidence", state):
        with read_only(server, folder):
            refused = writer.picture()
            assert (refused.status, refused.json["code"]) == (503, "state_read_only")
            assert [answer.status for answer in (writer.event(), writer.progress(), writer.move())] == [201, 200, 200]
            with ThreadPoolExecutor(16) as clients:  # more than there are readers open already
                assert {*clients.map(lambda path: server.api.request("GET", path).status, READS * 8)} == {200}
            assert_verified(server, environment)
            assert_kept(server.api, writer)
        assert [answer.status for answer in writer.all()] == [201, 200, 201, 200]
    assert_kept(server.api, writer)


@contextmanager
def read_only(server: Server, folder: Path) -> Iterator[None]:
    """Make the folder read-only for files that the running server opens in it."""
    assert within(server, "mount", "--bind", str(folder), str(folder)).returncode == 0
    assert within(server, "mount", "-o", "remount,bind,ro", str(folder)).returncode == 0
    yield
    assert within(server, "mount", "-o", "remount,bind,rw", str(folder)).returncode == 0


READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'


def test_a_start_on_a_state_that_cannot_be_written_says_so(environment: dict[str, str], state: Path) -> None:
    small_disk.inside(state, BYTES)  # skips where mounting is not allowed
    for prepare in (lambda: None, lambda: Server(environment).kill()):
        prepare()
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", READ_ONLY, "sh", str(state)]
        ended = subprocess.run(
            [*command, sys.executable, "-P", "-m", "cardapp", "serve"],
            env=environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (ended.returncode, "Traceback" in ended.stderr) == (1, False), ended.stderr
        assert "read-only" in ended.stderr.lower()
        assert str(state) in ended.stderr


def test_a_replay_on_a_full_disk_publishes_nothing_and_the_next_one_does(stage: Stage) -> None:
    """A replay is published only if its record is stored. A database that may not grow simulates the full disk."""
    api, writer = stage.tcp, stage.service.services.database
    api.put("/api/navigation/current", position("quick", "first"))
    assert api.post("/api/navigation/sync").status == 200
    api.put("/api/navigation/current", position("quick", "second"))
    before = stage.published()
    with writer.write() as connection:
        size = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {size}")
    until(lambda: is_full(api.post("/api/events", {"kind": "note", "actor": "me", "text": "x" * 9000})), WAIT)
    until(lambda: is_full(api.post("/api/events", {"kind": "note", "actor": "me", "text": "x"})), WAIT)
    assert is_full(api.post("/api/navigation/sync"))
    assert stage.published() == before
    assert api.get("/api/checkpoint/status")["active"] is None
    with writer.write() as connection:
        connection.execute("PRAGMA max_page_count = 1000000")
    assert api.post("/api/navigation/sync").status == 200
    assert stage.published() == ("t1/b1/p1/quick/second", 0, "on")

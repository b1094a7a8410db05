"""A database with damaged pages. The service starts, says so with the way out, serves what it can read, and writes
nothing."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from cardapp import settings
from cardapp.serve import Service, Times
from tests.functional.command_line import cardapp
from tests.functional.serving import Api, make_card, running_service, until

pytestmark = pytest.mark.functional

READS = (
    "/api/state", "/api/events", "/api/progress", "/api/viewer/state", "/api/navigation/current", "/api/control/state",
    "/api/answers", "/api/learners", "/api/report/teams.md", "/api/evidence/none.png",
)  # fmt: skip
WRITES = (
    ("POST", "/api/events", {"kind": "note", "actor": "me", "text": "x"}),
    ("PUT", "/api/progress/t1.b1.p1.quick", {"status": "approved"}),
    ("PUT", "/api/viewer/state", {"scale": 2}),
    ("POST", "/api/navigation/move", {"level": "step", "delta": 1}),
    ("POST", "/api/learners", {"name": "Ada"}),
)
JUNK = b"\x55" * 4096


@pytest.fixture
def state(state_dir: Path) -> Path:
    """A state directory with 200 events and one approved step, which no service uses."""
    state = state_dir / "state"
    with running_service(CARD_STATE_DIR=str(state)) as service:
        api = Api.tcp(service.listener.port)
        for number in range(200):
            body = {"kind": "note", "actor": "me", "text": f"{number} " * 100}
            assert api.post("/api/events", body).status == 201
        assert api.put(WRITES[1][1], WRITES[1][2]).status == 200
    assert not Path(f"{state}/card-state-wal").exists()
    return state


def damage(file: Path, pages: list[int], bytes_of_each: int = 4096) -> None:
    with file.open("r+b") as opened:
        for page in pages:
            opened.seek((page - 1) * 4096)
            opened.write(JUNK[:bytes_of_each])


def root_of(file: Path, name: str) -> int:
    with closing(sqlite3.connect(file)) as connection:
        return int(connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", [name]).fetchone()[0])


def several(file: Path) -> list[int]:
    """The root of the events, and pages in the middle of the file."""
    middle = file.stat().st_size // 4096 // 2
    return [root_of(file, "event"), middle, middle + 1]


DAMAGES: dict[str, tuple[Callable[[Path], list[int]], int]] = {
    "pages": (several, 4096),
    "index": (lambda file: [root_of(file, "event_by_key")], 4096),
    "header": (lambda _file: [1], 100),
    "first page": (lambda _file: [1], 4096),
}


def assert_refused(api: Api) -> None:
    """The service is degraded, refuses writes, and answers each read, or says why it cannot."""
    health = api.get("/api/health")
    assert (health["status"], health["database"]["ok"], health["database"]["code"]) == (
        "degraded", False, "state_damaged"
    )  # fmt: skip
    assert "bin/cardapp restore" in health["database"]["reason"]
    for method, path, body in WRITES:
        refused = api.request(method, path, body)
        assert (refused.status, refused.json["code"]) == (503, "state_damaged"), (path, refused.body)
        assert "bin/cardapp restore" in refused.json["detail"]
    for path in READS:
        answer = api.request("GET", path)
        assert answer.status in (200, 404) or answer.json["code"] == "state_damaged", (path, answer.body)
    assert api.request("GET", "/").status == 200


def test_a_damaged_database_is_found_at_the_start_and_never_written(
    state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = state / "card-state"
    for name, (pages, count) in DAMAGES.items():
        sound = file.read_bytes()
        damage(file, pages(file), count)
        damaged = file.read_bytes()
        caplog.clear()
        with running_service(CARD_STATE_DIR=str(state)) as service:
            api = Api.tcp(service.listener.port)
            assert_refused(api)
            assert "state_damaged" in caplog.text, name
            assert not [record for record in caplog.records if record.exc_info], caplog.text
            if name in ("pages", "index"):
                assert api.get("/api/progress")["summary"]["approved"] == 1
        assert file.read_bytes() == damaged, name
        file.write_bytes(sound)
    with running_service(CARD_STATE_DIR=str(state)) as service:
        assert Api.tcp(service.listener.port).get("/api/health")["database"] == {
            "ok": True, "reason": None, "code": None
        }  # fmt: skip


def test_the_way_out_leads_to_the_backup(state: Path, state_dir: Path) -> None:
    environment = {"CARD_STATE_DIR": str(state), "CARD_SOURCE": str(make_card(state_dir / "card"))}
    with running_service(**environment) as service:
        events = Api.tcp(service.listener.port).get("/api/events")
    assert cardapp("backup", state_dir / "backup", **environment).returncode == 0
    damage(state / "card-state", several(state / "card-state"))
    with running_service(**environment) as service:
        assert_refused(Api.tcp(service.listener.port))
    (state_dir / "away").mkdir()
    for path in state.glob("card-state*"):
        shutil.move(path, state_dir / "away")
    restored = cardapp("restore", state_dir / "backup", **environment)
    assert (restored.returncode, restored.stderr) == (0, "")
    with running_service(**environment) as service:
        api = Api.tcp(service.listener.port)
        assert api.get("/api/events") == events
        assert api.request(*WRITES[1]).status == 200


def test_a_large_file_is_checked_while_the_service_runs(state: Path, caplog: pytest.LogCaptureFixture) -> None:
    """So is this one, if the start does not wait for the check."""
    damage(state / "card-state", [root_of(state / "card-state", "event_by_key")])
    environment = {"CARD_STATE_DIR": str(state), "CARD_SOURCE": str(make_card(state / "card")), "CARD_API_PORT": "0"}
    service = Service(settings.load(environment), times=Times(page_check=0.0))
    service.start()
    try:
        api = Api.tcp(service.listener.port)
        until(lambda: not api.get("/api/health")["database"]["ok"])
        assert_refused(api)
        assert "state_damaged" in caplog.text
    finally:
        service.stop()

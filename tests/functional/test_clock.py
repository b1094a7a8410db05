"""The wall clock is set back. The record keeps its order and its chain, durations are correct, and replays continue."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from cardapp.state import events as record
from cardapp.web import schemas
from tests.functional.serving import Stage, make_card, picture, position, running_stage

pytestmark = [pytest.mark.functional]


@pytest.fixture
def stage() -> Iterator[Stage]:
    """The application with a wall clock that is set back by an hour at each reading."""
    hours, lock = itertools.count(), threading.Lock()

    def backwards() -> str:
        with lock:
            at = datetime(2026, 3, 1, tzinfo=UTC) - timedelta(hours=next(hours))
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    with running_stage(make_card, options={"clock": backwards}) as stage:
        yield stage


def test_the_service_works_while_the_clock_is_set_back(stage: Stage) -> None:
    api = stage.tcp
    texts = [f"note {number}" for number in range(5)]
    for text in texts:
        assert api.post("/api/events", {"kind": "note", "actor": "me", "text": text}).status == 201
    for snapshot in ("first", "second", "first"):
        api.put("/api/navigation/current", position("quick", snapshot))
        operation = api.post("/api/navigation/sync").json
        assert operation["state"] == "ready"
        assert operation["duration_ms"] > 0
        assert operation["started_at"] > operation["finished_at"], "the times are not those that the clock showed"
    api.request("POST", "/api/evidence", picture(1), {"Content-Type": "image/png"})
    assert api.get("/api/control/state")["sync"] == "on"

    events = api.get("/api/events")["events"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["data"]["text"] for event in events if event["kind"] == "note"] == texts
    times = [event["at"] for event in events]
    assert times == sorted(times, reverse=True)
    with stage.service.services.database.read() as conn:
        assert record.verify(conn, evidence_root=stage.service.settings.evidence_dir).intact

    lesson = api.request("GET", "/api/report/lesson.html").body.decode()
    places = [lesson.index(text) for text in texts]
    assert places == sorted(places), "the report follows the order of events"
    assert api.request("GET", "/api/report/teams.md").status == 200
    for path, shape in (("/api/state", "State"), ("/api/progress", "Progress"), ("/api/health", "Health")):
        assert schemas.faults(shape, api.get(path)) == ()
    assert api.get("/api/health")["uptime_s"] >= 0

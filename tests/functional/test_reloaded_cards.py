"""A running service's card is overwritten with an invalid file. The service serves the last valid card, reports the
fault, and loads the next valid card."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cardapp.card.source import load_card
from cardapp.errors import InvalidCard
from cardapp.serve import Service
from cardapp.web import schemas
from tests.cardapp.mutation import Mutation, mutations
from tests.functional.serving import Api, make_card, running_service

pytestmark = pytest.mark.functional

SHAPES = {
    "/api/sheets": "Sheets",
    "/api/identity": "Identity",
    "/api/card-revision": "CardRevision",
    "/api/state": "State",
    "/api/control/state": "Control",
    "/api/navigation/catalog": "Catalog",
    "/api/navigation/current": "Navigation",
    "/api/progress": "Progress",
    "/api/allocator": "Allocator",
    "/api/health": "Health",
}
REPORTS = ("/api/report/teams.md", "/api/report/lesson.html")


@pytest.fixture
def service() -> Iterator[Service]:
    with running_service() as service:
        yield service


@pytest.fixture
def sound(service: Service, caplog: pytest.LogCaptureFixture) -> Iterator[Any]:
    """The served card as it was before any change. Nothing may fail inside the service."""
    yield json.loads(service.services.card_loader.current().path.read_bytes())
    assert "Traceback" not in caplog.text


def expected_health(file: Path) -> dict[str, Any]:
    """What the service reports about the card in ``file``."""
    try:
        load_card(file)
    except InvalidCard as fault:
        return {"ok": False, "reason": fault.detail}
    return {"ok": True, "reason": None}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data(), st.sampled_from([-2, -1, 1, 2]))
def test_every_endpoint_serves_while_the_card_file_changes(
    service: Service, sound: Any, data: st.DataObject, delta: int
) -> None:
    file = service.services.card_loader.current().path
    mutation: Mutation = data.draw(mutations(sound))
    file.write_bytes(mutation.of(sound))
    api = Api.tcp(service.listener.port)
    for path, shape in SHAPES.items():
        assert schemas.faults(shape, api.get(path)) == ()
    for path in REPORTS:
        assert api.request("GET", path).status == 200
    moved = api.post("/api/navigation/move", {"level": "step", "delta": delta})
    assert (moved.status, schemas.faults("Moved", moved.json)) == (200, ())
    assert api.get("/api/health")["card"] == expected_health(file)
    file.write_text(json.dumps(sound))
    assert api.get("/api/health")["card"]["ok"]
    assert api.get("/api/identity")["uuid"] == sound["uuid"]


def test_the_card_of_the_chosen_session_of_a_series_is_served(state_dir: Path) -> None:
    series = state_dir / "series"
    for number in (1, 2):
        make_card(series / f"session-{number}", uuid=f"aaaaaaaa-0000-4000-8000-00000000000{number}")
    outside = make_card(state_dir / "outside", uuid="aaaaaaaa-0000-4000-8000-000000000003")
    with running_service(lambda _folder: series / "session-1", CARD_SERIES=str(series)) as service:
        api = Api.tcp(service.listener.port)

        def served_after_choice_of(name: str) -> str:
            service.settings.mcp_choice.write_text(json.dumps({"name": name, "socket": "/nonexistent"}))
            identity: str = api.get("/api/identity")["uuid"]
            return identity[-1]

        assert api.get("/api/identity")["uuid"][-1] == "1"  # no session is chosen
        assert served_after_choice_of("session-2") == "2"
        for other in ("default", "", "..", f"../{outside.name}", str(outside), "session-1\0"):
            assert served_after_choice_of(other) == "2"
        assert served_after_choice_of("session-1") == "1"

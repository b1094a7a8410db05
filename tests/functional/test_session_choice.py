"""Another session is chosen: the service reaches it at once, and says which card it runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.functional.serving import Stage, make_card, position, running_stage, until
from tests.functional.test_websockets import LIVE, connect, received

pytestmark = [pytest.mark.functional]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """The service on one card, with a session on that card (``s``, chosen) and a session on another card (``b``)."""
    with running_stage(make_card) as found:
        other = make_card(found.card.with_name("other"), uuid="bbbbbbbb-0000-4000-8000-000000000002")
        found.sessions.start(other, "b")
        yield found
        found.sessions.stop("b")


def choose(stage: Stage, name: str) -> None:
    """Replace the choice as ``card-session select`` does, without the time that the command takes to start."""
    choice = stage.service.settings.mcp_choice
    socket = stage.sessions.session(name).path / "run" / "mcp.sock"
    fresh = choice.with_suffix(".new")
    fresh.write_text(json.dumps({"name": name, "socket": str(socket)}))
    fresh.rename(choice)


def known(stage: Stage) -> Any:
    return stage.tcp.get("/api/control/state")["session"]


def choose_the_served_card(stage: Stage) -> None:
    choose(stage, "s")
    until(lambda: (session := known(stage))["name"] == "s" and session["card"] and session["mismatch"] is None)


def test_the_control_state_says_that_another_card_was_chosen(stage: Stage) -> None:
    choose_the_served_card(stage)
    choose(stage, "b")
    session = until(lambda: (found := known(stage))["mismatch"] and found)
    assert (session["name"], session["mismatch"]["code"]) == ("b", "other_card")
    assert session["card"] == {"id": "probe", "uuid": "bbbbbbbb-0000-4000-8000-000000000002", "title": "Probe"}
    assert "bin/cardapp serve" in session["mismatch"]["detail"]
    full = stage.tcp.get("/api/session")
    assert (full["mismatch"], full["card"]["title"]) == (session["mismatch"], "Probe")
    stage.tcp.put("/api/navigation/current", position("quick"))
    refused = stage.tcp.post("/api/navigation/sync")
    assert (refused.status, refused.json["code"]) == (409, "identity_mismatch")
    assert refused.json["detail"] == full["mismatch"]["detail"]
    # The copy of the other card has no changes to tell or to restore.
    source = stage.sessions.session("b").work / "probe" / "main.c"
    original = source.read_text()
    source.write_text("int edited;\n")
    assert stage.tcp.get("/api/session")["changes"] is None
    answer = stage.tcp.post("/api/session/restore")
    assert (answer.status, answer.json["code"]) == (409, "identity_mismatch")
    assert source.read_text() == "int edited;\n"
    source.write_text(original)
    choose_the_served_card(stage)
    assert stage.tcp.post("/api/navigation/sync").json["state"] == "ready"


def test_the_page_is_told_without_asking(stage: Stage) -> None:
    choose_the_served_card(stage)
    live = connect(stage.service, LIVE)
    received(live)
    choose(stage, "b")
    until(lambda: received(live)["session"]["mismatch"])
    live.close()
    choose(stage, "s")


def test_keys_go_to_the_chosen_session(stage: Stage) -> None:
    for name in ("b", "s"):
        choose(stage, name)
        keys = {"text": f"<Esc>:let g:typed = '{name}'<CR>"}
        until(lambda keys=keys: stage.tcp.post("/api/editor/input", keys).status == 200)  # Neovim may still be busy
        until(lambda at=name: stage.sessions.session(at).editor("get(g:, 'typed', '')") == at)

"""The cards of a series: the list with sessions and progress, and the choice among the sessions that run."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cardapp.session_client.link import SessionLink
from cardapp.session_client.series import Series
from cardapp.web.services import Services
from tests.cardapp.web.conftest import Api, card_source

UUIDS = {"two": "22222222-2222-3333-4444-555555555555", "bad": "33333333-2222-3333-4444-555555555555"}
EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture
def run_session(state_dir: Path) -> Iterator[Callable[[str], Path]]:
    """Listen on the MCP socket of a session."""
    with ExitStack() as ends:

        def run(name: str) -> Path:
            folder = state_dir / "sessions" / name / "run"
            folder.mkdir(parents=True)
            listener = ends.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(folder / "mcp.sock"))
            listener.listen()
            return folder / "mcp.sock"

        yield run


def make_card(folder: Path, name: str, title: str) -> Path:
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.c").write_text("x\nx\nx\n")
    source = card_source() | {"id": name, "uuid": UUIDS[name], "title": title}
    (folder / "card_source.json").write_text(json.dumps(source))
    return folder / "card_source.json"


@pytest.fixture
def series(services: Services, card_file: Path, tmp_path: Path) -> Api:
    """The API with a series of three cards, of which the last is invalid. The first is served."""
    folder = tmp_path / "series"
    folder.mkdir()
    bad = make_card(tmp_path / "bad", "bad", "Bad")
    bad.write_text("{")
    sources = {"small": card_file, "two": make_card(tmp_path / "two", "two", EVIL), "bad": bad}
    for number, (name, source) in enumerate(sources.items()):
        (folder / name).symlink_to(source)
        os.utime(folder / name, (number, number), follow_symlinks=False)
    settings = replace(services.settings, card_series=folder)
    found = Series(settings, SessionLink(settings.mcp_choice), services.card_loader)
    return Api(replace(services, settings=settings, series=found))


def test_the_cards_are_listed_in_their_order_with_progress_and_sessions(
    series: Any, run_session: Callable[[str], Path]
) -> None:
    run_session("two")
    series("PUT", "/api/progress/t1.b1.p1.s1", {"status": "approved"})
    found = series.get("/api/cards")
    names = ("card", "title", "current", "running", "progress")
    assert [[card[name] for name in names] for card in found["cards"]] == [
        ["small", "Small", True, False, {"total": 4, "approved": 1}],
        ["two", EVIL, False, True, {"total": 4, "approved": 0}],
        ["bad", None, False, False, None],
    ]
    assert (found["current"], found["progress"]) == ("small", {"total": 8, "approved": 1})
    assert "bad" in found["cards"][2]["fault"]
    assert found["cards"][0]["command"].startswith("CARD_STATE_DIR=")


def test_a_session_that_runs_is_chosen(series: Any, run_session: Callable[[str], Path], services: Services) -> None:
    sock = run_session("two")
    series("PUT", "/api/cards/current", {"card": "two", "actor": "ada"}, status=200)
    choice = json.loads(services.settings.mcp_choice.read_text())
    assert choice == {"name": "two", "socket": str(sock.resolve())}
    (event,) = series.get("/api/events?kind=card.chosen")["events"]
    assert (event["actor"], event["data"]) == ("ada", {"card": "two"})


def test_without_a_session_the_command_that_starts_it_is_told(series: Any, services: Services) -> None:
    refused = series("PUT", "/api/cards/current", {"card": "two"}, status=409).json
    assert refused["code"] == "no_session"
    assert "bin/card-session start --name two " in refused["command"]
    assert refused["command"] in refused["detail"]
    assert not services.settings.mcp_choice.exists()


def test_an_unknown_card_is_refused(series: Any, services: Services) -> None:
    for name in ("three", "../small", "..", "SMALL", "small/../two", "x" * 255):
        refused = series("PUT", "/api/cards/current", {"card": name}, status=404).json
        assert "small, two, bad" in refused["detail"], name
    assert not services.settings.mcp_choice.exists()


def test_without_a_series_the_served_card_is_listed(api: Any) -> None:
    (card,) = api.get("/api/cards")["cards"]
    assert (card["card"], card["current"], card["running"]) == ("small", True, False)

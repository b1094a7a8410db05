"""The page recovers when the service, the session or the browser is slow or stops for a while."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import expect

from cardapp import settings
from cardapp.serve import Service
from tests.browser.conftest import ARENA, VIEW, OpenPage, Tab, becomes, stage_of
from tests.functional.serving import Stage, until
from tests.functional.session_neovim import Neovim

pytestmark = [pytest.mark.functional, pytest.mark.usefixtures("fresh_place")]

PLACE = """() => [
  document.getElementById('page-number').textContent, Math.round(document.getElementById('scroller').scrollTop),
  document.getElementById('memory').hidden, document.getElementById('trail').textContent]"""
FILLS = """() => {
  const rows = Number(document.querySelector('#editor .panel-head .quiet').textContent.split(' × ')[1]);
  const canvas = document.querySelector('#editor canvas');
  return Math.floor(canvas.parentElement.clientHeight * rows / parseFloat(canvas.style.height)) === rows;
}"""
"""Whether the editor's grid has as many rows as its panel has room for."""


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """One of its own, because its processes end here."""
    with stage_of(ARENA, with_session=True) as stage:
        yield stage


@contextmanager
def service_away(stage: Stage) -> Iterator[None]:
    """The service is stopped; then it comes back on the same port and state directory."""
    port = stage.service.listener.port
    stage.service.stop()
    try:
        yield
    finally:
        stage.service = Service(settings.load(stage.environment | {"CARD_API_PORT": str(port)}))
        stage.service.start()


def shows_the_screen(opened: OpenPage, stage: Stage) -> None:
    """Wait until the panel shows what Neovim shows."""
    neovim = Neovim(stage)
    try:
        until(lambda: (screen := neovim.screen()).strip() and opened.picture() == screen, 30)
    finally:
        neovim.close()


def forgive(opened: OpenPage) -> None:
    """Only requests while the service is stopped may fail."""
    expected = ("ERR_CONNECTION_REFUSED", "RESET", "ERR_EMPTY_RESPONSE")
    opened.faults[:] = [fault for fault in opened.faults if not any(each in fault for each in expected)]


def test_an_open_page_survives_a_restart_of_the_service(tab: Tab, stage: Stage, scratch: Neovim) -> None:
    opened = tab("#/bump/requests/three-requests/first")
    page = opened.page
    opened.keys("Alt+6")
    until(lambda: stage.tcp.get("/api/viewer/state")["viewer"]["allocator"]["visible"])
    page.locator("#scroller").evaluate("(element) => element.scrollTo(0, 250)")
    until(lambda: stage.tcp.get("/api/viewer/state")["scroll"]["sheet_scroll_top"] > 0)
    opened.control(stage)
    page.keyboard.type("ibefore")
    until(lambda: scratch.lines() == ["before"])
    shows_the_screen(opened, stage)
    place = page.evaluate(PLACE)
    with service_away(stage):
        page.get_by_text("The service does not answer.").wait_for()
        page.locator("#editor .overlay", has_text="Keys are lost until the editor is connected again").wait_for()
        page.keyboard.type("lost")
        field = page.get_by_label("Your answer")
        field.fill("written while it was away")
        field.press("Enter")
        opened.button("Zoom in").click()
    page.get_by_text("The service does not answer.").wait_for(state="hidden")
    page.locator("#editor .overlay").wait_for(state="hidden")
    assert scratch.lines() == ["before"]
    shows_the_screen(opened, stage)
    assert page.evaluate(PLACE)[2:] == place[2:]
    assert page.evaluate(PLACE)[0] == place[0]
    until(lambda: stage.tcp.get("/api/viewer/state")["viewer"]["page"]["fit"] is False)
    answers = until(lambda: stage.tcp.get("/api/events?kind=x-answer")["events"])
    assert [answer["data"]["text"] for answer in answers] == ["written while it was away"]
    page.locator("#editor canvas").click(position={"x": 200, "y": 8})  # in the code
    page.keyboard.type(" after")
    until(lambda: scratch.lines() == ["before after"])
    assert stage.tcp.post("/api/navigation/move", {"level": "step", "delta": 1}).status == 200
    becomes(page, "(before) => document.getElementById('trail').textContent !== before", arg=place[3])
    forgive(opened)


def test_an_open_page_survives_a_killed_neovim_and_a_restart_of_the_session(tab: Tab, stage: Stage) -> None:
    opened = tab()
    page = opened.page
    overlay, size = page.locator("#editor .overlay"), page.locator("#editor .panel-head .quiet")
    becomes(page, FILLS)
    shows_the_screen(opened, stage)
    place, before = page.evaluate(PLACE), size.inner_text()
    with service_away(stage):
        pass
    until(lambda: len(stage.service.websockets) == 2, 30)
    shows_the_screen(opened, stage)
    page.locator("#notice").wait_for(state="hidden")
    assert page.evaluate(PLACE) == place
    os.kill(stage.sessions.session().pid("nvim"), signal.SIGKILL)
    overlay.get_by_text("bin/card-session reset").wait_for()
    page.locator("#editor .canvas-area.detached").wait_for()
    assert stage.sessions.run("reset", "s").returncode == 0
    overlay.wait_for(state="hidden")
    shows_the_screen(opened, stage)
    expect(size).to_have_text(before)
    stage.sessions.stop()
    overlay.get_by_text("No session", exact=True).wait_for()
    overlay.get_by_text("bin/card-session start").first.wait_for()
    opened.shows("no session")
    stage.sessions.start(stage.card)
    overlay.wait_for(state="hidden")
    shows_the_screen(opened, stage)
    page.locator("#scroller").focus()
    opened.keys("Enter")
    opened.shows("SYNC ON · at this step")
    forgive(opened)


def test_a_detached_panel_keeps_its_last_picture_greyed(tab: Tab, stage: Stage, scratch: Neovim) -> None:
    opened = tab()
    page = opened.page
    scratch.call("nvim_buf_set_lines", 0, 0, -1, False, ["the last picture"])
    shows_the_screen(opened, stage)
    page.get_by_label("Live").uncheck()
    until(lambda: len(stage.service.websockets) == 1)
    page.locator("#editor .canvas-area.detached").wait_for()
    assert "grayscale" in page.locator("#editor canvas").evaluate("(canvas) => getComputedStyle(canvas).filter")
    wanted: Any = VIEW["viewer"]
    assert stage.tcp.get("/api/viewer/state")["viewer"]["editor"] == {**wanted["editor"], "sync": False}
    scratch.call("nvim_buf_set_lines", 0, 0, -1, False, ["a later one"])
    assert "the last picture" in opened.picture()
    opened.button("Attach").click()
    shows_the_screen(opened, stage)
    assert "a later one" in opened.picture()
    page.locator("#editor .canvas-area:not(.detached)").wait_for()

"""The menu of the page: the learner's name, the choice among learners and cards, downloads, and the switch Teacher."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import ARENA, OpenPage, Tab, stage_of
from tests.browser.tour import switch_teacher
from tests.functional.serving import Stage, until

pytestmark = pytest.mark.functional

STEP, ITEM = "bump/anatomy/empty/fields", "bump.anatomy.empty.fields"
EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """The application without a session and, before the first test, without names."""
    with stage_of(ARENA) as stage:
        yield stage


@pytest.fixture
def tabs(browser: Browser, stage: Stage) -> Iterator[Any]:
    """Not asked for its name yet."""
    made = browser.new_context(viewport={"width": 1280, "height": 720})
    yield made
    made.close()


@pytest.fixture
def tab(tabs: Any, stage: Stage) -> Tab:
    def open_tab(address: str = "") -> OpenPage:
        opened = OpenPage(tabs.new_page())
        opened.page.goto(f"http://127.0.0.1:{stage.service.listener.port}/{address}")
        return opened.ready()

    return open_tab


def learners(stage: Stage) -> list[str]:
    return [each["name"] for each in stage.tcp.get("/api/learners")["learners"]]


def begin(stage: Stage, name: str) -> None:
    """Make a learner, who is the current one from then on."""
    assert stage.tcp.post("/api/learners", {"name": name}).status == 200


def teachers(stage: Stage) -> list[tuple[str, str]]:
    events = stage.tcp.get("/api/events?kind=x-teacher")["events"]
    return [(event["key"], event["data"]["text"]) for event in events]


def names(page: Page, name: str) -> None:
    expect(page.locator("#menu")).to_have_text(f"Menu · {name}")


def test_a_new_browser_is_asked_once_for_a_name_and_the_work_keeps_it(tab: Tab, stage: Stage) -> None:
    page = tab().page
    page.get_by_role("button", name="Not now").click()
    expect(page.locator("#ask-name")).to_be_hidden()
    page.reload()
    page.locator("#sheets .sheet").first.wait_for()
    expect(page.locator("#ask-name")).to_be_hidden()
    assert learners(stage) == ["unnamed"]
    for hidden in ("Program", "Locals", "Call stack"):  # without a session there is nothing to move
        expect(page.get_by_label(hidden, exact=True)).to_be_hidden()
    page.evaluate("localStorage.clear()")
    stage.tcp.put(f"/api/progress/{ITEM}", {"status": "approved"})
    page.reload()
    form = page.get_by_role("form", name="Your name")
    form.get_by_role("textbox").fill("Ada Lovelace")
    page.keyboard.press("Enter")
    expect(form).to_be_hidden()
    names(page, "Ada Lovelace")
    assert learners(stage) == ["Ada Lovelace"]
    assert stage.tcp.get("/api/progress")["summary"]["approved"] == 1
    page.reload()
    names(page, "Ada Lovelace")
    expect(form).to_be_hidden()


def test_a_new_learner_begins_afresh_and_an_earlier_one_goes_on(tab: Tab, stage: Stage) -> None:
    begin(stage, "Alan Turing")
    before = learners(stage)
    stage.tcp.put(f"/api/progress/{ITEM}", {"status": "approved"})
    page, other = tab(f"#{STEP}").page, tab().page
    new = page.get_by_role("textbox", name="Name of a new learner")
    page.locator("#foot-values input").first.fill("77")
    page.locator("#menu").click()
    new.fill(EVIL)
    page.keyboard.press("Enter")
    for each in (page, other):  # every open page shows the new record
        names(each, EVIL)
        expect(each.locator("#tally")).to_contain_text("0 of")
    page.evaluate("(key) => { location.hash = `#/${key}`; }", STEP)
    expect(page.locator("#foot-values input").first).to_have_value("")
    page.locator("#menu").click()
    page.locator("#learners").get_by_role("button", name="Alan Turing").click()
    names(page, "Alan Turing")
    expect(page.locator("#tally")).to_contain_text("1 of")
    page.locator("#menu").click()
    new.fill("alan TURING")
    page.get_by_role("button", name="New learner").click()
    expect(page.locator("#menu-said")).to_contain_text("There is already a learner 'Alan Turing'")
    assert learners(stage) == [*before, EVIL]


def test_each_use_of_the_switch_teacher_is_an_event_of_one_learner(tab: Tab, stage: Stage) -> None:
    begin(stage, "Bob")
    page = tab(f"#{STEP}").page
    for on in (True, False, True):
        before = len(teachers(stage))
        switch_teacher(page, on=on)
        until(lambda: len(teachers(stage)) == before + 1)  # noqa: B023
    assert teachers(stage) == [(STEP, "on"), (STEP, "off"), (STEP, "on")]
    begin(stage, "Eve")
    names(page, "Eve")
    expect(page.locator("#teacher")).not_to_be_checked()
    assert teachers(stage) == []


def test_answers_and_sheets_are_saved_from_the_menu(tab: Tab, stage: Stage, tmp_path: Path) -> None:
    begin(stage, "Zoë")
    page = tab().page
    saved = []
    for name in ("Answers as CSV", "Answers as JSON", "Sheets as HTML"):
        page.locator("#menu").click()
        with page.expect_download(timeout=120_000) as download:
            page.get_by_role("link", name=name).click()
        saved.append(tmp_path / download.value.suggested_filename)
        download.value.save_as(saved[-1])
        page.keyboard.press("Escape")
    assert [each.name for each in saved] == ["answers-arena-Zoë.csv", "answers-arena-Zoë.json", "arena.html"]
    assert json.loads(saved[1].read_bytes())["learner"] == "Zoë"
    assert saved[2].read_bytes().startswith(b"<!DOCTYPE html>")
    page.locator("#menu").click()
    assert page.get_by_role("link", name="Sheets as PDF").get_attribute("href") == "/api/sheets/card.pdf"

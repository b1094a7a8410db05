"""The menu of the page: the learner's name, the choice among learners and cards, downloads, and the switch Teacher."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import ARENA, OpenPage
from tests.browser.tour import switch_teacher
from tests.functional.serving import Stage, until

pytestmark = pytest.mark.functional

STEP, ITEM = "bump/anatomy/empty/fields", "bump.anatomy.empty.fields"
EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """The application without a session. The first two tests need a state without names."""
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as folder:
        stage = Stage(Path(folder) / "state", ARENA)
        yield stage
        stage.close()


@pytest.fixture
def unasked(browser: Browser, stage: Stage) -> Iterator[Callable[[], Page]]:
    """Opens the page in a browser without stored data."""
    made = browser.new_context(viewport={"width": 1280, "height": 720})

    def open_page() -> Page:
        found = OpenPage(made.new_page())
        found.page.goto(f"http://127.0.0.1:{stage.service.listener.port}/")
        return found.ready().page

    yield open_page
    made.close()


def learners(stage: Stage) -> list[str]:
    return [each["name"] for each in stage.tcp.get("/api/learners")["learners"]]


def kinds(stage: Stage) -> list[str]:
    return [event["kind"] for event in stage.tcp.get("/api/events?limit=1000")["events"]]


def test_the_question_for_a_name_can_be_put_off_for_good(unasked: Callable[[], Page], stage: Stage) -> None:
    page = unasked()
    page.get_by_role("button", name="Not now").click()
    expect(page.locator("#ask-name")).to_be_hidden()
    page.reload()
    page.locator("#sheets .sheet").first.wait_for()
    expect(page.locator("#ask-name")).to_be_hidden()
    assert learners(stage) == ["unnamed"]


def test_a_new_browser_is_asked_once_for_a_name_and_the_work_keeps_it(
    unasked: Callable[[], Page], stage: Stage
) -> None:
    stage.tcp.put(f"/api/progress/{ITEM}", {"status": "approved"})
    page = unasked()
    form = page.get_by_role("form", name="Your name")
    form.get_by_role("textbox").fill("Ada Lovelace")
    page.keyboard.press("Enter")
    expect(form).to_be_hidden()
    expect(page.locator("#menu")).to_have_text("Menu · Ada Lovelace")
    assert learners(stage) == ["Ada Lovelace"]
    assert stage.tcp.get("/api/progress")["summary"]["approved"] == 1
    page.reload()
    expect(page.locator("#menu")).to_have_text("Menu · Ada Lovelace")
    expect(form).to_be_hidden()


def test_a_new_learner_begins_afresh_and_an_earlier_one_goes_on(tab: Any, stage: Stage) -> None:
    page, other = tab().page, tab().page
    page.locator("#menu").click()
    page.get_by_role("textbox", name="Name of a new learner").fill(EVIL)
    page.keyboard.press("Enter")
    expect(page.locator("#menu")).to_have_text(f"Menu · {EVIL}")
    expect(page.locator("#tally")).to_contain_text("0 of")
    expect(other.locator("#menu")).to_have_text(f"Menu · {EVIL}")  # every open page shows the new record
    page.locator("#menu").click()
    page.locator("#learners").get_by_role("button", name="Ada Lovelace").click()
    expect(page.locator("#menu")).to_have_text("Menu · Ada Lovelace")
    expect(page.locator("#tally")).to_contain_text("1 of")
    assert learners(stage) == ["Ada Lovelace", EVIL]


@pytest.mark.full
def test_a_name_that_is_taken_is_refused_with_the_reason(tab: Any, stage: Stage) -> None:
    before = learners(stage)
    page = tab().page
    page.locator("#menu").click()
    page.get_by_role("textbox", name="Name of a new learner").fill("ada LOVELACE")
    page.get_by_role("button", name="New learner").click()
    expect(page.locator("#menu-said")).to_contain_text("There is already a learner 'Ada Lovelace'")
    assert learners(stage) == before


@pytest.mark.full
def test_what_was_typed_does_not_go_to_the_next_learner(tab: Any, stage: Stage) -> None:
    page = tab(f"#{STEP}").page
    page.locator("#foot-values input").first.fill("77")
    page.locator("#menu").click()
    page.get_by_role("textbox", name="Name of a new learner").fill("Bob")
    page.keyboard.press("Enter")
    expect(page.locator("#menu")).to_have_text("Menu · Bob")
    page.evaluate("(key) => { location.hash = `#/${key}`; }", STEP)
    expect(page.locator("#foot-values input").first).to_have_value("")


@pytest.mark.full
def test_each_use_of_the_switch_teacher_is_an_event(tab: Any, stage: Stage) -> None:
    page = tab(f"#{STEP}").page
    switch_teacher(page, on=True)
    until(lambda: kinds(stage).count("x-teacher") == 1)
    switch_teacher(page, on=False)
    until(lambda: kinds(stage).count("x-teacher") == 2)
    found = stage.tcp.get("/api/events?kind=x-teacher")["events"]
    assert [(event["key"], event["data"]) for event in found] == [(STEP, {"text": "on"}), (STEP, {"text": "off"})]


@pytest.mark.full
def test_the_switch_teacher_is_off_for_another_learner(tab: Any, stage: Stage) -> None:
    page = tab(f"#{STEP}").page
    switch_teacher(page, on=True)
    until(lambda: "x-teacher" in kinds(stage))
    stage.tcp.post("/api/learners", {"name": "Eve"})
    expect(page.locator("#menu")).to_have_text("Menu · Eve")
    expect(page.locator("#teacher")).not_to_be_checked()
    assert "x-teacher" not in kinds(stage)


def saved_from_menu(page: Page, name: str, folder: Path) -> Path:
    page.locator("#menu").click()
    with page.expect_download(timeout=120_000) as download:
        page.get_by_role("link", name=name).click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    page.keyboard.press("Escape")
    return path


def test_answers_and_sheets_are_saved_from_the_menu(tab: Any, stage: Stage, tmp_path: Path) -> None:
    stage.tcp.post("/api/learners", {"name": "Zoë"})
    page = tab().page
    names = ("Answers as CSV", "Answers as JSON", "Sheets as HTML")
    csv, answers, html = (saved_from_menu(page, name, tmp_path) for name in names)
    assert (csv.name, answers.name, html.name) == ("answers-arena-Zoë.csv", "answers-arena-Zoë.json", "arena.html")
    assert json.loads(answers.read_bytes())["learner"] == "Zoë"
    assert html.read_bytes().startswith(b"<!DOCTYPE html>")
    page.locator("#menu").click()
    assert page.get_by_role("link", name="Sheets as PDF").get_attribute("href") == "/api/sheets/card.pdf"


@pytest.mark.full
def test_a_pdf_is_saved_from_the_menu(tab: Any, tmp_path: Path) -> None:
    pdf = saved_from_menu(tab().page, "Sheets as PDF", tmp_path)
    assert pdf.name == "arena.pdf"
    assert pdf.read_bytes().startswith(b"%PDF-")


def test_keys_that_are_typed_in_the_menu_do_nothing_on_the_page(tab: Any, stage: Stage) -> None:
    page = tab(f"#{STEP}").page
    page.locator("#menu").click()
    page.locator("#menu-close").focus()
    page.keyboard.press("a")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Escape")
    expect(page.locator("#menu-panel")).to_be_hidden()
    assert stage.tcp.get("/api/progress")["summary"]["approved"] == 0
    assert stage.tcp.get("/api/navigation/current")["key"] == STEP


@pytest.mark.full
def test_a_learner_who_is_made_in_a_terminal_is_shown_by_the_open_page(tab: Any, stage: Stage) -> None:
    page = tab().page
    environment = {**os.environ, "CARD_STATE_DIR": str(stage.service.settings.state_dir)}
    command = [sys.executable, "-P", "-m", "cardapp", "new-learner", "Grace Hopper"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert "Grace Hopper has a new, empty record" in done.stdout
    expect(page.locator("#menu")).to_have_text("Menu · Grace Hopper")
    (event,) = stage.tcp.get("/api/events")["events"]
    assert (event["kind"], event["card"]["id"]) == ("learner.named", "arena")

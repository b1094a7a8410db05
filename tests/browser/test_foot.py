"""The foot of the worksheet: predict, run, see which predictions were right, go on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import CARDS, OpenPage, Tab, becomes, stage_of
from tests.functional.serving import Stage, make_card, position, running_stage, until

pytestmark = pytest.mark.functional

STEPS = ("first", "right", "hints", "words", "unknown", "shown", "again")
PHASE = "t1/b1/p1"
HINTS = ["Read the *first* line of `main`.", "One line has run."]


def learning_card(folder: Path) -> Path:
    """The card of the tests, with a step for each test here. Each has two stops, at which ``n`` is 1 and 2."""
    card = make_card(folder) / "card_source.json"
    source = json.loads(card.read_text())
    phase = source["tasks"][0]["blocks"][0]["phases"][0]
    first, second = phase["steps"][0]["snapshots"]
    first |= {"expect": {"n": "1", "&n": {"undefined": True}}, "ask": ["n"]}
    first |= {"hints": HINTS, "explanation": "It is `1`."}
    question = {"question": "What is `n`?", "snapshots": [first, second]}
    phase["steps"] = [{"id": name, "title": f"Step {name}", **question} for name in STEPS]
    card.write_text(json.dumps(source))
    return folder


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with running_stage(learning_card) as stage:
        yield stage


def field(page: Page) -> Any:
    return page.get_by_role("textbox", name="n", exact=True)


def answers(stage: Stage, step: str, stop: str = "first") -> dict[str, Any]:
    items: list[dict[str, Any]] = stage.tcp.get(f"/api/answers?key={PHASE}/{step}/{stop}")["items"]
    return items[0] if items else {}


def progress(stage: Stage, step: str) -> dict[str, Any]:
    return next(each for each in stage.tcp.get("/api/progress")["items"] if each["key"] == f"{PHASE}/{step}")


def generation(stage: Stage) -> int:
    found: int = stage.tcp.get("/api/checkpoint/status")["generation"]
    return found


def focuses(page: Page, name: str) -> None:
    """Wait until the control of this name has the focus."""
    becomes(
        page,
        "(name) => (document.activeElement.ariaLabel ?? document.activeElement.textContent).replace(' ⏎', '') === name",
        name,
    )


COVERED = """(wanted) => wanted.every(([key, covered]) => {
  const parts = [...sheets.shadowRoot.querySelectorAll('.part[data-kind=machine]')];
  const part = parts.find((each) => each.dataset.key === key);
  return part.classList.contains('covered') === covered;
})"""


def test_a_learner_predicts_runs_and_goes_on_with_one_key(tab: Tab, stage: Stage) -> None:
    opened = tab(f"#/{PHASE}/first")
    page = opened.page
    foot = page.locator("#foot")
    foot.get_by_text("Step 1 of 7 · stop 1 of 2").wait_for()
    foot.get_by_text("Not run yet").wait_for()
    sheet = page.locator("#sheets .sheet").first.bounding_box()
    page.keyboard.type("7")
    assert field(page).input_value() == "7"
    opened.keys("Enter")
    focuses(page, "Run to the stop")
    opened.keys("Enter")
    opened.button("Next").wait_for()
    assert foot.get_by_role("row", name="n 7").inner_text().split() == ["n", "7", "✗", "wrong", "1"]
    assert foot.get_by_role("row", name="&n").inner_text().split() == ["&n", "—", "undefined"]
    foot.get_by_text("Stopped here").wait_for()
    assert page.locator("#sheets .sheet").first.bounding_box() == sheet, "the proof does not push the sheet"
    focuses(page, "Next")
    opened.keys("Enter")
    foot.get_by_text("stop 2 of 2").wait_for()
    focuses(page, "n")
    opened.button("Forward").click()
    foot.get_by_text("Not run yet").wait_for()
    foot.get_by_text("Stopped at 1.1.1.1").wait_for()
    expect(page.get_by_role("treeitem", name="Step first")).to_have_text(re.compile(r"◐\s*1/2$"))
    until(lambda: answers(stage, "first").get("right_first") is False)


def test_what_is_right_is_quiet_and_each_stop_covers_its_own_values(tab: Tab) -> None:
    opened = tab(f"#/{PHASE}/right")
    page = opened.page
    foot = page.locator("#foot")
    field(page).fill("0x1")
    opened.keys("Enter", "Enter")
    opened.button("Next").wait_for()
    assert "wrong" not in foot.get_by_role("row", name="n 0x1").inner_text()
    expect(foot).to_contain_text("1 of 1 right")
    becomes(page, COVERED, arg=[[f"{PHASE}/right/first", False], [f"{PHASE}/right/second", True]])
    opened.button("Next stop").click()
    expect(foot).to_contain_text("Stopped at stop 1")
    opened.keys("Enter")  # the current stop, not the first again
    expect(foot).to_contain_text("Stopped here")
    becomes(page, COVERED, arg=[[f"{PHASE}/right/first", False], [f"{PHASE}/right/second", False]])
    opened.keys("Shift+ArrowLeft")
    expect(foot).to_contain_text("Run before")
    assert "Stopped here" not in foot.inner_text(), "the program is at the second stop"
    opened.keys("Shift+ArrowRight")
    expect(foot).to_contain_text("stop 2 of 2")


def test_hints_open_one_by_one_and_the_explanation_comes_after(tab: Tab, stage: Stage) -> None:
    opened = tab(f"#/{PHASE}/hints")
    page = opened.page
    foot = page.locator("#foot")
    expect(foot).to_contain_text(re.compile(r"have before line \d+ of main\.c\?"))
    assert foot.get_by_text("Read the first line").count() == 0
    before = opened.button("Hint").bounding_box()
    opened.button("Hint").click()
    foot.get_by_text("Read the first line").wait_for()
    assert foot.get_by_text("One line has run").count() == 0
    assert opened.button("Hint").bounding_box() == before, "the next hint is where the pointer is"
    focuses(page, "n")
    page.reload()
    foot.get_by_text("hint 1 of 2").wait_for()
    opened.button("Hint").click()
    foot.get_by_text("One line has run").wait_for()
    assert opened.button("Hint").count() == 0
    assert foot.get_by_text("It is 1.").count() == 0
    opened.keys("F2")
    foot.get_by_text("It is 1.").wait_for()
    until(lambda: answers(stage, "hints").get("hints") == 2)


def test_an_answer_in_words_is_judged_by_the_learner_and_kept_with_a_note(tab: Tab, stage: Stage) -> None:
    opened = tab(f"#/{PHASE}/words")
    page = opened.page
    answer = page.get_by_role("textbox", name="Your answer")
    answer.fill("one, after the first line")
    answer.press("Enter")
    focuses(page, "Run to the stop")
    assert opened.button("Partly").count() == 0
    opened.keys("Enter")
    opened.button("Partly").click()
    until(lambda: answers(stage, "words").get("self") == "partly")
    note = page.get_by_role("textbox", name="Note on this step")
    note.fill("look here again")
    note.press("Enter")
    page.get_by_text("Note kept.").wait_for()
    item = progress(stage, "words")
    assert (item["status"], item["note"]) == ("pending", "look here again"), "Enter approves nothing"
    page.reload()
    opened.button("Partly").and_(page.locator("[aria-pressed=true]")).wait_for()
    assert answer.input_value() == "one, after the first line"
    assert answers(stage, "words")["answer"] == "one, after the first line"
    expect(note).to_have_value("look here again")
    opened.button("No").focus()
    opened.keys("Enter")
    focuses(page, "Next")
    opened.keys("Enter")
    expect(page.locator("#foot")).to_contain_text("stop 2 of 2")


def test_running_without_a_prediction_is_recorded_as_looking_first(tab: Tab, stage: Stage) -> None:
    opened = tab(f"#/{PHASE}/unknown")
    page = opened.page
    opened.button("Predict").click()
    page.get_by_text("Write a value first").wait_for()
    focuses(page, "n")
    opened.button("I don’t know").click()
    opened.button("Next").wait_for()
    until(lambda: answers(stage, "unknown").get("looked_first") is True)
    assert stage.tcp.put("/api/navigation/current", position("shown")).status == 200
    machine = page.locator(f"[data-key='{PHASE}/shown/first'][data-kind=machine]")
    machine.get_by_role("button", name="Show values", exact=True).click()
    becomes(page, COVERED, arg=[[f"{PHASE}/shown/first", False], [f"{PHASE}/shown/second", True]])
    until(lambda: answers(stage, "shown").get("looked_first"))
    assert field(page).is_visible(), "a prediction is still possible"


def test_the_finish_page_says_what_was_right_and_what_to_look_at_again(tab: Tab, stage: Stage) -> None:
    last = f"{PHASE}/{STEPS[-1]}/second"
    opened = tab(f"#/{last}")
    page = opened.page
    field(page).fill("5  x")
    opened.keys("Enter", "Enter")
    opened.button("Next").click()
    finish = page.get_by_role("region", name="Results")
    finish.get_by_text(re.compile("predicted right at the first try")).wait_for()
    assert "n: you said 5  x, it is 2" in finish.inner_text()
    assert re.search(r"\d+ (s|min)\nof work", finish.inner_text())
    opened.keys("a")  # which would approve a step that is behind the results
    finish.get_by_role("link", name="Step again, stop 2").click()
    finish.wait_for(state="hidden")
    until(lambda: stage.tcp.get("/api/navigation/current")["key"] == last)
    assert progress(stage, STEPS[-1])["status"] == "pending"


def test_without_a_session_the_card_judges(context: BrowserContext) -> None:
    with stage_of(CARDS / "calc") as alone:
        stops = [item for item in alone.tcp.get("/api/navigation/catalog")["items"] if item["level"] == "snapshot"]
        opened = OpenPage(context.new_page())
        page = opened.page
        page.goto(f"http://127.0.0.1:{alone.service.listener.port}/")
        opened.ready()
        foot = page.locator("#foot")

        opened.go_to(stops[5]["key"])
        page.get_by_role("textbox", name=stops[5]["ask"][0], exact=True).wait_for()
        page.get_by_role("textbox", name="Your answer").fill("two blocks")
        opened.button("Predict").click()  # an answer in words alone is a look at the values
        becomes(page, COVERED, arg=[[stops[5]["key"], False]])
        until(lambda: any(each["revealed"] for each in alone.tcp.get(f"/api/answers?key={stops[5]['key']}")["items"]))

        opened.go_to(stops[2]["key"])
        for expression in stops[2]["ask"]:
            page.get_by_role("textbox", name=expression, exact=True).fill("77")
        opened.button("Predict").click()
        expect(foot).to_contain_text("By the card")
        assert "wrong" in foot.get_by_role("row", name="77").first.inner_text()
        becomes(page, COVERED, arg=[[stops[2]["key"], False]])

        opened.button("Next").click()
        focuses(page, stops[3]["ask"][0])
        assert opened.faults == []

"""The foot of the worksheet: predict, run, see which predictions were right, go on."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, Route

from cardapp.settings import ROOT
from tests.browser.conftest import OpenPage, becomes
from tests.functional.serving import Stage, make_card, position, running_stage, until

pytestmark = pytest.mark.functional

Tab = Callable[..., OpenPage]
STEPS = ("first", "right", "hints", "words", "note", "letters", "mouse", "unknown", "keys", "editor", "shown", "again")
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


def press(page: Page, name: str) -> Any:
    return page.get_by_role("button", name=name, exact=True)


def answers(stage: Stage, step: str, stop: str = "first") -> dict[str, Any]:
    items: list[dict[str, Any]] = stage.tcp.get(f"/api/answers?key={PHASE}/{step}/{stop}")["items"]
    return items[0] if items else {}


def status(stage: Stage, step: str) -> str:
    found: str = next(each for each in stage.tcp.get("/api/progress")["items"] if each["key"] == f"{PHASE}/{step}")[
        "status"
    ]
    return found


def focused(page: Page) -> str:
    """The name of the control that has the focus."""
    name: str = page.evaluate("document.activeElement.ariaLabel ?? document.activeElement.textContent")
    return name.removesuffix(" ⏎")


def test_a_learner_predicts_runs_and_goes_on_with_one_key(tab: Tab, stage: Stage) -> None:
    page = tab(f"#/{PHASE}/first").page
    foot = page.locator("#foot")
    foot.get_by_text("Step 1 of 12 · stop 1 of 2").wait_for()
    foot.get_by_text("Not run yet").wait_for()
    sheet = page.locator("#sheets .sheet").first.bounding_box()
    page.keyboard.type("7")
    assert field(page).input_value() == "7"
    page.keyboard.press("Enter")
    assert focused(page) == "Run to the stop"
    page.keyboard.press("Enter")
    press(page, "Next").wait_for()
    row = foot.get_by_role("row", name="n 7")
    assert row.inner_text().split() == ["n", "7", "✗", "wrong", "1"]
    assert foot.get_by_role("row", name="&n").inner_text().split() == ["&n", "—", "undefined"]
    foot.get_by_text("Stopped here").wait_for()
    assert page.locator("#sheets .sheet").first.bounding_box() == sheet, "the proof does not push the sheet"
    assert focused(page) == "Next"
    page.keyboard.press("Enter")
    foot.get_by_text("stop 2 of 2").wait_for()
    assert focused(page) == "n"
    press(page, "Forward").click()
    foot.get_by_text("Not run yet").wait_for()
    foot.get_by_text("Stopped at 1.1.1.1").wait_for()
    assert page.get_by_role("treeitem", name="Step first").inner_text().endswith("◐ 1/2")
    assert answers(stage, "first")["right_first"] is False


@pytest.mark.full
def test_each_stop_covers_its_own_values(tab: Tab) -> None:
    page = tab(f"#/{PHASE}/right").page
    field(page).fill("1")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    press(page, "Next").wait_for()
    becomes(page, COVERED, arg=[[f"{PHASE}/right/first", False], [f"{PHASE}/right/second", True]])
    press(page, "Next stop").click()
    page.locator("#foot", has_text="Stopped at stop 1").wait_for()
    page.keyboard.press("Enter")  # the current stop, not the first again
    page.locator("#foot", has_text="Stopped here").wait_for()
    becomes(page, COVERED, arg=[[f"{PHASE}/right/first", False], [f"{PHASE}/right/second", False]])
    page.keyboard.press("Shift+ArrowLeft")
    page.locator("#foot", has_text="Run before").wait_for()
    assert "Stopped here" not in page.locator("#foot").inner_text(), "the program is at the second stop"
    page.keyboard.press("Shift+ArrowRight")
    page.locator("#foot", has_text="stop 2 of 2").wait_for()


COVERED = """(wanted) => wanted.every(([key, covered]) => {
  const parts = [...sheets.shadowRoot.querySelectorAll('.part[data-kind=machine]')];
  const part = parts.find((each) => each.dataset.key === key);
  return part.classList.contains('covered') === covered;
})"""


@pytest.mark.full
def test_what_is_right_is_right_as_a_number_and_quiet(tab: Tab, stage: Stage) -> None:
    page = tab(f"#/{PHASE}/right/second").page
    if press(page, "Predict again").count():
        press(page, "Predict again").click()
    field(page).fill("0x2")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    row = page.locator("#foot").get_by_role("row", name="n 0x2")
    row.wait_for()
    assert "wrong" not in row.inner_text()
    page.locator("#foot", has_text="1 of 1 right").wait_for()


def test_hints_open_one_by_one_and_the_explanation_comes_after(tab: Tab, stage: Stage) -> None:
    page = tab(f"#/{PHASE}/hints").page
    foot = page.locator("#foot")
    assert foot.get_by_text("Read the first line").count() == 0
    press(page, "Hint").click()
    foot.get_by_text("Read the first line").wait_for()
    assert foot.get_by_text("One line has run").count() == 0
    page.reload()
    foot.get_by_text("hint 1 of 2").wait_for()
    press(page, "Hint").click()
    foot.get_by_text("One line has run").wait_for()
    assert press(page, "Hint").count() == 0
    assert foot.get_by_text("It is 1.").count() == 0
    page.keyboard.press("F2")
    foot.get_by_text("It is 1.").wait_for()
    assert answers(stage, "hints")["hints"] == 2


@pytest.mark.full
def test_a_hint_stays_in_its_place_and_leads_back_to_the_field(tab: Tab) -> None:
    page = tab(f"#/{PHASE}/keys").page
    page.locator("#foot", has_text=re.compile(r"have before line \d+ of main\.c\?")).wait_for()
    press(page, "Next stop").click()
    page.locator("#foot", has_text=re.compile(r"have before line \d+ of main\.c\?")).wait_for()
    press(page, "Previous stop").click()
    before = press(page, "Hint").bounding_box()
    press(page, "Hint").click()
    page.get_by_text("hint 1 of 2").wait_for()
    assert press(page, "Hint").bounding_box() == before, "the next hint is where the pointer is"
    assert focused(page) == "n"


@pytest.mark.full
def test_enter_goes_on_after_the_learner_has_judged(tab: Tab) -> None:
    page = tab(f"#/{PHASE}/note").page
    page.get_by_role("textbox", name="Your answer").fill("one")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    press(page, "No").wait_for()
    press(page, "No").focus()
    page.keyboard.press("Enter")
    assert focused(page) == "Next"
    page.keyboard.press("Enter")
    page.locator("#foot", has_text="stop 2 of 2").wait_for()


@pytest.mark.full
def test_the_sign_of_enter_is_shown_only_where_enter_acts(tab: Tab, stage: Stage) -> None:
    assert stage.tcp.put("/api/navigation/current", {"focus_level": "card"}).status == 200
    page = tab().page
    page.locator("#foot", has_text="Go to the first step").wait_for()
    assert page.evaluate(SIGNS_OF_ENTER) == ["act"]
    page.keyboard.press("Enter")
    page.locator("#foot", has_text="Step 1 of").wait_for()
    page.locator("#scroller").focus()
    assert page.evaluate(SIGNS_OF_ENTER) == ["sync"]
    page.keyboard.press("Tab")
    page.locator("#act").focus()
    assert page.evaluate(SIGNS_OF_ENTER) == ["act"]


SIGNS_OF_ENTER = """[...document.querySelectorAll('#foot kbd, #sync kbd')]
  .filter((sign) => sign.checkVisibility()).map((sign) => sign.parentElement.id)"""


def test_keys_work_at_the_position_after_a_field_or_a_link_of_the_sheet(tab: Tab, stage: Stage) -> None:
    """Escape moves the focus from a field to the part of the position. A link on the sheet does not keep the focus."""
    opened = tab(f"#/{PHASE}/keys")
    page = opened.page
    field(page).focus()
    page.keyboard.press("Escape")
    assert page.evaluate("sheets.shadowRoot.activeElement?.classList.contains('here')")
    page.locator("#sheets a[href='#t1/b1/p1/mouse']").first.click()
    page.locator("#trail", has_text="Step mouse").wait_for()
    assert focused(page) == "Sheets"


@pytest.mark.full
def test_the_ring_of_a_field_is_not_cut_off(tab: Tab) -> None:
    page = tab(f"#/{PHASE}/keys").page
    field(page).focus()
    assert page.evaluate("""() => {
      const field = document.activeElement.getBoundingClientRect();
      const room = document.getElementById('foot-values').getBoundingClientRect();
      return field.right + 3 <= room.right && field.bottom + 3 <= room.bottom && field.left - 3 >= room.left;
    }""")


@pytest.mark.full
def test_the_sign_of_a_step_moves_no_row(tab: Tab) -> None:
    page = tab(f"#/{PHASE}/editor").page
    name = page.get_by_role("treeitem", name="Step editor").locator(".name")
    before = name.bounding_box()
    page.locator("#scroller").focus()
    page.keyboard.press("F2")
    page.get_by_role("treeitem", name="Step editor ◐ 1/2").wait_for()
    assert name.bounding_box() == before


def test_an_answer_in_words_is_judged_by_the_learner_and_kept(tab: Tab, stage: Stage) -> None:
    page = tab(f"#/{PHASE}/words").page
    answer = page.get_by_role("textbox", name="Your answer")
    answer.fill("one, after the first line")
    answer.press("Enter")
    assert focused(page) == "Run to the stop"
    assert press(page, "Partly").count() == 0
    page.keyboard.press("Enter")
    press(page, "Partly").click()
    until(lambda: answers(stage, "words")["self"] == "partly")
    page.reload()
    press(page, "Partly").and_(page.locator("[aria-pressed=true]")).wait_for()
    assert answer.input_value() == "one, after the first line"
    assert answers(stage, "words")["answer"] == "one, after the first line"


@pytest.mark.full
def test_enter_keeps_a_note_and_approves_nothing(tab: Tab, stage: Stage) -> None:
    page = tab(f"#/{PHASE}/note").page
    note = page.get_by_role("textbox", name="Note on this step")
    note.fill("look here again")
    note.press("Enter")
    page.get_by_text("Note kept.").wait_for()
    item = next(each for each in stage.tcp.get("/api/progress")["items"] if each["key"] == f"{PHASE}/note")
    assert (item["status"], item["note"]) == ("pending", "look here again")
    page.reload()
    until(lambda: note.input_value() == "look here again")


@pytest.mark.full
def test_letters_are_actions_where_no_field_is_empty(tab: Tab, stage: Stage) -> None:
    page = tab(f"#/{PHASE}/letters").page
    page.keyboard.type("a")
    assert field(page).input_value() == "a"
    page.keyboard.press("F2")  # the typed value is a prediction
    page.locator("#foot").get_by_role("row", name="n a").wait_for()
    page.locator("#scroller").focus()
    page.keyboard.press("a")
    press(page, "Withdraw").wait_for()
    assert answers(stage, "letters")["predictions"][0]["said"] == "a"


@pytest.mark.full
def test_enter_runs_after_a_click_on_something_else(tab: Tab, stage: Stage) -> None:
    opened = tab(f"#/{PHASE}/letters")
    page = opened.page
    press(page, "Forward").click()
    page.locator("#trail", has_text="Step mouse").wait_for()
    page.keyboard.press("Enter")
    opened.shows("SYNC ON · at this step")
    press(page, "Fit width").click()
    before = stage.tcp.get("/api/checkpoint/status")["generation"]
    page.keyboard.press("Enter")
    until(lambda: stage.tcp.get("/api/checkpoint/status")["generation"] == before + 1)
    press(page, "Fit width").click()
    page.get_by_label("Search titles and code").fill("Step mouse")
    page.locator("#matches button").first.click()
    until(lambda: stage.tcp.get("/api/navigation/current")["key"] == f"{PHASE}/mouse")
    opened.shows("SYNC ON · at this step")
    page.keyboard.press("Enter")
    until(lambda: stage.tcp.get("/api/checkpoint/status")["generation"] == before + 2)


@pytest.mark.full
def test_the_first_stop_is_a_key_away_from_the_opening_page(tab: Tab, stage: Stage) -> None:
    for focus, key in (("card", {}), ("task", {"task_id": "t1"})):
        assert stage.tcp.put("/api/navigation/current", {"focus_level": focus, **key}).status == 200
        page = tab().page
        page.locator("#foot", has_text="12 steps").wait_for()
        page.keyboard.press("Enter")
        page.locator("#foot", has_text="Step 1 of 12").wait_for()
        assert page.locator("#result").is_hidden()


def test_the_first_tab_reaches_the_foot_and_the_tenth_its_first_field(tab: Tab) -> None:
    page = tab(f"#/{PHASE}/keys").page
    names = []
    for _ in range(10):
        page.keyboard.press("Tab")
        names.append(focused(page))
    assert "n" in names


def test_running_without_a_prediction_is_recorded_as_looking_first(tab: Tab, stage: Stage) -> None:
    page = tab(f"#/{PHASE}/unknown").page
    press(page, "Predict").click()
    page.get_by_text("Write a value first").wait_for()
    assert focused(page) == "n"
    press(page, "I don’t know").click()
    press(page, "Next").wait_for()
    assert answers(stage, "unknown")["looked_first"] is True


@pytest.mark.full
def test_what_is_typed_after_a_click_into_the_editor_goes_there(tab: Tab, stage: Stage) -> None:
    opened = tab(f"#/{PHASE}/editor")
    page = opened.page
    page.keyboard.press("F2")
    opened.shows("SYNC ON · at this step")
    until(lambda: "23,1" in opened.grid())  # termdebug has put the cursor on the line of the stop
    box, lines = page.locator("#editor canvas").bounding_box(), opened.picture().splitlines()
    assert box
    row = next(number for number, line in enumerate(lines) if "(gdb)" in line)
    cell = box["width"] / max(map(len, lines)), box["height"] / len(lines)
    page.mouse.click(box["x"] + (lines[row].index("(gdb)") + 2) * cell[0], box["y"] + (row + 0.5) * cell[1])
    page.keyboard.type("print n + 41")
    page.keyboard.press("Enter")
    until(lambda: "= 42" in opened.grid())
    assert status(stage, "editor") == "pending"
    page.keyboard.press("F8")


@pytest.mark.full
def test_what_is_typed_after_a_click_into_a_detached_editor_goes_nowhere(tab: Tab, stage: Stage) -> None:
    page = tab(f"#/{PHASE}/keys").page
    page.get_by_label("Live").uncheck()
    page.locator("#editor .overlay").click(position={"x": 5, "y": 5})
    before = stage.tcp.get("/api/checkpoint/status")["generation"]
    page.keyboard.type("info args")
    page.keyboard.press("Enter")
    assert field(page).input_value() == ""
    page.get_by_role("button", name="Attach").click()
    page.locator("#editor .canvas-area:not(.detached)").wait_for()
    assert stage.tcp.get("/api/checkpoint/status")["generation"] == before
    assert status(stage, "keys") == "pending"


@pytest.mark.full
def test_the_finish_page_says_what_was_right_and_what_to_look_at_again(tab: Tab, stage: Stage) -> None:
    last = f"{PHASE}/{STEPS[-1]}/second"
    page = tab(f"#/{last}").page
    field(page).fill("5  x")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    press(page, "Next").click()
    finish = page.get_by_role("region", name="Results")
    finish.get_by_text(re.compile("predicted right at the first try")).wait_for()
    assert "n: you said 5  x, it is 2" in finish.inner_text()
    assert re.search(r"\d+ (s|min)\nof work", finish.inner_text())
    page.keyboard.press("a")  # which would approve a step that is behind the results
    finish.get_by_role("link", name="Step again, stop 2").click()
    finish.wait_for(state="hidden")
    until(lambda: stage.tcp.get("/api/navigation/current")["key"] == last)
    assert status(stage, STEPS[-1]) == "pending"


@pytest.mark.full
def test_shown_values_are_uncovered_for_their_stop_alone(tab: Tab, stage: Stage) -> None:
    assert stage.tcp.put("/api/navigation/current", position("shown")).status == 200
    page = tab().page
    press(page.locator(f"[data-key='{PHASE}/shown/first'][data-kind=machine]"), "Show values").click()
    becomes(page, COVERED, arg=[[f"{PHASE}/shown/first", False], [f"{PHASE}/shown/second", True]])
    until(lambda: answers(stage, "shown").get("looked_first"))
    assert field(page).is_visible(), "a prediction is still possible"


# -- without a session -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def alone() -> Iterator[Stage]:
    """The calculator card without a session."""
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as folder:
        stage = Stage(Path(folder) / "state", ROOT / "etc" / "cards" / "calc")
        yield stage
        stage.close()


@pytest.fixture
def lonely(context: BrowserContext, alone: Stage) -> Page:
    opened = OpenPage(context.new_page())
    opened.page.goto(f"http://127.0.0.1:{alone.service.listener.port}/")
    return opened.ready().page


def predict(page: Page, stop: dict[str, Any], value: str) -> None:
    """Go to a stop and predict ``value`` for every expression that it asks for."""
    page.evaluate("(key) => { location.hash = `#/${key}`; }", stop["key"])
    for expression in stop["ask"]:
        page.get_by_role("textbox", name=expression, exact=True).fill(value)
    press(page, "Predict").click()
    press(page, "Next").wait_for()


def stops(stage: Stage) -> list[dict[str, Any]]:
    return [item for item in stage.tcp.get("/api/navigation/catalog")["items"] if item["level"] == "snapshot"]


def test_without_a_session_the_card_judges(lonely: Page, alone: Stage) -> None:
    stop = stops(alone)[0]
    predict(lonely, stop, "77")
    lonely.locator("#foot", has_text="by the card").wait_for()
    assert "wrong" in lonely.locator("#foot").get_by_role("row", name="77").first.inner_text()
    becomes(lonely, COVERED, arg=[[stop["key"], False]])


@pytest.mark.full
def test_without_a_session_an_answer_in_words_alone_is_a_look_at_the_values(lonely: Page, alone: Stage) -> None:
    stop = stops(alone)[5]
    lonely.evaluate("(key) => { location.hash = `#/${key}`; }", stop["key"])
    lonely.get_by_role("textbox", name=stop["ask"][0], exact=True).wait_for()
    lonely.get_by_role("textbox", name="Your answer").fill("two blocks")
    press(lonely, "Predict").click()
    becomes(lonely, COVERED, arg=[[stop["key"], False]])
    until(lambda: any(item["revealed"] for item in alone.tcp.get(f"/api/answers?key={stop['key']}")["items"]))


@pytest.mark.full
def test_the_next_field_is_ready_before_the_service_answers(lonely: Page, alone: Stage) -> None:
    """The page does not wait for the answer to the move."""
    before, after = stops(alone)[2:4]
    predict(lonely, before, "5")
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    lonely.route("**/api/navigation/current", hold)
    press(lonely, "Next").click()
    lonely.get_by_role("textbox", name=after["ask"][0], exact=True).wait_for()
    until(lambda: focused(lonely) == after["ask"][0])
    assert held
    for route in held:
        route.continue_()
    lonely.unroute("**/api/navigation/current")

"""What people do on the page, in real Chromium on a real session."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conftest import FIRST, OpenPage, Tab, becomes
from tests.functional.serving import Stage, until
from tests.functional.session_neovim import Neovim

pytestmark = [pytest.mark.functional, pytest.mark.usefixtures("fresh_place")]

STOP = "bump/requests/three-requests/first"
SYNCED = "SYNC ON · at this step"


def generation(stage: Stage) -> int:
    found: int = stage.tcp.get("/api/checkpoint/status")["generation"]
    return found


def position(stage: Stage) -> Any:
    return stage.tcp.get("/api/navigation/current")["key"]


def viewer(stage: Stage) -> Any:
    return stage.tcp.get("/api/viewer/state")


def progress(stage: Stage, key: str = FIRST) -> dict[str, Any]:
    return next(item for item in stage.tcp.get("/api/progress")["items"] if item["key"] == key)


def test_enter_on_the_page_and_f2_in_the_editor_lead_to_the_same_stop(tab: Tab, stage: Stage) -> None:
    opened = tab()
    opened.keys("Enter")
    opened.shows(SYNCED)
    by_page = stage.tcp.get("/api/checkpoint/status")["last"]
    opened.keys("ArrowRight")
    opened.shows("elsewhere")
    opened.keys("ArrowLeft")
    opened.button("Keyboard F8").click()
    until(lambda: viewer(stage)["viewer"]["editor"]["control"])
    opened.keys("F2")
    until(lambda: stage.tcp.get("/api/checkpoint/status")["last"]["generation"] > by_page["generation"])
    by_editor = stage.tcp.get("/api/checkpoint/status")["last"]
    assert by_editor["state"] == "ready"
    for name in ("file", "line", "values"):
        assert by_editor["observed"][name] == by_page["observed"][name], name
    opened.shows(SYNCED)


def test_what_is_typed_goes_where_the_keyboard_is(tab: Tab, stage: Stage, scratch: Neovim) -> None:
    opened = tab().control(stage)
    page = opened.page
    page.keyboard.type("ia < b, ü 語")
    page.keyboard.insert_text("é")  # a text that an input method or a dead key composes
    opened.keys("Escape")
    until(lambda: "a < b, ü 語é" in opened.grid() and scratch.lines() == ["a < b, ü 語é"])
    field = page.get_by_label("Your answer")
    field.click()
    page.keyboard.type("some")
    assert stage.tcp.put("/api/viewer/state", {"viewer": {"allocator": {"visible": True}}}).status == 200
    page.locator("#memory").wait_for()
    page.locator("#scroller").evaluate("(element) => element.scrollTo(0, 40)")
    page.keyboard.type(" words")
    assert field.input_value() == "some words", "the editor does not take the keyboard back"
    opened.keys("Enter")
    opened.button("Run to the stop").wait_for()
    opened.keys("F8")
    until(lambda: not viewer(stage)["viewer"]["editor"]["control"])
    page.keyboard.type("ggdG")
    opened.keys("Enter")
    opened.shows(SYNCED)
    answers = stage.tcp.get("/api/events?kind=x-answer")["events"]
    assert [(event["key"], event["data"]["text"]) for event in answers] == [(f"{FIRST}/initialised", "some words")]
    assert scratch.lines() == ["a < b, ü 語é"]


def test_a_reload_comes_back_to_the_same_view(tab: Tab, stage: Stage) -> None:
    opened = tab()
    page = opened.page
    opened.keys("Alt+6")
    opened.button("Next page").click()
    opened.button("Zoom in").click()
    page.locator("#scroller").evaluate("(element) => element.scrollTo(0, 300)")
    until(lambda: viewer(stage)["scroll"]["sheet_scroll_top"] > 0)
    shown = "scroller.scrollTop, zoom.textContent, memory.hidden, document.getElementById('page-number').textContent"
    place = f"(() => [{shown}])()"
    before = page.evaluate(place)
    page.reload()
    opened.ready()
    until(lambda: page.evaluate(place) == before)
    opened.button("Previous page").click()
    answer, note = page.get_by_label("Your answer"), page.get_by_label("Note on this step")
    answer.fill("half an answer")
    note.fill("half a note")
    opened.button("Next page").click()
    page.locator("#page-number", has_text="Page 2").wait_for()
    opened.button("Previous page").click()
    until(lambda: answer.input_value() == "half an answer")
    page.reload()
    opened.ready()
    until(lambda: answer.input_value() == "half an answer")
    assert note.input_value() == "half a note"


def test_a_reload_comes_back_to_the_place_and_the_shown_values_of_a_position(tab: Tab, stage: Stage) -> None:
    opened = tab()
    page = opened.page
    opened.go_to(STOP)
    becomes(page, "scroller.scrollTop > 0")
    until(lambda: viewer(stage)["scroll"]["sheet_scroll_top"] > 0)
    scrolled = page.evaluate("scroller.scrollTop")
    page.reload()
    opened.ready()
    until(lambda: page.evaluate("scroller.scrollTop") == scrolled)
    machine = page.locator(".part[data-kind=machine].covered").first
    machine.wait_for()
    assert machine.locator("td").first.is_visible() is False
    covered = page.locator(".part.covered").count()
    machine.get_by_role("button", name="Show values").click()
    becomes(page, "(count) => sheets.shadowRoot.querySelectorAll('.part.covered').length < count", covered)
    until(lambda: stage.tcp.get("/api/events?kind=x-revealed")["events"])
    left = page.locator(".part.covered").count()
    page.reload()
    opened.ready()
    becomes(page, "(count) => sheets.shadowRoot.querySelectorAll('.part.covered').length === count", left)


def test_a_second_tab_follows_position_flags_and_page_but_not_the_scroll(tab: Tab, stage: Stage) -> None:
    first, second = tab(), tab()
    first.page.get_by_role("treeitem", name="Alignment").click()
    second.page.locator("#trail", has_text="Alignment").wait_for()
    first.page.locator("#scroller").evaluate("(element) => element.scrollTo(0, 400)")
    scrolled = first.page.evaluate("scroller.scrollTop")
    until(lambda: viewer(stage)["scroll"]["y"] == scrolled)
    first.keys("Alt+6")
    second.page.locator("#memory").wait_for()
    assert second.page.evaluate("scroller.scrollTop") != scrolled
    first.page.locator("#memory").wait_for()
    revision = viewer(stage)["revision"]
    second.keys("Alt+6")
    first.page.locator("#memory").wait_for(state="hidden")
    until(lambda: viewer(stage)["viewer"]["allocator"]["visible"] is False)
    assert viewer(stage)["revision"] == revision + 1, "the tabs do not react to each other's changes"


def test_landmarks_and_controls_have_names_of_their_own(tab: Tab, stage: Stage) -> None:
    opened = tab()
    page = opened.page
    for role, name in (("navigation", "Outline"), ("main", "Worksheet"), ("region", "Editor"), ("status", "Sync")):
        page.get_by_role(role, name=name, exact=True).wait_for()  # type: ignore[arg-type]
    opened.button("Memory").click()
    page.get_by_role("region", name="Memory").wait_for()
    assert opened.button("Memory").is_hidden()
    found = page.evaluate(
        """[...document.querySelectorAll('button, input, [role=tab]')].filter((each) => each.checkVisibility())
          .map((each) => [each.ariaLabel ?? (each.labels?.[0] ?? each).textContent.trim(), each.textContent.trim()])"""
    )
    names = [name for name, _text in found]
    assert sorted(names) == sorted(set(names))
    words = [text for _name, text in found if text not in ("", "−", "+", "×")]
    assert sorted(words) == sorted(set(words))
    assert "flowing" not in page.locator("body").inner_text()
    opened.button("Hide the memory (Alt+6)").click()
    opened.button("Memory").wait_for()
    opened.keys("?")
    dialog = page.get_by_role("dialog", name="Keyboard")
    dialog.wait_for()
    before = stage.tcp.get("/api/navigation/current")["revision"]
    opened.keys("ArrowRight", "a", "Alt+6", "?")
    dialog.wait_for(state="hidden")
    assert stage.tcp.get("/api/navigation/current")["revision"] == before, "the page does nothing below the dialog"
    assert page.locator("#memory").is_hidden()
    assert progress(stage)["status"] == "pending"


IN_SIGHT = """() => {
  const view = scroller.getBoundingClientRect();
  const step = '.part[data-key="bump/requests/three-requests/neighbours"]';
  return ['.here', `${step} .source .at`].every((name) => {
    const box = sheets.shadowRoot.querySelector(name)?.getBoundingClientRect();
    return box && box.top >= view.top && box.bottom <= view.bottom;
  });
}"""


def test_the_code_stays_in_sight_at_the_second_stop_of_a_step(tab: Tab) -> None:
    opened = tab("#/bump/requests/three-requests/neighbours")
    for name in ("Next stop", "Previous stop", "Next stop"):
        opened.button(name).click()
        becomes(opened.page, IN_SIGHT)


def test_a_step_is_approved_with_its_note_but_not_on_a_page_turned_away(tab: Tab, stage: Stage) -> None:
    opened = tab()
    page = opened.page
    before = generation(stage)
    title = next(item["title"] for item in stage.tcp.get("/api/navigation/catalog")["items"] if item["key"] == FIRST)
    back = page.get_by_role("button", name=f"Back to 1.1.1.1 {title}")
    for way in ("Enter", "F2", "click"):
        opened.button("Next page").click()
        page.locator("#away", has_text="You are looking at page 2.").wait_for()
        back.wait_for()
        assert opened.button("Sync").is_disabled()
        assert opened.button("Approve").is_hidden()
        page.locator("#scroller").focus()
        opened.keys("a")
        if way == "click":
            back.click()
        else:
            opened.keys(way)
        page.locator("#page-number", has_text="Page 1 ").wait_for()
        page.locator("#sheets .here").wait_for()
        back.wait_for(state="hidden")
    assert generation(stage) == before
    assert progress(stage)["status"] == "pending"
    page.get_by_label("Note on this step").fill("The cursor moves by 8.")
    opened.button("Approve").click()
    page.locator("#tally", has_text="1 of").wait_for()
    item = progress(stage)
    assert (item["status"], item["note"], item["actor"]) == ("approved", "The cursor moves by 8.", "page")


def test_the_search_finds_titles_and_code_and_leads_there(tab: Tab, stage: Stage) -> None:
    opened = tab()
    page = opened.page
    opened.keys("/")
    page.keyboard.type("round_up")
    found = page.locator("#matches button.code").first
    found.wait_for()
    assert found.locator(".number").first.inner_text().strip() != ""
    assert found.locator(".title").inner_text() != "", "a line of code stands below the title of its step"
    assert found.locator(".excerpt mark").first.inner_text() == "round_up"
    opened.keys("Escape")
    page.locator("#matches").wait_for(state="hidden")
    assert page.evaluate("document.activeElement === document.body")
    opened.keys("/")
    page.keyboard.type("THREE  blocks")
    opened.keys("Enter")
    chosen = page.locator("#matches [aria-current]")
    chosen.wait_for()
    assert chosen.locator("mark").first.inner_text().lower() == "three blocks"
    until(lambda: position(stage) != FIRST)
    opened.keys("/")
    page.keyboard.type("The first bl")
    page.locator("#matches mark", has_text="The first bl").first.wait_for()
    assert page.get_by_label("Search titles and code").input_value() == "The first bl", "a search starts anew"
    opened.keys("ArrowDown", "Enter")
    until(lambda: position(stage) == STOP)
    opened.keys("Enter")
    opened.shows(SYNCED)
    assert stage.tcp.get("/api/control/state")["key"].startswith(f"{STOP}/")
    page.get_by_label("Search titles and code").fill("no such text anywhere")
    page.get_by_text("Nothing in this card contains").wait_for()


def test_the_map_is_over_the_worksheet_and_readable(tab: Tab, stage: Stage) -> None:
    opened = tab()
    page = opened.page
    page.get_by_role("tab", name="Map").click()
    diagram = page.locator("#map svg")
    diagram.wait_for()
    least = """Math.min(...[...document.querySelectorAll('#map text')].map((text) =>
      parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a))"""
    for width, height in ((1920, 1080), (800, 900), (1280, 720)):
        page.set_viewport_size({"width": width, "height": height})
        for _ in range(4):
            assert page.evaluate(least) >= 11
            opened.button("Zoom out of the map").click()
    assert page.evaluate(
        """() => {
          const boxOf = (id) => document.getElementById(id).getBoundingClientRect();
          const [map, sheet] = [boxOf('map-panel'), boxOf('scroller')];
          return map.left <= sheet.left && map.top <= sheet.top
            && map.right >= sheet.right && map.bottom >= sheet.bottom;
        }"""
    )
    page.get_by_role("treeitem", name="Alignment").wait_for()
    page.locator("#away", has_text="You are looking at the map.").wait_for()
    assert opened.button("Sync").is_disabled()
    assert page.locator(".foot").is_hidden()
    opened.keys("Escape")
    diagram.wait_for(state="hidden")
    page.get_by_role("tab", name="Map").click()
    opened.button("This block").click()
    page.locator(f'#map [data-key="{FIRST}"]').wait_for()
    opened.button("Whole card").click()
    page.locator('#map a[href="#alignment/padding"]').click()
    diagram.wait_for(state="hidden")
    until(lambda: position(stage) == "alignment/padding")
    page.locator("#sheets .here").wait_for()


def test_forced_colours_mark_the_current_row_covered_values_and_the_state_of_sync(tab: Tab) -> None:
    opened = tab(f"#/{STOP}")
    page = opened.page
    page.emulate_media(forced_colors="active")
    colour = "(each) => getComputedStyle(each).backgroundColor"
    others = page.locator("#tree [role=treeitem]:not([aria-current])")
    colours = "(rows) => rows.map((each) => getComputedStyle(each).backgroundColor)"
    assert page.locator("#tree [aria-current]").evaluate(colour) not in others.evaluate_all(colours)
    border = "(each) => [getComputedStyle(each).borderTopStyle, getComputedStyle(each).borderTopWidth]"
    assert page.locator("#sheets .cover").first.evaluate(border) == ["dashed", "2px"]
    opened.keys("F1")
    opened.shows("SYNC OFF")
    off = page.locator("#sync-state").evaluate(colour)
    opened.keys("Enter")
    opened.shows(SYNCED)
    assert page.locator("#sync-state").evaluate(colour) != off
    opened.keys("ArrowRight")
    opened.shows("elsewhere")
    assert page.locator("#sync-state").evaluate(border)[0] == "dashed"


def test_f2_and_f1_leave_the_focus_where_it_was(tab: Tab, stage: Stage) -> None:
    opened = tab(f"#/{STOP}")
    page = opened.page
    opened.keys("Alt+6")
    focused = "() => { const on = document.activeElement; return [on.localName, on.id, on.ariaLabel, on.dataset.key]; }"
    for place in (
        opened.button("Sync"), page.get_by_role("button", name="Hide the memory"),
        page.get_by_label("Search titles and code"), page.get_by_role("treeitem", name="The first block"),
    ):  # fmt: skip
        place.focus()
        before, last = page.evaluate(focused), generation(stage)
        opened.keys("F2")
        until(lambda last=last: generation(stage) > last)
        opened.shows(SYNCED)
        page.locator("#memory .strip").first.wait_for()
        assert page.evaluate(focused) == before
        opened.keys("F1")
        opened.shows("the program was reset")
        assert page.evaluate(focused) == before


def test_a_memory_picture_that_leaves_bytes_out_draws_the_break(tab: Tab) -> None:
    opened = tab(f"#/{STOP}")
    page = opened.page
    opened.keys("Alt+6", "Enter")
    opened.shows(SYNCED)
    gap = page.locator("#memory .break")
    gap.wait_for()
    boxes = """['strip', 'break', 'strip-end'].map((name) => document.querySelector(`#memory .${name}`))
      .map((each) => each.getBoundingClientRect().toJSON())"""
    left, middle, right = page.evaluate(boxes)
    assert left["x"] + left["width"] - middle["x"] == pytest.approx(middle["x"] + middle["width"] - right["x"], abs=1)
    assert (middle["y"], middle["height"]) < (left["y"], left["height"] + 20)
    assert middle["height"] > left["height"], "the strokes reach over the strip's border"
    size = page.locator("#memory .figures dd").first.inner_text().split()[2]
    assert page.locator("#memory .scale").last.inner_text() == size
    page.get_by_role("button", name="Whole arena").click()
    gap.wait_for(state="hidden")
    page.get_by_role("button", name="Used part only").click()
    gap.wait_for()


def test_a_position_that_changed_without_a_page_is_shown(tab: Tab, stage: Stage) -> None:
    opened = tab()
    opened.button("Next page").click()
    until(lambda: viewer(stage)["scroll"]["page_index"] == 1)
    opened.page.goto("about:blank")
    moved = stage.tcp.post("/api/navigation/move", {"level": "block", "delta": 2}).json
    here = tab().page.locator("#sheets .here")
    here.wait_for()
    assert here.get_attribute("data-key") == moved["key"]


def test_an_address_shows_its_position_or_says_that_there_is_none(tab: Tab, stage: Stage) -> None:
    opened = tab("#/no/such/place")
    page = opened.page
    for address in ("#/no/such/place", "#/100%", "#/%E0%A4%A", "#<img src=x onerror=alert(1)>"):
        page.evaluate("(address) => { location.hash = address; }", address)
        page.locator("#result", has_text="Not found. This card has no position").wait_for()
        assert position(stage) == FIRST, address
        opened.button("Dismiss").click()
        page.locator("#result").wait_for(state="hidden")
    opened.go_to(STOP)
    becomes(
        page,
        """() => {
          const box = sheets.shadowRoot.querySelector('.here').getBoundingClientRect();
          const view = scroller.getBoundingClientRect();
          return box.top >= view.top && box.top < view.bottom;
        }""",
    )
    opened.go_to("alignment/padding")
    page.go_back()
    page.locator("#trail", has_text="The first").wait_for()
    until(lambda: position(stage) == STOP)
    page.goto("about:blank")
    page.go_back()
    opened.ready()
    page.locator("#trail", has_text="The first").wait_for()


def test_enter_pressed_again_and_again_is_one_sync(tab: Tab, stage: Stage) -> None:
    opened = tab()
    before = generation(stage)
    for _ in range(3):
        opened.page.keyboard.down("Enter")  # the second and third one are repeats of a held key
    opened.page.keyboard.up("Enter")
    opened.keys("Enter")
    opened.shows(SYNCED)
    assert before < generation(stage) <= before + 2
    assert opened.page.locator("#result").is_hidden()


def test_a_slow_service_does_not_turn_a_newer_change_back(tab: Tab, stage: Stage) -> None:
    opened = tab()
    page = opened.page
    page.evaluate(
        """() => {
          window.seen = [];
          new MutationObserver(() => window.seen.push(!memory.hidden)).observe(memory, { attributeFilter: ['hidden'] });
          const send = window.fetch;
          let wait = 600; // ms; the first change arrives last, unless the second one waits for it
          window.fetch = async (path, init) => {
            if (init?.method === 'PUT') {
              wait -= 300;
              await new Promise((resolve) => { setTimeout(resolve, wait + 300); });
            }
            return send(path, init);
          };
        }"""
    )
    before = viewer(stage)["revision"]
    opened.keys("Alt+6")
    page.locator("#memory").wait_for()
    opened.keys("Alt+6")
    page.locator("#memory").wait_for(state="hidden")
    until(lambda: viewer(stage)["revision"] >= before + 2)
    assert viewer(stage)["viewer"]["allocator"]["visible"] is False
    assert page.evaluate("window.seen.filter((value, at, all) => value !== all[at - 1])") == [True, False]


def sizes_of(opened: OpenPage, *sizes: tuple[int, int]) -> Any:
    for width, height in sizes:
        opened.page.set_viewport_size({"width": width, "height": height})
        becomes(opened.page, "document.documentElement.scrollWidth <= innerWidth")
        yield width, height


def test_everything_can_be_reached_at_any_window_size(tab: Tab) -> None:
    opened = tab()
    page = opened.page
    for _ in sizes_of(opened, (1920, 1080), (1000, 700), (800, 600), (1280, 720)):
        opened.button("Sync").click(trial=True)
        becomes(
            page,
            """() => {
              const area = document.querySelector('#editor .canvas-area');
              const { width, height } = document.querySelector('#editor canvas').getBoundingClientRect();
              return width <= area.offsetWidth + 1 && height <= area.offsetHeight + 1;
            }""",
        )
    for _ in sizes_of(opened, (1280, 720), (900, 720), (480, 720)):
        for name, panel, other in (("Wide worksheet", ".reading", "#side"), ("Wide editor", "#side", ".reading")):
            page.get_by_role("button", name=name).click()
            becomes(page, "(panel) => document.querySelector(panel).offsetWidth >= innerWidth - 20", panel)
            becomes(page, "(panel) => document.querySelector(panel).offsetHeight >= 0.3 * columns.offsetHeight", panel)
            page.locator(other).wait_for(state="hidden")
            page.get_by_role("button", name=name).click()
    for name in ("Sync", "Approve", "Keyboard F8", "Keyboard shortcuts"):
        opened.button(name).click(trial=True)
    opened.button("Fold the outline").click()
    page.get_by_role("link", name="Lesson", exact=True).click(trial=True)

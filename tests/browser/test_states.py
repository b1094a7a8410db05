"""The page's messages about a replay that runs, is cancelled, drifts or crashes, and about a missing session."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator

from tests.browser.conftest import OpenPage
from tests.functional.serving import Stage, make_card, until

pytestmark = pytest.mark.functional


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """The application on the card whose program crashes at its last step, without a session at first."""
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as folder:
        stage = Stage(Path(folder) / "state", make_card(Path(folder) / "card", ending="crash"))
        try:
            yield stage
        finally:
            stage.close()


@pytest.fixture
def opened(stage: Stage, tab: Any) -> OpenPage:
    """The page on a running session, at the first step."""
    if not stage.tcp.get("/api/state")["session"]["available"]:
        stage.sessions.start(stage.card)
    page: OpenPage = tab("#/t1/b1/p1/quick")
    return page


@pytest.mark.full
def test_without_a_session_the_page_teaches_and_names_the_command(tab: Any, stage: Stage) -> None:
    page = tab().page
    page.get_by_text("A session adds this editor").wait_for()
    command = page.get_by_role("button", name="bin/card-session start").first
    assert command.inner_text() == f"bin/card-session start {stage.card}"
    page.get_by_role("treeitem", name="Task").click()
    page.locator("#trail", has_text="Task").wait_for()
    stage.sessions.start(stage.card)
    page.get_by_text("A session adds this editor").wait_for(state="hidden")
    page.locator("#sync-state", has_text="not synced yet").wait_for()


def test_a_running_replay_shows_its_stage_and_can_be_cancelled(opened: OpenPage, stage: Stage) -> None:
    opened.page.get_by_role("treeitem", name="Step slow").click()
    opened.page.keyboard.press("Enter")
    opened.page.locator("#sync-state .now", has_text="replaying").wait_for()
    opened.page.get_by_role("button", name="Cancel the replay").click()
    opened.page.locator("#result", has_text="cancelled").wait_for()
    assert stage.tcp.get("/api/checkpoint/status")["last"]["state"] == "cancelled"
    opened.page.get_by_role("button", name="Sync again").click()
    opened.shows("SYNC ON · at this step")


FIRST_STAGE = """() => {
  let pressed = 0;
  addEventListener('keydown', () => { pressed = performance.now(); }, { capture: true, once: true });
  const pill = document.getElementById('sync-state');
  window.firstStage = new Promise((done) => {
    const look = () => { if (pill.matches('.busy')) done(performance.now() - pressed); };
    new MutationObserver(look).observe(pill, { attributes: true });
  });
}"""


@pytest.mark.full
def test_a_quick_replay_shows_no_stages(opened: OpenPage, stage: Stage) -> None:
    """The messages appear only after 200 ms. The reset makes the next replay slow, because there is no fork
    checkpoint."""
    assert stage.tcp.post("/api/editor/reset", {}).status == 200
    opened.page.get_by_role("treeitem", name="Step slow").click()
    opened.page.evaluate(FIRST_STAGE)
    opened.page.keyboard.press("Enter")
    assert opened.page.evaluate("window.firstStage") > 190
    opened.page.get_by_role("button", name="Cancel the replay").click()
    opened.page.locator("#result", has_text="cancelled").wait_for()


def line_of(stage: Stage, text: str) -> int:
    code = (stage.card / "src" / "main.c").read_text().splitlines()
    return next(number for number, line in enumerate(code, 1) if text in line)


@contextmanager
def edited(stage: Stage, old: str, new: str) -> Iterator[None]:
    """The learner edits main.c in the session's copy. The edit is undone at the end."""
    source = stage.sessions.session().work / "probe" / "main.c"
    before = source.read_text()
    assert old in before
    source.write_text(before.replace(old, new))
    try:
        yield
    finally:
        source.write_text(before)


def failed(opened: OpenPage, heading: str) -> Locator:
    """Sync; wait for the report of the failure, and for the same report after a reload."""
    with opened.page.expect_response("**/api/navigation/sync"):
        opened.page.keyboard.press("Enter")
    report = opened.page.locator("#result")
    report.get_by_text(heading).wait_for()
    before = report.inner_text()
    assert "ran on" not in opened.page.locator("#sync-state").inner_text()
    opened.page.reload()
    opened.ready()
    assert report.inner_text() == before
    return report


def opens(report: Locator, stage: Stage, line: int) -> None:
    report.get_by_role("button", name=f"Open line {line}", exact=True).first.click()
    until(lambda: (state := stage.tcp.get("/api/editor/state"))["cursor"]["row"] == line and state["buffer"])
    assert stage.tcp.get("/api/editor/state")["buffer"]["name"].endswith("/main.c")


@pytest.mark.full
def test_drift_is_a_table_of_the_name_the_expected_and_the_seen_value(opened: OpenPage, stage: Stage) -> None:
    opened.page.get_by_role("treeitem", name="Step drifted").click()
    report = failed(opened, "The program is not as the card says.")
    assert report.locator("tr.different").inner_text().split() == ["n", "7", "1"]
    assert report.locator("thead").inner_text().split() == ["Name", "Expected", "Seen"]
    opens(report, stage, line_of(stage, "/* quick */"))


@pytest.mark.full
def test_a_failure_belongs_to_its_position(opened: OpenPage) -> None:
    opened.page.keyboard.press("Enter")
    opened.shows("SYNC ON · at this step")
    opened.page.get_by_role("treeitem", name="Step drifted").click()
    report = failed(opened, "The program is not as the card says.")
    opened.shows("SYNC OFF · the sync failed")
    opened.page.get_by_role("treeitem", name="Step slow").click()
    report.wait_for(state="hidden")
    opened.page.get_by_role("button", name="See why").click()
    report.wait_for()
    opened.page.keyboard.press("Escape")
    report.wait_for(state="hidden")


@pytest.mark.full
def test_a_crash_before_the_stop_says_with_which_signal_and_where(opened: OpenPage, stage: Stage) -> None:
    opened.page.get_by_role("treeitem", name="Step beyond").click()
    report = failed(opened, "The program crashed before the stop.")
    assert "SIGSEGV" in report.inner_text()
    opens(report, stage, line_of(stage, "*(volatile int *)0"))
    report.get_by_role("button", name="Reset", exact=True).click()
    report.wait_for(state="hidden")


@pytest.mark.full
def test_an_end_before_the_stop_says_its_exit_code(opened: OpenPage, stage: Stage) -> None:
    opened.page.get_by_role("treeitem", name="Step beyond").click()
    with edited(stage, "*(volatile int *)0 = n;", 'puts("last  words"); exit(3);'):
        report = failed(opened, "The program ended before the stop.")
    assert "code 3" in report.inner_text()
    assert report.locator("pre").inner_text() == "last  words"


@pytest.mark.full
def test_a_build_error_has_a_button_for_each_line(opened: OpenPage, stage: Stage) -> None:
    with edited(stage, "    n = 1;", "    n = missing  one;"), edited(stage, "return n;", "return m;"):
        report = failed(opened, "The program does not build.")
        assert report.locator(".messages li").count() >= 2
        opens(report, stage, line_of(stage, "return n;"))
        opens(report, stage, line_of(stage, "    n = 1;"))
        report.get_by_text("All that the build printed").click()
        printed = report.locator("pre")
        assert "    n = missing  one;\n" in printed.inner_text()
        assert "mono" in printed.evaluate("(each) => getComputedStyle(each).fontFamily").lower()
        line = printed.evaluate("(each) => parseFloat(getComputedStyle(each).lineHeight)")
        assert printed.evaluate("(each) => each.scrollHeight") >= line * printed.inner_text().count("\n")


@pytest.mark.full
def test_a_program_that_was_continued_runs_and_then_ended(opened: OpenPage, stage: Stage) -> None:
    opened.page.keyboard.press("Enter")
    opened.shows("SYNC ON · at this step")
    with edited(stage, "*(volatile int *)0 = n;", 'while (access("stop", F_OK)) rest(1);'):
        opened.page.keyboard.press("Enter")
        opened.shows("SYNC ON · at this step")
        opened.page.get_by_role("button", name="Continue").click()
        opened.shows("SYNC OFF · the program runs")
        (stage.sessions.session().work / "probe" / "stop").touch()
        opened.shows("SYNC OFF · the program ended")
        (stage.sessions.session().work / "probe" / "stop").unlink()


@pytest.mark.full
def test_an_edited_line_is_compared_with_the_cards(opened: OpenPage, stage: Stage) -> None:
    with edited(stage, "/* quick */", "/*  slower  */"):
        report = failed(opened, "The code is not the card’s.")
        row = report.locator("tr.different").inner_text()
        assert "/* quick */" in row
        assert "n = n + 1; /*  slower  */" in row
        opens(report, stage, line_of(stage, "/* quick */"))


def test_an_edited_copy_is_told_with_its_difference_and_restored(opened: OpenPage, stage: Stage) -> None:
    told = opened.page.locator("#session")
    with edited(stage, "    n = 1;", "    n =  5;"):
        until(lambda: stage.tcp.get("/api/state")["session"]["changes"])  # the service keeps the status for 0.5 s
        opened.page.reload()
        opened.ready()
        told.get_by_text("main.c").first.wait_for()
        difference = told.locator("pre")
        assert difference.is_hidden(), "the difference is folded"
        told.get_by_text("main.c").first.click()
        assert difference.locator(".removed", has_text="-    n = 1;").count() == 1
        assert difference.locator(".added", has_text="+    n =  5;").count() == 1
        opened.page.get_by_role("button", name="Restore").click()
        told.get_by_text("Restored: ").wait_for()
        source = stage.sessions.session().work / "probe" / "main.c"
        assert source.read_text() == (stage.card / "src" / "main.c").read_text()
    opened.page.keyboard.press("Enter")
    opened.shows("SYNC ON · at this step")
    told.wait_for(state="hidden")


@pytest.mark.full
def test_a_session_of_another_card_is_told_until_it_is_no_longer_chosen(
    opened: OpenPage, stage: Stage, tmp_path: Path
) -> None:
    told = opened.page.locator("#session")
    other = make_card(tmp_path / "other", uuid="aaaaaaaa-0000-4000-8000-000000000002")
    stage.sessions.start(other, "other")
    try:
        stage.sessions.must("select", "other")
        told.get_by_text("This session is of another card.").wait_for()
        stage.sessions.must("select", "s")
        told.wait_for(state="hidden")
    finally:
        stage.sessions.must("select", "s")
        stage.sessions.stop("other")


@pytest.mark.full
def test_a_reset_elsewhere_turns_sync_off_with_its_reason(opened: OpenPage, stage: Stage) -> None:
    opened.page.get_by_role("treeitem", name="Step quick").click()
    opened.page.keyboard.press("Enter")
    opened.shows("SYNC ON · at this step")
    stage.sessions.run("reset")
    opened.shows("SYNC OFF · the program was reset")


@pytest.mark.full
def test_the_sheets_keep_their_style_when_the_card_is_edited(opened: OpenPage, stage: Stage) -> None:
    title = opened.page.locator("#sheets .part[data-kind=block_title]")
    look = "(title) => [getComputedStyle(title).fontWeight, getComputedStyle(title).position]"
    before = title.evaluate(look)
    source = stage.card / "card_source.json"
    opened.page.route("**/api/sheets/style.css*", lambda route: route.fulfill(status=503))
    source.write_text(source.read_text().replace('"Block"', '"Edited block"'))
    title.get_by_text("Edited block").wait_for()
    assert title.evaluate(look) == before
    opened.page.unroute("**/api/sheets/style.css*")
    with opened.page.expect_response("**/api/sheets/style.css*") as styled:
        source.write_text(source.read_text().replace('"Edited block"', '"Block"'))
    assert styled.value.status == 200
    title.get_by_text("Block", exact=True).wait_for()
    assert title.evaluate(look) == before
    assert opened.page.evaluate("sheets.shadowRoot.querySelectorAll('link').length") == 1

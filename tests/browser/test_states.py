"""The page's messages about a replay that runs, is cancelled, drifts or crashes, and about a missing session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import OpenPage, Tab, stage_of
from tests.functional.serving import Stage, make_card, until

pytestmark = pytest.mark.functional

SYNCED = "SYNC ON · at this step"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The application on the card whose program crashes at its last step, without a session at first."""
    with stage_of(make_card(tmp_path_factory.mktemp("probe") / "card", ending="crash")) as stage:
        yield stage


@pytest.fixture
def opened(stage: Stage, tab: Tab) -> OpenPage:
    """The page on a running session, at the first step."""
    if not stage.tcp.get("/api/state")["session"]["available"]:
        stage.sessions.start(stage.card)
    return tab("#/t1/b1/p1/quick")


def go_to_step(opened: OpenPage, name: str) -> None:
    opened.page.get_by_role("treeitem", name=f"Step {name}").click()
    opened.page.locator("#trail", has_text=f"Step {name}").wait_for()


def test_without_a_session_the_page_teaches_and_names_the_command(tab: Tab, stage: Stage) -> None:
    stage.sessions.stop()
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
    page = opened.page
    assert stage.tcp.post("/api/editor/reset", {}).status == 200
    go_to_step(opened, "slow")
    opened.keys("Enter")
    page.locator("#sync-state .now", has_text="replaying").wait_for()
    page.get_by_role("button", name="Cancel the replay").click()
    page.locator("#result", has_text="cancelled").wait_for()
    assert stage.tcp.get("/api/checkpoint/status")["last"]["state"] == "cancelled"
    stage.release()
    page.get_by_role("button", name="Sync again").click()
    opened.shows(SYNCED)


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
        opened.keys("Enter")
    report = opened.page.locator("#result")
    expect(report).to_contain_text(heading, timeout=30_000)  # a failure of the test shows the other report
    before = report.inner_text()
    assert "ran on" not in opened.page.locator("#sync-state").inner_text()
    opened.page.reload()
    opened.ready()
    expect(report).to_have_text(before, use_inner_text=True)
    return report


def opens(report: Locator, stage: Stage, line: int) -> None:
    report.get_by_role("button", name=f"Open line {line}", exact=True).first.click()
    until(lambda: (state := stage.tcp.get("/api/editor/state"))["cursor"]["row"] == line and state["buffer"])
    assert stage.tcp.get("/api/editor/state")["buffer"]["name"].endswith("/main.c")


def test_drift_is_a_table_and_belongs_to_its_position(opened: OpenPage, stage: Stage) -> None:
    page = opened.page
    opened.keys("Enter")
    opened.shows(SYNCED)
    go_to_step(opened, "drifted")
    report = failed(opened, "The program is not as the card says.")
    assert report.locator("tr.different").inner_text().split() == ["n", "7", "1"]
    assert report.locator("thead").inner_text().split() == ["Name", "Expected", "Seen"]
    opens(report, stage, line_of(stage, "/* quick */"))
    opened.shows("SYNC OFF · the sync failed")
    page.get_by_role("treeitem", name="Step slow").click()
    report.wait_for(state="hidden")
    page.get_by_role("button", name="See why").click()
    report.wait_for()
    opened.keys("Escape")
    report.wait_for(state="hidden")


def test_a_program_that_ends_before_the_stop_says_how(opened: OpenPage, stage: Stage) -> None:
    go_to_step(opened, "beyond")
    report = failed(opened, "The program crashed before the stop.")
    assert "SIGSEGV" in report.inner_text()
    opens(report, stage, line_of(stage, "*(volatile int *)0"))
    report.get_by_role("button", name="Reset", exact=True).click()
    report.wait_for(state="hidden")
    opened.page.locator("#scroller").focus()
    with edited(stage, "*(volatile int *)0 = n;", 'puts("last  words"); exit(3);'):
        report = failed(opened, "The program ended before the stop.")
    assert "code 3" in report.inner_text()
    assert report.locator("pre").inner_text() == "last  words"


def test_a_build_error_has_a_button_for_each_line(opened: OpenPage, stage: Stage) -> None:
    with edited(stage, "    n = 1;", "    n = missing  one;"), edited(stage, "return n;", "return m;"):
        report = failed(opened, "The program does not build.")
        assert report.locator(".messages li").count() >= 2
        opens(report, stage, line_of(stage, "return n;"))
        opens(report, stage, line_of(stage, "    n = 1;"))
        report.get_by_text("All that the build printed").click()
        printed = report.locator("pre")
        assert "    n = missing  one;\n" in printed.inner_text()


def test_an_edited_copy_is_told_with_its_difference_and_restored(opened: OpenPage, stage: Stage) -> None:
    page, told = opened.page, opened.page.locator("#session")
    with edited(stage, "/* quick */", "/*  slower  */"):
        report = failed(opened, "The code is not the card’s.")
        row = report.locator("tr.different").inner_text()
        assert "/* quick */" in row
        assert "n = n + 1; /*  slower  */" in row
        opens(report, stage, line_of(stage, "/* quick */"))
    with edited(stage, "    n = 1;", "    n =  5;"):

        def is_told() -> bool:
            """The service keeps the status for half a second, and the page asks for it when it loads."""
            page.reload()
            opened.ready()
            return told.get_by_text("main.c").count() > 0 and told.locator(".added", has_text="5;").count() == 1

        until(is_told, 30)
        difference = told.locator("pre")
        assert difference.is_hidden(), "the difference is folded"
        told.get_by_text("main.c").first.click()
        assert difference.locator(".removed", has_text="-    n = 1;").count() == 1
        assert difference.locator(".added", has_text="+    n =  5;").count() == 1
        page.get_by_role("button", name="Restore").click()
        told.get_by_text("Restored: ").wait_for()
        source = stage.sessions.session().work / "probe" / "main.c"
        assert source.read_text() == (stage.card / "src" / "main.c").read_text()
    page.locator("#scroller").focus()
    opened.keys("Enter")
    opened.shows(SYNCED)
    told.wait_for(state="hidden")

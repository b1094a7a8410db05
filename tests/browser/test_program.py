"""The toolbar that moves the program, and the regions with its call stack and its locals."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.browser.conftest import ARENA, OpenPage
from tests.functional.serving import Stage

pytestmark = [pytest.mark.functional, pytest.mark.usefixtures("fresh_place")]

Tab = Callable[..., OpenPage]
STEP = "bump/requests/three-requests/neighbours"
OTHER = "alignment/padding/types/char-double"
expect.set_options(timeout=30_000)  # like the other waits of the pages; five seconds are too few on a busy machine


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("toolbar", name="Program").get_by_role("button", name=name, exact=True)


def place(page: Page) -> Locator:
    return page.get_by_role("toolbar", name="Program").get_by_role("status")


def opened_region(page: Page, name: str) -> Locator:
    region = page.get_by_role("region", name=name)
    region.locator("summary").click()
    return region


def synced(tab: Tab, key: str = STEP) -> OpenPage:
    opened = tab(f"#/{key}")
    opened.page.get_by_role("button", name="Sync", exact=True).click()
    opened.shows("SYNC ON · at this step")
    return opened


def test_the_buttons_move_the_program_and_bring_it_back(tab: Tab, stage: Stage) -> None:
    page = tab(f"#/{STEP}").page
    page.keyboard.press("Enter")
    page.locator("#sync-state", has_text="SYNC ON").wait_for()
    for name, where in (("Next line", "demo_bump.c:17"), ("Step", "main.c:8"), ("Finish", "demo_bump.c:19")):
        button(page, name).click()
        expect(place(page)).to_have_text(where)
    page.locator("#sync-state", has_text="SYNC OFF · the program ran on").wait_for()
    page.locator("#editor pre", has_text="strcpy(second").wait_for(state="attached")
    page.evaluate(f"location.hash = '#/{OTHER}'")
    page.locator("#trail", has_text="char").wait_for()
    button(page, "Back to the stop").click()
    page.locator("#sync-state", has_text="SYNC ON · at this").wait_for()
    assert stage.tcp.get("/api/navigation/current")["key"].startswith(STEP)
    expect(place(page)).to_have_text("")


def test_call_stack_and_locals_are_covered_until_the_program_has_stopped_there(tab: Tab) -> None:
    page = tab(f"#/{OTHER}").page
    stack, variables = opened_region(page, "Call stack"), opened_region(page, "Locals")
    for region in (stack, variables):
        expect(region).to_contain_text("Covered until the program has stopped here.")
        assert region.get_by_role("table").count() == 0
    page.get_by_role("button", name="Sync", exact=True).click()
    expect(stack.get_by_role("row")).to_contain_text(["demo_align", "main"])
    expect(variables.get_by_role("row", name="flag char")).to_contain_text("char *")


@pytest.mark.full
def test_the_regions_follow_the_program_also_when_it_is_moved_in_gdbs_window(tab: Tab, stage: Stage) -> None:
    page = synced(tab).page
    variables, stack = opened_region(page, "Locals"), opened_region(page, "Call stack")
    third = variables.get_by_role("row", name="third char")
    expect(third).to_contain_text("0x0")
    stage.sessions.session().gdb("next")
    expect(third).not_to_contain_text("0x0")
    stage.sessions.session().gdb("step")
    expect(stack.get_by_role("row")).to_contain_text(["must", "demo_bump", "main"])
    expect(place(page)).to_have_text("main.c:8")


@pytest.mark.full
def test_a_program_that_has_ended_says_so_and_only_goes_back(tab: Tab) -> None:
    page = synced(tab).page
    button(page, "Continue").click()
    expect(place(page)).to_have_text("Ended: exit code 0")
    for name in ("Next line", "Step", "Finish", "Continue"):
        expect(button(page, name)).to_be_disabled()
    button(page, "Back to the stop").click()
    page.locator("#sync-state", has_text="SYNC ON · at this step").wait_for()
    expect(button(page, "Step")).to_be_enabled()


@pytest.mark.full
def test_keys_move_the_program_while_it_is_shown(tab: Tab, stage: Stage) -> None:
    page = synced(tab).page
    for key, where in (("F9", "demo_bump.c:17"), ("Shift+F9", "main.c:8"), ("Shift+F4", "demo_bump.c:19")):
        page.keyboard.press(key)
        expect(place(page)).to_have_text(where)
    page.keyboard.press("F4")
    expect(place(page)).to_have_text("Ended: exit code 0")
    last = stage.tcp.get("/api/events?limit=1000")["last_seq"]
    page.get_by_role("button", name="Hide the editor").click()
    page.keyboard.press("F9")
    page.get_by_role("button", name="Show editor").click()
    assert stage.tcp.get(f"/api/events?kind=program.moved&after={last}")["events"] == []


@pytest.mark.full
def test_a_program_that_runs_on_and_on_can_be_interrupted(tab: Tab) -> None:
    """The service's answers are simulated, because no shipped program runs without end."""
    page = synced(tab).page
    nowhere = {"reason": None, "file": None, "line": None, "function": None, "frames": [], "locals": []}
    interrupted = nowhere | {"state": "stopped", "reason": "SIGINT", "file": "loop.c", "line": 4}
    page.route("**/api/program/continue", lambda route: route.fulfill(json=nowhere | {"state": "running"}))
    page.route("**/api/program/interrupt", lambda route: route.fulfill(json=interrupted))
    page.route("**/api/program", lambda route: route.fulfill(json=nowhere | {"state": "running"}))
    button(page, "Continue").click()
    expect(place(page)).to_have_text("The program runs")
    expect(button(page, "Step")).to_be_disabled()
    expect(button(page, "Continue")).to_have_count(0)
    button(page, "Interrupt").click()
    expect(place(page)).to_have_text("SIGINT loop.c:4")
    expect(button(page, "Continue")).to_be_enabled()


@pytest.mark.full
def test_what_gdb_refuses_is_told_with_gdbs_reason(tab: Tab) -> None:
    page = synced(tab).page
    button(page, "Finish").click()
    expect(place(page)).to_have_text("main.c:17")
    button(page, "Finish").click()
    expect(page.locator("#result")).to_contain_text("Program not moved. Gdb refuses finish")
    button(page, "Next line").click()
    expect(place(page)).to_have_text("main.c:18")
    expect(page.locator("#result")).to_be_hidden()


@pytest.mark.full
def test_without_a_session_there_is_nothing_to_move(context: BrowserContext) -> None:
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as folder:
        alone = Stage(Path(folder) / "state", ARENA)
        try:
            page = context.new_page()
            page.goto(f"http://127.0.0.1:{alone.service.listener.port}/")
            page.locator("#sheets .sheet").first.wait_for()
            for hidden in (
                page.get_by_label("Program", exact=True),
                page.get_by_label("Locals"),
                page.get_by_label("Call stack"),
            ):
                expect(hidden).to_be_hidden()
        finally:
            alone.close()

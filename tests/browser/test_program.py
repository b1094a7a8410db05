"""The toolbar that moves the program, and the regions with its call stack and its locals."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import OpenPage, Tab
from tests.browser.requests import answer
from tests.functional.serving import Stage

pytestmark = [pytest.mark.functional, pytest.mark.usefixtures("fresh_place")]

STEP = "bump/requests/three-requests/neighbours"
OTHER = "alignment/padding/types/char-double"
SYNCED = "SYNC ON · at this step"


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
    opened.button("Sync").click()
    opened.shows(SYNCED)
    return opened


def test_buttons_and_keys_move_the_program_and_bring_it_back(tab: Tab, stage: Stage) -> None:
    opened = synced(tab)
    page = opened.page
    for name, where in (("Next line", "demo_bump.c:17"), ("Step", "main.c:8"), ("Finish", "demo_bump.c:19")):
        button(page, name).click()
        expect(place(page)).to_have_text(where)
    opened.shows("SYNC OFF · the program ran on")
    page.locator("#editor pre", has_text="strcpy(second").wait_for(state="attached")
    opened.go_to(OTHER)
    button(page, "Back to the stop").click()
    opened.shows("SYNC ON · at this")
    assert stage.tcp.get("/api/navigation/current")["key"].startswith(STEP)
    expect(place(page)).to_have_text("")
    for key, where in (("F9", "demo_bump.c:17"), ("Shift+F9", "main.c:8"), ("Shift+F4", "demo_bump.c:19")):
        opened.keys(key)
        expect(place(page)).to_have_text(where)
    button(page, "Finish").click()
    expect(place(page)).to_have_text("main.c:17")
    button(page, "Finish").click()
    expect(page.locator("#result")).to_contain_text("Program not moved. Gdb refuses finish")
    button(page, "Next line").click()
    expect(place(page)).to_have_text("main.c:18")
    expect(page.locator("#result")).to_be_hidden()
    opened.keys("F4")
    expect(place(page)).to_have_text("Ended: exit code 0")
    for name in ("Next line", "Step", "Finish", "Continue"):
        expect(button(page, name)).to_be_disabled()
    button(page, "Back to the stop").click()
    opened.shows("SYNC ON · at this")
    expect(button(page, "Step")).to_be_enabled()


def test_call_stack_and_locals_are_covered_and_then_follow_the_program(tab: Tab, stage: Stage) -> None:
    opened = tab(f"#/{OTHER}")
    page = opened.page
    stack, variables = opened_region(page, "Call stack"), opened_region(page, "Locals")
    for region in (stack, variables):
        expect(region).to_contain_text("Covered until the program has stopped here.")
        assert region.get_by_role("table").count() == 0
    opened.button("Sync").click()
    expect(stack.get_by_role("row")).to_contain_text(["demo_align", "main"])
    expect(variables.get_by_role("row", name="flag char")).to_contain_text("char *")
    opened.go_to(STEP)
    opened.button("Sync").click()
    opened.shows(SYNCED)
    third = variables.get_by_role("row", name="third char")
    expect(third).to_contain_text("0x0")
    stage.sessions.session().gdb("next")  # in gdb's own window
    expect(third).not_to_contain_text("0x0")
    stage.sessions.session().gdb("step")
    expect(stack.get_by_role("row")).to_contain_text(["must", "demo_bump", "main"])
    expect(place(page)).to_have_text("main.c:8")


def test_a_program_that_runs_on_and_on_can_be_interrupted(tab: Tab) -> None:
    """The service's answers are simulated, because no shipped program runs without end."""
    page = synced(tab).page
    nowhere = {"reason": None, "file": None, "line": None, "function": None, "frames": [], "locals": []}
    interrupted = nowhere | {"state": "stopped", "reason": "SIGINT", "file": "loop.c", "line": 4}
    answer(page, "**/api/program/continue", nowhere | {"state": "running"})
    answer(page, "**/api/program/interrupt", interrupted)
    answer(page, "**/api/program", nowhere | {"state": "running"})
    button(page, "Continue").click()
    expect(place(page)).to_have_text("The program runs")
    expect(button(page, "Step")).to_be_disabled()
    expect(button(page, "Continue")).to_have_count(0)
    button(page, "Interrupt").click()
    expect(place(page)).to_have_text("SIGINT loop.c:4")
    expect(button(page, "Continue")).to_be_enabled()

"""Brings one page into all its states, each with a name. Tests of every state and the screenshots use it."""

from __future__ import annotations

from collections.abc import Iterator

from playwright.sync_api import Page

from tests.browser.conftest import becomes
from tests.functional.serving import Stage

STOP = "bump/requests/three-requests/first"
LONG = "alignment/order/two-orders/as-they-come"
"""A step whose questions have long expressions."""


def states(page: Page, stage: Stage) -> Iterator[str]:
    """Bring a page of 1280 × 720 pixels from state to state. The stage has a session on the arena card. The tour ends
    this session."""
    page.goto(f"http://127.0.0.1:{stage.service.listener.port}/")
    page.locator("#sheets .sheet").first.wait_for()
    yield "first-visit"
    yield from _learning(page)
    yield from _around(page)
    yield from _explained(page, stage)
    yield from _over_the_sheets(page)
    yield from _failing(page, stage)


def _go(page: Page, key: str) -> None:
    page.evaluate("(key) => { location.hash = `#/${key}`; }", key)
    becomes(page, "(key) => sheets.shadowRoot.querySelector('.here')?.dataset.key.startsWith(key)", key)


def _learning(page: Page) -> Iterator[str]:
    _go(page, STOP)
    page.get_by_role("button", name="Hint", exact=True).click()
    page.locator("#foot .hint").wait_for()
    yield "question"
    fields = page.locator("#foot-values input")
    for number in range(fields.count()):
        fields.nth(number).fill("7")
    fields.last.press("Enter")
    yield "predicted"
    page.keyboard.press("Enter")
    page.locator("#foot .rows").wait_for()
    page.keyboard.press("Alt+6")
    page.locator("#memory .strip").wait_for()
    yield "judged"
    _go(page, LONG)
    page.locator("#foot-values input").first.fill("0xffffffff00000000")
    page.keyboard.press("F2")
    page.locator("#foot .rows").wait_for()
    yield "judged-long"


def _around(page: Page) -> Iterator[str]:
    """States beside the sheets, and states away from the stop."""
    for part in ("Call stack", "Locals"):
        page.get_by_role("region", name=part).locator("summary").click()
    page.get_by_role("region", name="Locals").locator("td").first.wait_for()
    yield "program"
    for part in ("Call stack", "Locals"):
        page.get_by_role("region", name=part).locator("summary").click()
    page.keyboard.press("F8")
    becomes(page, "document.activeElement.closest('#editor') !== null")
    yield "control"
    page.keyboard.press("F8")
    page.keyboard.press("ArrowRight")
    page.locator("#sync-state", has_text="elsewhere").wait_for()
    yield "elsewhere"
    page.get_by_role("button", name="Next page", exact=True).click()
    page.locator("#away").wait_for()
    yield "turned-away"
    page.keyboard.press("Enter")
    switch_teacher(page, on=True)
    yield "teacher"
    switch_teacher(page, on=False)


def switch_teacher(page: Page, *, on: bool) -> None:
    page.locator("#menu").click()
    page.get_by_label("Teacher").set_checked(on)
    page.keyboard.press("Escape")


def _explained(page: Page, stage: Stage) -> Iterator[str]:
    """States with an annotation of each kind on the sheet, and a strategy whose output differs from the expected
    output."""
    _go(page, STOP)
    body = {"key": f"{STOP}/after-first", "label": "How full?", "commands": ["print a.used", "info locals"]}
    strategy = stage.tcp.post("/api/strategies", body | {"expected_observations": ["16", "a"]}).json["id"]
    for number, kind in enumerate(("box", "arrow", "underline", "marker", "callout", "freehand")):
        y = number / 8
        stage.tcp.post(
            "/api/annotations",
            {
                "strategy_id": strategy,
                "target": {"part": f"{STOP}:code", "x": 0.5, "y": y, "w": 0.2, "h": 0.1},
                "geometry": {"points": [[0.5, y], [0.7, y + 0.1]]},
                "style": {"kind": kind, "color": ("current", "accent", "good", "bad", "ink", "#7030a0")[number]},
                "text": f"A {kind}",
            },
        )
    page.keyboard.press("Alt+8")
    page.get_by_role("button", name="Run How full?").click()
    page.locator("#strategy-list .outcome").wait_for()
    page.locator("#annotation-list .link").first.click()
    yield "annotations"
    page.get_by_role("button", name="Draw", exact=True).click()
    page.locator("#explain [role=status]", has_text="Enter draws").wait_for()
    yield "drawing"
    page.keyboard.press("Escape")
    page.keyboard.press("Alt+8")
    stage.tcp.request("DELETE", f"/api/strategies/{strategy}")
    becomes(page, "() => !sheets.shadowRoot.querySelector('.annotations')")


def _over_the_sheets(page: Page) -> Iterator[str]:
    page.keyboard.press("/")
    page.keyboard.type("round_up")
    page.locator("#matches mark").first.wait_for()
    yield "search"
    page.keyboard.press("Escape")
    page.get_by_role("tab", name="Map").click()
    page.locator("#map svg").wait_for()
    yield "map"
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Results").click()
    page.get_by_role("region", name="Results").wait_for()
    yield "results"
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Events", exact=True).click()
    page.get_by_role("list", name="Events, newest first").get_by_role("listitem").first.wait_for()
    yield "events"
    page.keyboard.press("Escape")
    page.locator("#menu").click()
    page.locator("#cards li").first.wait_for()
    yield "menu"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keyboard").wait_for()
    yield "keyboard"
    page.keyboard.press("Escape")


def _failing(page: Page, stage: Stage) -> Iterator[str]:
    """The code of the session's copy is edited, then broken. Then the session and the service end."""
    _go(page, STOP)
    source = stage.sessions.session().work / "arena" / "demo_bump.c"
    code = source.read_text()
    source.write_text(code.replace("char *second =", "char  *second ="))
    page.keyboard.press("F2")
    page.locator("#result", has_text="The card").wait_for()
    page.locator("#session summary").click()
    yield "drift"
    source.write_text(code.replace("Arena a", "Arnea a"))
    page.keyboard.press("F2")
    page.locator("#result .messages").wait_for()
    yield "build-error"
    stage.sessions.stop()
    page.get_by_text("A session adds this editor").wait_for()
    yield "no-session"
    stage.service.stop()
    page.locator("#notice").wait_for()
    yield "disconnected"

"""How quick the page is, in the system's Chromium on a real session: ``python -m tests.bench.page``, three minutes."""

from __future__ import annotations

import os
import statistics
import tempfile
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from playwright.sync_api import Browser, Page

from cardapp.settings import ROOT
from tests.bench import page_keys
from tests.bench.emit import plain_steps, written
from tests.bench.figures import Figure, spread, table
from tests.bench.page_tab import opened, ready
from tests.functional.chromium import chromium
from tests.functional.serving import Sessions, until
from tests.functional.test_crash import Server

ARENA = ROOT / "etc" / "cards" / "arena"
STEPS = 2000
LOADS = 7
SYNCS = 24
MOVES = 60
STOPS = 20
NEXT_FIELD = """const before = document.querySelector('#foot-values input, #foot-values .rows');
probe.armChange(() => !before.isConnected && document.activeElement.closest('#foot-values'))"""
VIEW = """() => JSON.stringify([scroller.scrollTop, memory.hidden, editor.hidden, tree.textContent,
  ...['zoom', 'page-number', 'trail', 'sync-state'].map((id) => document.getElementById(id).textContent)])"""
LOOKS_SAME = """async (pictures) => {
  const [some, others] = await Promise.all(pictures.map(async (picture) => {
    const image = new Image();
    image.src = `data:image/png;base64,${picture}`;
    await image.decode();
    const context = new OffscreenCanvas(image.width, image.height).getContext('2d');
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, image.width, image.height).data;
  }));
  return some.every((value, at) => Math.abs(value - others[at]) <= 8);  // edges are not drawn the same way each time
}"""
RETURNED = f"(before) => document.getElementById('sync-state') && ({VIEW})() === before"


def measure() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as name, chromium() as browser:
        folder = Path(name)
        with _served(folder / "state", ARENA) as server:
            yield from _syncs(browser, server)
            yield _next_fields(browser, server)
            yield _follows(browser, server)
            yield from page_keys.measure(browser, server, folder)
        card = written(folder / "large", islice(plain_steps(), STEPS))
        with _served(folder / "large-state", card) as server:
            yield _loads(browser, server)
            yield from _reloads(browser, server)


@contextmanager
def _served(state: Path, card: Path) -> Iterator[Server]:
    """The service of ``card`` as a process of its own, and a session."""
    sessions = Sessions(state)
    sessions.start(card)
    try:
        places = {"CARD_STATE_DIR": str(state), "CARD_SOURCE": str(card), "CARD_API_PORT": "0"}
        server = Server(os.environ | places)
        try:
            yield server
        finally:
            server.kill()
    finally:
        sessions.stop()


# -- sync and a second page ------------------------------------------------------------------------------------------


def _syncs(browser: Browser, server: Server) -> Iterator[Figure]:
    """Each step twice: the second time from a fork checkpoint."""
    page = ready(opened(browser, server.address))
    steps = _steps(server)
    _sync(page, server, steps[-1])
    for name, goal in (("the first time", 80), ("again", 70)):
        seconds = [_sync(page, server, step) for step in steps[:SYNCS]]
        yield Figure(f"Enter to SYNC ON painted, each step {name}", spread(seconds), f"p50 ≤ {goal} ms")
    page.context.close()


def _steps(server: Server) -> list[str]:
    return [each["key"] for each in server.api.get("/api/navigation/catalog")["items"] if each["level"] == "step"]


def _go(server: Server, step: str) -> None:
    place = dict(zip(("task_id", "block_id", "phase_id", "step_id"), step.split("/"), strict=True))
    assert server.api.put("/api/navigation/current", {**place, "focus_level": "step"}).status == 200


def _sync(page: Page, server: Server, step: str) -> float:
    _go(server, step)
    page.locator("#sync-state:not(.on)").wait_for()
    page.evaluate("probe.armKey()")
    page.evaluate(
        "probe.armChange(() => document.getElementById('sync-state').textContent === 'SYNC ON · at this step')"
    )
    page.keyboard.press("Enter")
    return float(page.evaluate("probe.result.then((painted) => painted - probe.pressed)")) / 1000


def _next_fields(browser: Browser, server: Server) -> Figure:
    """Enter on Next, at a stop that was predicted and run: the next stop's first field is painted and has the focus."""
    page = ready(opened(browser, server.address))
    _go(server, _steps(server)[SYNCS])  # the steps before it were run already, and ask no longer
    page.locator("#foot-head", has_text=f"Step {SYNCS + 1} of").wait_for()
    act = page.locator("#act")
    seconds = []
    for _ in range(STOPS):
        for field in page.locator("#foot-values input").all():
            field.fill("1")
        page.keyboard.press("Enter")
        act.filter(has_text="Run to the stop").press("Enter")
        act.filter(has_text="Next").focus()
        page.evaluate("probe.armKey()")
        page.evaluate(NEXT_FIELD)
        page.keyboard.press("Enter")
        seconds.append(page.evaluate("probe.result.then((painted) => painted - probe.pressed)") / 1000)
    page.context.close()
    return Figure("Enter on Next to the next field painted, with the focus", spread(seconds), "p50 ≤ 50 ms")


def _follows(browser: Browser, server: Server) -> Figure:
    """Both clocks are the machine's, and count from each tab's ``timeOrigin``."""
    first, second = (ready(opened(browser, server.address)) for _ in range(2))
    seconds = []
    for number in range(MOVES):
        second.evaluate("const before = document.title; probe.armChange(() => document.title !== before)")
        first.evaluate("probe.armKey()")
        first.keyboard.press("ArrowRight" if number % 8 < 4 else "ArrowLeft")
        seconds.append((second.evaluate("probe.result") - first.evaluate("probe.pressed")) / 1000)
    for page in (first, second):
        page.context.close()
    return Figure("a key that moves to the other page's move painted", spread(seconds), "p99 ≤ 80 ms")


# -- loading ---------------------------------------------------------------------------------------------------------


def _loads(browser: Browser, server: Server) -> Figure:
    """Each in a browser profile without a cache."""
    _go(server, _steps(server)[STEPS // 2])
    seconds = []
    for _ in range(LOADS):
        page = opened(browser, server.address)
        seconds.append(_interactive(page))
        page.context.close()
    return Figure(f"page load to interactive, {STEPS:,} steps", _middle(seconds), "≤ 1 000 ms")


def _interactive(page: Page) -> float:
    """Seconds from the navigation until the sheet and the outline are painted and no long task is under way; a key
    then works."""
    milliseconds = float(page.evaluate("probe.interactive()"))
    title = page.title()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("(title) => document.title !== title", arg=title)
    return milliseconds / 1000


def _reloads(browser: Browser, server: Server) -> Iterator[Figure]:
    """The time from a reload until the earlier view is back: position, page, place, zoom and panels, and the same
    picture."""
    page = ready(opened(browser, server.address))
    page.keyboard.press("Alt+6")
    page.get_by_role("button", name="Next page", exact=True).click()
    page.get_by_role("button", name="Zoom in", exact=True).click()
    page.locator("#scroller").evaluate("(element) => element.scrollTo(0, 300)")
    until(lambda: server.api.get("/api/viewer/state")["scroll"]["sheet_scroll_top"] > 0)
    page.evaluate("document.activeElement.blur()")  # the focus is not a part of the view
    page.mouse.move(0, 0)
    picture, before = _settled(page), page.evaluate(VIEW)
    seconds, same = [], 0
    for _ in range(LOADS):
        page.reload(wait_until="commit")
        page.wait_for_function(RETURNED, arg=before)
        seconds.append(page.evaluate("performance.now()") / 1000)
        same += bool(page.evaluate(LOOKS_SAME, [_settled(page), picture]))
    page.context.close()
    yield Figure(f"reload to the same view, {STEPS:,} steps", _middle(seconds), "≤ 1 000 ms")
    yield Figure("reloads that came back to the same picture", f"{same} of {LOADS}", "all")


def _settled(page: Page) -> str:
    """The tab's picture in base64, once it stays the same for half a second."""
    pictures = [page.screenshot()]

    def stays() -> bool:
        page.wait_for_timeout(500)
        pictures.append(page.screenshot())
        return pictures[-1] == pictures[-2]

    until(stays)
    return b64encode(pictures[-1]).decode()


def _middle(seconds: Sequence[float]) -> str:
    return f"p50 {1000 * statistics.median(seconds):.0f} ms, slowest {1000 * max(seconds):.0f} ms"


if __name__ == "__main__":
    print(table(list(measure())))

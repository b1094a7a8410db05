"""The chart page in the system's Chromium, over the real frontend, API and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page, Request

from tests.browser.market.stage import Stage, minutes, now, running_stage
from tests.browser.tabs import Tabs
from tests.functional.serving import until

SYMBOL = "DEMO:ETH-USDC"
SIZE = {"width": 1280, "height": 720}

# Counts pixels of the chart's canvas, in a part of its width. Their channels differ from a colour by at most `near`.
PIXELS = """([colour, from, to, near]) => {
  const probe = document.createElement('i');
  document.body.append(probe);
  probe.style.color = colour;
  const dot = document.createElement('canvas').getContext('2d');
  dot.fillStyle = getComputedStyle(probe).color;
  dot.fillRect(0, 0, 1, 1);
  const wanted = dot.getImageData(0, 0, 1, 1).data;
  probe.remove();
  let found = 0;
  for (const canvas of document.querySelectorAll('#chart td:nth-child(2) canvas')) {
    const [start, end] = [from, to].map((share) => Math.round(share * canvas.width));
    const { data } = canvas.getContext('2d').getImageData(start, 0, end - start, canvas.height);
    const isWanted = (at) => [0, 1, 2].every((channel) => Math.abs(data[at + channel] - wanted[channel]) <= near);
    for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 250 && isWanted(at)) found += 1;
  }
  return found;
}"""


# Notes each text of a canvas with its position in CSS pixels, from now on.
NOTE_TEXTS = """() => {
  const isNoted = Boolean(window.texts);
  window.texts = [];
  if (isNoted) return;
  const draw = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    const { e, f, a, d } = this.getTransform();
    const { left, top, width } = this.canvas.getBoundingClientRect();
    const ratio = this.canvas.width / (width || 1);
    window.texts.push({ text, font: this.font, x: left + (x * a + e) / ratio, y: top + (y * d + f) / ratio });
    return draw.apply(this, arguments);
  };
}"""


@dataclass
class ChartPage:
    """A tab, the errors of its scripts, and the candles that it requested."""

    page: Page
    stage: Stage
    faults: list[str] = field(default_factory=list)
    chart_requests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("pageerror", lambda error: self.faults.append(str(error.stack)))
        self.page.on("request", self._note)
        self.page.set_default_timeout(30_000)

    def _note(self, request: Request) -> None:
        if "/api/v1/chart?" in request.url:
            self.chart_requests.append(request.url)

    def go(self, query: str = "") -> ChartPage:
        self.page.goto(self.stage.address + query)
        return self

    def keys(self, *names: str) -> None:
        for name in names:
            self.page.keyboard.press(name)

    def choose(self, typed: str) -> None:
        """Choose what the search finds for the typed text: letters find a symbol, digits an interval."""
        self.page.keyboard.type(typed)
        self.page.locator("dialog[open] [role=option]").first.wait_for()
        self.page.keyboard.press("Enter")

    def closes_at(self, price: str) -> None:
        """Wait until the legend has this close."""
        self.becomes(lambda: self.legend().get("C") == price)

    def drawn(self) -> ChartPage:
        """Wait until candles are shown and the page is live."""
        self.page.locator("#legend-values .digits").first.wait_for()
        self.page.locator("#live.live, #live.behind").wait_for()
        return self

    def legend(self) -> dict[str, str]:
        """The legend's amounts by name, with every digit and without spaces."""
        parts = "(all) => all.map((each) => ['b', '.digits'].map((part) => each.querySelector(part).textContent))"
        found = self.page.locator("#legend-values .amount").evaluate_all(parts)
        return {name: digits.replace("\u202f", "") for name, digits in found}

    @property
    def url(self) -> str:
        """The page's address. The page is asked, because while a test only waits, Playwright learns of no change."""
        found: str = self.page.evaluate("location.href")
        return found

    def becomes(self, condition: Callable[[], Any]) -> Any:
        return until(condition, 30)

    def pixels(self, colour: str, start: float = 0, end: float = 1, near: int = 6) -> int:
        found: int = self.page.evaluate(PIXELS, [colour, start, end, near])
        return found

    def has_pixels(self, colour: str, start: float = 0, end: float = 1, near: int = 6) -> int:
        found: int = self.becomes(lambda: self.pixels(colour, start, end, near))
        return found


Tab = Callable[..., ChartPage]


def query(symbol: str = SYMBOL, interval: str = "1m", **more: object) -> str:
    return "?" + "&".join(f"{name}={value}" for name, value in {"symbol": symbol, "interval": interval, **more}.items())


def choose_zone(page: Page, typed: str) -> None:
    """Choose the first time zone that is found for the typed text."""
    page.keyboard.press("Alt+z")
    page.keyboard.type(typed)
    page.keyboard.press("Enter")


# Resolves when the chart has not moved for three frames. A movement begins in the frame after its cause.
SETTLED = """() => new Promise((done) => {
  let still = 0;
  const look = () => {
    still = document.querySelector('#chart')?.matches('[data-moving]') ? 0 : still + 1;
    if (still > 3) done(location.href); else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})"""


def settled(opened: ChartPage) -> str:
    """The page's address, after it has followed the view."""
    found: str = opened.page.evaluate(SETTLED)
    return found


def shown(opened: ChartPage) -> dict[str, str]:
    """The parts of the address, after it has followed the view."""
    found = parse_qs(urlsplit(settled(opened).replace("+", "%2B")).query)
    return {name: values[0] for name, values in found.items()}


def iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_of(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def clock(ms: int, offset: int = 0) -> str:
    """What clocks show that are ``offset`` minutes ahead of UTC, like 2026-01-31 12:00:00."""
    return f"{datetime.fromtimestamp(ms // 1000, UTC) + timedelta(minutes=offset):%Y-%m-%d %H:%M:%S}"


# Resolves when the canvases have the height of their place, and are painted.
PAINTED = """(height) => new Promise((done) => {
  let painted = 0;
  const look = () => {
    const [place, table] = ['#chart', '#chart table'].map((name) => document.querySelector(name));
    const isSized = innerHeight === height && Math.abs(place.clientHeight - table.offsetHeight) < 2;
    painted = isSized ? painted + 1 : 0;
    if (painted > 4) done(); else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})"""


def drawn_texts(opened: ChartPage) -> dict[str, dict[str, Any]]:
    """The texts that the canvases show after a redraw, each with its place."""
    settled(opened)
    for height in (700, 720):
        opened.page.evaluate(NOTE_TEXTS)
        opened.page.set_viewport_size({"width": 1280, "height": height})
        opened.page.evaluate(PAINTED, height)
    return {each["text"]: each for each in opened.page.evaluate("texts")}


def still_picture(page: Page, selector: str) -> bytes:
    """A picture of the element that no longer changes."""
    before = b""
    for _ in range(50):
        found = page.locator(selector).screenshot()
        if found == before:
            return found
        before = found
    raise AssertionError(f"{selector} does not come to rest")


def new_tabs(browser: Browser, stage: Stage, **more: Any) -> Tabs:
    """The tabs of a new context with the login."""
    credentials: Any = {"username": stage.user, "password": stage.password}
    context = browser.new_context(viewport=SIZE, http_credentials=credentials, reduced_motion="reduce", **more)
    return Tabs(context, f"{stage.address}healthz")


@pytest.fixture(scope="package")
def stage() -> Iterator[Stage]:
    """The tests of all files share it: each one writes to symbols that no other has, and none to SYMBOL, which has
    trades in 400 minutes."""
    with running_stage() as stage:
        stage.write(*minutes(SYMBOL, now(), 400))
        yield stage


@pytest.fixture(scope="package")
def tabs(browser: Browser, stage: Stage) -> Iterator[Tabs]:
    made = new_tabs(browser, stage)
    yield made
    made.context.close()


@pytest.fixture
def tab(tabs: Tabs, stage: Stage) -> Iterator[Tab]:
    """Opens the page at an address, or a tab without it. At the end of the test, fails if any script of the page had an
    error."""
    opened: list[ChartPage] = []

    def open_tab(query: str | None = None) -> ChartPage:
        found = ChartPage(tabs.new(), stage)
        opened.append(found)
        return found if query is None else found.go(query)

    yield open_tab
    tabs.forget()
    for each in opened:
        assert each.faults == []


@pytest.fixture(scope="package")
def blank(tabs: Tabs, stage: Stage) -> Page:
    """A page whose scripts a test may import."""
    return tabs.first

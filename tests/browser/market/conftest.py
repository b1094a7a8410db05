"""The chart page in the system's Chromium, over the real frontend, API and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request

from tests.browser.market.stage import ROOT, Stage, minutes, now, running_stage
from tests.browser.tabs import Tabs
from tests.functional.serving import until

LIBRARY = ROOT / "marketdata" / "frontend" / "static" / "vendor" / "lightweight-charts.mjs"
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
        self.page.set_default_timeout(20_000)

    def _note(self, request: Request) -> None:
        if "/api/v1/chart?" in request.url:
            self.chart_requests.append(request.url)

    def go(self, query: str = "") -> ChartPage:
        self.page.goto(self.stage.address + query)
        return self

    def drawn(self) -> ChartPage:
        """Wait until candles are shown and the page is live."""
        self.page.locator("#legend-values .digits").first.wait_for()
        self.page.locator("#live.live, #live.behind").wait_for()
        return self

    def legend(self) -> dict[str, str]:
        """The legend's amounts by name, with every digit and without spaces."""
        texts = self.page.locator("#legend-values .amount").all_text_contents()
        return {text[0]: text[1:].replace("\u202f", "") for text in texts}

    @property
    def url(self) -> str:
        """The page's address. The page is asked, because while a test only waits, Playwright learns of no change."""
        found: str = self.page.evaluate("location.href")
        return found

    def becomes(self, condition: Callable[[], Any]) -> Any:
        return until(condition, 20)

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


def settled(opened: ChartPage) -> str:
    """The page's address, after the delay with which it follows the view."""
    opened.page.wait_for_timeout(600)
    return opened.url


def drawn_texts(opened: ChartPage) -> dict[str, dict[str, Any]]:
    """The texts that the canvases show after a redraw, each with its place."""
    opened.page.set_viewport_size({"width": 1280, "height": 700})
    opened.page.wait_for_timeout(200)
    opened.page.evaluate(NOTE_TEXTS)
    opened.page.set_viewport_size({"width": 1280, "height": 720})
    opened.page.wait_for_timeout(300)
    return {each["text"]: each for each in opened.page.evaluate("texts")}


def new_tabs(browser: Browser, stage: Stage, **more: Any) -> Tabs:
    """The tabs of a new context with the login."""
    credentials: Any = {"username": stage.user, "password": stage.password}
    context = browser.new_context(viewport=SIZE, http_credentials=credentials, reduced_motion="reduce", **more)
    return Tabs(context, f"{stage.address}healthz")


@contextmanager
def traded_stage() -> Iterator[Stage]:
    """A stage with 400 minutes of trades of SYMBOL."""
    if not LIBRARY.exists():
        pytest.skip("not run: the set-up could not fetch the chart library")
    with running_stage() as stage:
        stage.write(*minutes(SYMBOL, now(), 400))
        yield stage


@pytest.fixture(scope="package")
def stage() -> Iterator[Stage]:
    """The tests of all files share it: each one writes to symbols that no other has, and none to SYMBOL."""
    with traded_stage() as stage:
        yield stage


@pytest.fixture(scope="module")
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


@pytest.fixture(scope="module")
def blank(tabs: Tabs, stage: Stage) -> Page:
    """A page whose scripts a test may import."""
    return tabs.first

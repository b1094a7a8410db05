"""The page in the system's Chromium, over the whole application with a session on the arena card."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request

from cardapp.settings import ROOT
from tests.functional.conftest import browser  # noqa: F401
from tests.functional.serving import Stage

ARENA = ROOT / "etc" / "cards" / "arena"


@dataclass
class OpenPage:
    """A tab, and what went wrong in it."""

    page: Page
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("requestfailed", self._failed)
        self.page.set_default_timeout(10_000)

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # a reload ends what is under way
            self.faults.append(f"{request.url} {request.failure}")

    def ready(self) -> OpenPage:
        """Wait until the first sheet stands."""
        self.page.locator("#sheets .sheet").first.wait_for()
        return self

    def pill(self) -> str:
        return self.page.locator("#pill").inner_text()

    def shows(self, text: str) -> None:
        self.page.locator("#pill", has_text=text).wait_for()

    def grid(self) -> str:
        """The editor's text, as a screen reader gets it."""
        found: str = self.page.locator("#editor pre").inner_text()
        return found


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """The application and a session on the arena card."""
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as folder:
        stage = Stage(Path(folder) / "state", ARENA)
        try:
            stage.sessions.start(stage.card)
            yield stage
        finally:
            stage.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:  # noqa: F811
    made = browser.new_context(viewport={"width": 1280, "height": 720})
    yield made
    made.close()


@pytest.fixture
def tab(context: BrowserContext, stage: Stage) -> Iterator[Any]:
    """Opens a tab on the page, at an address below it; in the end nothing may have gone wrong in any of them."""
    opened: list[OpenPage] = []

    def open_tab(address: str = "") -> OpenPage:
        found = OpenPage(context.new_page())
        opened.append(found)
        found.page.goto(f"http://127.0.0.1:{stage.service.listener.port}/{address}")
        return found.ready()

    yield open_tab
    for each in opened:
        assert each.faults == []

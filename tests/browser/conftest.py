"""The page in the system's Chromium, over the whole application with a session on the arena card."""

# ruff: noqa: F811 - a fixture is imported, and asked for by its name

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Request, expect

from cardapp.settings import ROOT
from tests.browser.tabs import Tabs
from tests.functional.chromium import browser, pytest_runtest_setup, pytest_runtest_teardown  # noqa: F401
from tests.functional.registry import npm_install
from tests.functional.serving import Stage, until
from tests.functional.session_neovim import Neovim
from tests.run_folder import made_once

AXE = "axe-core@4.14.1"
CARDS = ROOT / "etc" / "cards"
ARENA = CARDS / "arena"
FIRST = "bump/anatomy/empty/fields"
VIEW = {
    "scale": 1,
    "scroll": {"x": 0, "y": 0, "page_index": 0, "sheet_scroll_top": 0},
    "viewer": {
        "page": {"fit": True, "expanded": False},
        "editor": {"visible": True, "sync": True, "control": False, "expanded": False, "fit": True},
        "allocator": {"visible": False},
    },
}
"""The viewer state of a new page."""
expect.set_options(timeout=30_000)  # like the other waits of the pages; five seconds are too few on a busy machine


def becomes(page: Page, script: str, arg: Any = None) -> None:
    """Wait until ``script`` is true. Playwright's ``wait_for_function`` needs ``eval``, which the page's policy
    forbids."""
    until(lambda: page.evaluate(script, arg), 30)


@dataclass
class OpenPage:
    """A tab, and the errors that occurred in it."""

    page: Page
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("requestfailed", self._failed)
        self.page.set_default_timeout(30_000)

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # a reload aborts running requests
            self.faults.append(f"{request.url} {request.failure}")

    def ready(self) -> OpenPage:
        """Wait until the first sheet is shown."""
        self.page.locator("#sheets .sheet").first.wait_for()
        return self

    def shows(self, text: str) -> None:
        self.page.locator("#sync-state", has_text=text).wait_for()

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def keys(self, *names: str) -> None:
        for name in names:
            self.page.keyboard.press(name)

    def go_to(self, key: str) -> None:
        """Open a position by its address."""
        self.page.evaluate("(key) => { location.hash = `#/${key}`; }", key)
        becomes(self.page, "(key) => sheets.shadowRoot.querySelector('.here')?.dataset.key.startsWith(key)", key)

    def control(self, stage: Stage) -> OpenPage:
        """Give the keyboard to the editor."""
        self.page.keyboard.press("F8")
        until(lambda: stage.tcp.get("/api/viewer/state")["viewer"]["editor"]["control"])
        becomes(
            self.page, "document.activeElement?.closest('#editor') && document.activeElement.localName === 'textarea'"
        )
        until(lambda: self.grid().strip(), 30)  # before its first picture the editor may not be connected
        return self

    def grid(self) -> str:
        """The editor's text, as a screen reader gets it."""
        found: str = self.page.locator("#editor pre").inner_text()
        return found

    def picture(self) -> str:
        """The same text with all blanks."""
        return self.page.locator("#editor pre").text_content() or ""


Tab = Callable[..., OpenPage]
LEARNERS = count(1)


@contextmanager
def stage_of(card: Path, *, with_session: bool = False) -> Iterator[Stage]:
    """The application on a card."""
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as folder:
        stage = Stage(Path(folder) / "state", card)
        try:
            if with_session:
                stage.sessions.start(stage.card)
            yield stage
        finally:
            stage.close()


@pytest.fixture(scope="package")
def arena() -> Iterator[Stage]:
    """The application and a session on the arena card. The tests of all files share it."""
    with stage_of(ARENA, with_session=True) as stage:
        yield stage


@pytest.fixture(scope="module")
def stage(arena: Stage) -> Stage:
    return arena


@pytest.fixture
def fresh_place(stage: Stage) -> None:
    """The test begins with a new learner, at the first step, with the viewer state of a new page."""
    # A sync that an earlier test began ends first.
    until(lambda: stage.tcp.post("/api/learners", {"name": f"Learner {next(LEARNERS)}"}).status in {200, 201}, 30)
    ids = dict(zip(("task_id", "block_id", "phase_id", "step_id"), FIRST.split("/"), strict=True))
    assert stage.tcp.put("/api/navigation/current", {**ids, "focus_level": "step"}).status == 200
    assert stage.tcp.put("/api/viewer/state", VIEW).status == 200


@pytest.fixture
def neovim(stage: Stage) -> Iterator[Neovim]:
    found = Neovim(stage)
    yield found
    found.close()


@pytest.fixture
def scratch(neovim: Neovim) -> Iterator[Neovim]:
    """Neovim in an empty buffer and in normal mode. Afterwards its previous buffer is shown again."""
    to_normal_mode(neovim)  # an earlier test may have left another
    before = neovim.call("nvim_get_current_buf")
    neovim.call("nvim_command", "enew!")
    yield neovim
    to_normal_mode(neovim)
    made = neovim.call("nvim_get_current_buf")
    neovim.call("nvim_set_current_buf", before)
    neovim.call("nvim_buf_delete", made, {"force": True})


def to_normal_mode(neovim: Neovim) -> None:
    neovim.call("nvim_input", "<C-\\><C-n>")
    until(lambda: neovim.call("nvim_get_mode")["mode"] == "n")


@pytest.fixture(scope="session")
def axe(run_folder: Path) -> str:
    """The script of axe-core. One worker of a run installs it for all."""
    folder = run_folder / "axe-core"
    with made_once(folder) as is_first:
        if is_first:
            npm_install([AXE], folder)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")


def asked_context(browser: Browser) -> BrowserContext:
    """A browser context in which the page has already asked for the learner's name."""
    made = browser.new_context(viewport={"width": 1280, "height": 720})
    made.add_init_script("if (location.protocol === 'http:') localStorage.setItem('name asked', 'yes')")
    return made


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = asked_context(browser)
    yield made
    made.close()


@pytest.fixture(scope="module")
def tabs(browser: Browser, stage: Stage) -> Iterator[Tabs]:
    made = Tabs(asked_context(browser), f"http://127.0.0.1:{stage.service.listener.port}/api/identity")
    yield made
    made.context.close()


@pytest.fixture
def tab(tabs: Tabs, stage: Stage) -> Iterator[Any]:
    """Opens a tab at an address of the page. At the end no tab may have an error."""
    opened: list[OpenPage] = []

    def open_tab(address: str = "") -> OpenPage:
        found = OpenPage(tabs.new())
        opened.append(found)
        found.page.goto(f"http://127.0.0.1:{stage.service.listener.port}/{address}")
        return found.ready()

    yield open_tab
    tabs.forget()
    for each in opened:
        assert each.faults == []

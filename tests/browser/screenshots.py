"""Every state of the page as a picture: ``python -m tests.browser.screenshots FOLDER``.

Real Chromium over the real application with a session on the arena card. States that a correct card never reaches are
shown with a test card.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page

from cardapp.settings import ROOT
from tests.browser.tour import states
from tests.functional.attached_terminal import AttachedTerminal
from tests.functional.chromium import chromium
from tests.functional.serving import Stage, make_card

ColorScheme = Literal["light", "dark"]
ARENA = ROOT / "etc" / "cards" / "arena"
SMALL, LARGE, NARROW = (1280, 720), (1920, 1080), (800, 720)
SYNCED = "alignment/padding/types/char-double"
COVERED = "bump/requests/three-requests/first"


class Album:
    """Takes the pictures of one service into ``folder``."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self._browser = browser
        self._folder = folder

    @contextmanager
    def page(
        self, stage: Stage, address: str = "", size: tuple[int, int] = SMALL, scheme: ColorScheme = "light"
    ) -> Iterator[Page]:
        """A page at an address, without the question for the learner's name. It is closed at the end."""
        with self.blank(size, scheme) as page:
            page.goto(f"http://127.0.0.1:{stage.service.listener.port}/{address}")
            page.locator("#sheets .sheet").first.wait_for()
            if (later := page.get_by_role("button", name="Not now")).is_visible():
                later.click()
            yield page

    @contextmanager
    def blank(self, size: tuple[int, int], scheme: ColorScheme) -> Iterator[Page]:
        """An empty page, closed at the end."""
        width, height = size
        context = self._browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        try:
            yield context.new_page()
        finally:
            context.close()

    def take(self, page: Page, name: str) -> None:
        """Wait for the fonts and the editor's first picture, then write ``name``.png."""
        page.evaluate("document.fonts.ready")
        page.wait_for_timeout(600)
        page.screenshot(path=self._folder / f"{name}.png")


def tours(album: Album, folder: Path) -> None:
    """Every state of the tour, in both sizes, light and dark."""
    for number, (size, scheme) in enumerate(VARIANTS):
        with stage(folder / str(number), ARENA) as arena, album.blank(size, scheme) as page:
            for name in states(page, arena):
                album.take(page, f"{name}-{size[0]}{'-dark' if scheme == 'dark' else ''}")


def proved(album: Album, folder: Path) -> None:
    """A proved stop, one column, the terminals, a program that has moved on, forced colours."""
    with stage(folder, ARENA) as arena:
        with album.page(arena, f"#/{SYNCED}") as page:
            for key in ("1", "6", "Tab", "3", "Tab", "2", "4"):
                page.keyboard.press(key)
            page.keyboard.press("Enter")
            page.keyboard.press("Enter")
            page.get_by_role("row", name="wrong").wait_for()
            page.keyboard.press("Alt+6")
            album.take(page, "proved-1280")
        for size, scheme in VARIANTS[1:]:
            with album.page(arena, f"#/{SYNCED}", size, scheme) as page:
                page.locator("#sync-state.on").wait_for()
                album.take(page, f"proved-{size[0]}{'-dark' if scheme == 'dark' else ''}")
        one_column(album, arena)
        for columns, rows in ((200, 50), (120, 30), (80, 24)):
            with AttachedTerminal(arena.sessions, columns, rows), album.page(arena, f"#/{SYNCED}") as page:
                page.locator("#editor .follows").wait_for()
                album.take(page, f"terminal-{columns}x{rows}")
        with album.page(arena, f"#/{SYNCED}") as page:
            page.locator("#sync-state.on").wait_for()
            page.get_by_role("button", name="Step").click()
            page.locator("#sync-state", has_text="the program ran on").wait_for()
            album.take(page, "stepped")
            page.emulate_media(forced_colors="active")
            page.get_by_role("button", name="Back to the stop").click()
            page.locator("#sync-state.on").wait_for()
            album.take(page, "forced-colours")


def one_column(album: Album, arena: Stage) -> None:
    with album.page(arena, f"#/{COVERED}", NARROW) as page:
        album.take(page, "question-800")
        page.get_by_role("button", name="Fold the outline").click()
        album.take(page, "outline-800")
        page.get_by_role("tab", name="Map").click()
        album.take(page, "map-800")
    with album.page(arena, f"#/{SYNCED}", NARROW, "dark") as page:
        page.locator("#sync-state.on").wait_for()
        album.take(page, "proved-800-dark")


VARIANTS: tuple[tuple[tuple[int, int], ColorScheme], ...] = (
    (SMALL, "light"), (SMALL, "dark"), (LARGE, "light"), (LARGE, "dark"),
)  # fmt: skip


def refusals(album: Album, folder: Path) -> None:
    """A running replay, a drifted snapshot, a program that crashed."""
    with stage(folder, make_card(folder / "card", ending="crash")) as probe:
        with album.page(probe, "#/t1/b1/p1/slow") as page:
            page.keyboard.press("Enter")
            page.locator("#sync-state.busy .now", has_text="replaying").wait_for()
            album.take(page, "syncing")
            page.locator("#sync-state.on").wait_for()
        for step, name in (("drifted", "drift"), ("beyond", "crashed")):
            for scheme in ("light", "dark"):
                with album.page(probe, f"#/t1/b1/p1/{step}", SMALL, scheme) as page:
                    page.keyboard.press("Enter")
                    page.locator("#result.bad").wait_for()
                    album.take(page, name if scheme == "light" else f"{name}-dark")


@contextmanager
def stage(folder: Path, card: Path) -> Iterator[Stage]:
    """The application with a separate state directory, closed at the end."""
    made = Stage(folder / "state", card)
    try:
        made.sessions.start(card)
        yield made
    finally:
        with suppress(OSError):
            made.close()


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    parts: tuple[Callable[[Album, Path], None], ...] = (proved, refusals, tours)
    with chromium() as browser:
        for part in parts:
            with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as scratch:
                part(Album(browser, folder), Path(scratch))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.browser.screenshots FOLDER")
    main(Path(sys.argv[1]))

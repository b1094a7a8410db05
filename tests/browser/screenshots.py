"""Every state of the page as a picture: ``python -m tests.browser.screenshots FOLDER``.

Real Chromium over the real application with a session on the arena card. States that a correct card never reaches are
shown on the card of the tests.
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
from tests.functional.attached_terminal import AttachedTerminal
from tests.functional.chromium import chromium
from tests.functional.serving import Stage, make_card

ColorScheme = Literal["light", "dark"]
ARENA = ROOT / "etc" / "cards" / "arena"
SMALL, LARGE, PHONE = (1280, 720), (1920, 1080), (800, 1000)
SYNCED = "alignment/padding/types/char-double"
COVERED = "bump/requests/three-requests"


class Album:
    """Takes the pictures of one service into ``folder``."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self._browser = browser
        self._folder = folder

    @contextmanager
    def page(
        self, stage: Stage, address: str = "", size: tuple[int, int] = SMALL, scheme: ColorScheme = "light"
    ) -> Iterator[Page]:
        """A page at an address, closed in the end."""
        width, height = size
        context = self._browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        try:
            page = context.new_page()
            page.goto(f"http://127.0.0.1:{stage.service.listener.port}/{address}")
            page.locator("#sheets .sheet").first.wait_for()
            yield page
        finally:
            context.close()

    def take(self, page: Page, name: str) -> None:
        """Wait for the fonts and the editor's first picture, then write ``name``.png."""
        page.evaluate("document.fonts.ready")
        page.wait_for_timeout(600)
        page.screenshot(path=self._folder / f"{name}.png")


def with_session(album: Album, folder: Path) -> None:
    """First visit, covered values, a prediction, a proved stop (light, dark, both sizes), the results, away from it,
    search, map, keyboard, forced colours."""
    with stage(folder, ARENA) as arena:
        with album.page(arena) as page:
            album.take(page, "first-visit")
        with album.page(arena, f"#/{COVERED}") as page:
            album.take(page, "question")
        with album.page(arena, f"#/{SYNCED}") as page:
            page.get_by_role("button", name="Hint", exact=True).click()
            for key in ("1", "6", "Tab", "3", "Tab", "2", "4"):
                page.keyboard.press(key)
            album.take(page, "predicting")
            page.keyboard.press("Enter")
            page.keyboard.press("Enter")
            page.get_by_role("row", name="wrong").wait_for()
            page.keyboard.press("Alt+6")
            album.take(page, "proved-1280")
            page.get_by_role("button", name="Results").click()
            album.take(page, "results")
            page.keyboard.press("Escape")
            page.keyboard.press("?")
            album.take(page, "keyboard")
            page.keyboard.press("Escape")
            page.get_by_role("tab", name="Map").click()
            album.take(page, "map")
            page.keyboard.press("F8")
            album.take(page, "control")
            page.keyboard.press("F8")
        for name, size, scheme in VARIANTS:
            with album.page(arena, f"#/{SYNCED}", size, scheme) as page:
                page.locator("#sync-state.on").wait_for()
                album.take(page, f"proved-{name}")
        with AttachedTerminal(arena.sessions, 200, 50), album.page(arena, f"#/{SYNCED}") as page:
            page.locator("#editor .follows").wait_for()
            album.take(page, "terminal")
        for scheme in ("light", "dark"):
            with album.page(arena, f"#/{SYNCED}", SMALL, scheme) as page:
                page.locator("#sync-state.on").wait_for()
                for part in ("Call stack", "Locals"):
                    page.get_by_role("region", name=part).locator("summary").click()
                page.get_by_role("button", name="Step").click()
                page.get_by_role("row", name="arena_alloc").wait_for()
                album.take(page, f"stepped-1280-{scheme}")
                page.get_by_role("button", name="Back to the stop").click()
                page.locator("#sync-state.on").wait_for()
        with album.page(arena, f"#/{SYNCED}") as page:
            page.keyboard.press("ArrowRight")
            album.take(page, "elsewhere")
            page.keyboard.press("/")
            page.keyboard.type("round_up")
            page.locator("#matches mark").first.wait_for()
            album.take(page, "search")
            page.get_by_role("button", name="Next page", exact=True).click()
            album.take(page, "turned-away")
        with album.page(arena, f"#/{SYNCED}") as page:
            page.emulate_media(forced_colors="active")
            page.keyboard.press("Enter")
            page.locator("#sync-state.on").wait_for()
            album.take(page, "forced-colours")


VARIANTS: tuple[tuple[str, tuple[int, int], ColorScheme], ...] = (
    ("1280-dark", SMALL, "dark"), ("1920", LARGE, "light"), ("1920-dark", LARGE, "dark"), ("narrow", PHONE, "light"),
)  # fmt: skip


def refusals(album: Album, folder: Path) -> None:
    """A replay under way, a drifted snapshot, a program that crashed, an edited file that does not build."""
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
        source = probe.sessions.session().work / "probe" / "main.c"
        source.write_text(source.read_text().replace("    n = 1;", "    n = missing;"))
        for scheme in ("light", "dark"):
            with album.page(probe, "#/t1/b1/p1/quick", SMALL, scheme) as page:
                page.keyboard.press("Enter")
                page.locator("#result .messages").wait_for()
                page.locator("#session summary").click()
                album.take(page, "build-error" if scheme == "light" else "build-error-dark")


def without_session(album: Album, folder: Path) -> None:
    """No session, the position of a whole task, and a service that is gone."""
    with stage(folder, ARENA, session=False) as lonely:
        with album.page(lonely) as page:
            album.take(page, "no-session")
            page.keyboard.press("Enter")
            page.locator("#result.bad").wait_for()
            album.take(page, "not-syncable")
        with album.page(lonely, "", SMALL, "dark") as page:
            album.take(page, "no-session-dark")
            lonely.service.stop()
            page.locator("#notice").wait_for()
            album.take(page, "disconnected")


@contextmanager
def stage(folder: Path, card: Path, session: bool = True) -> Iterator[Stage]:
    """The application over a state directory of its own, closed in the end."""
    made = Stage(folder / "state", card)
    try:
        if session:
            made.sessions.start(card)
        yield made
    finally:
        with suppress(OSError):
            made.close()


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    parts: tuple[Callable[[Album, Path], None], ...] = (with_session, refusals, without_session)
    with chromium() as browser:
        for part in parts:
            with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as scratch:
                part(Album(browser, folder), Path(scratch))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.browser.screenshots FOLDER")
    main(Path(sys.argv[1]))

"""A card's HTML file in Chromium: the requests that it sent, the scripts that it ran, and the place of each part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

from cardapp.layout.diagram.shapes import Diagram
from cardapp.layout.html.document import render
from cardapp.layout.html.theme import contrast
from cardapp.layout.sheets import Document

_HERE = Path(__file__).parent
_SHEETS, _CONTRAST = ((_HERE / f"measure_{name}.js").read_text("utf-8") for name in ("sheets", "contrast"))
READABLE = 4.5  # WCAG 2.2, 1.4.3
TOLERANCE = 0.1
"""In mm: the largest error from rounding to the pixels of the screen."""


@dataclass
class SheetPage:
    """A browser page that shows one file after the other, and records their requests, messages, errors and dialogs."""

    page: Page
    file: Path
    requests: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.events.append(message.text))
        self.page.on("pageerror", lambda error: self.events.append(str(error)))
        self.page.on("popup", lambda popup: self.events.append(popup.url))

        def dialog(opened: Any) -> None:
            self.events.append(opened.message)
            opened.dismiss()

        self.page.on("dialog", dialog)

    def look(self, media: str, width: int = 1280, scheme: str = "light") -> None:
        """Show the page on a screen or as on paper, with this width of the window in pixels."""
        self.page.set_viewport_size({"width": width, "height": 1000})
        self.page.emulate_media(
            media="print" if media == "print" else "screen", color_scheme="dark" if scheme == "dark" else "light"
        )

    def check_readable(self) -> None:
        """On the screen and on paper, also in the dark, every text has enough contrast with its background."""
        for media, scheme in (("screen", "light"), ("screen", "dark"), ("print", "dark")):
            self.look(media, scheme=scheme)
            pairs = self.colors()
            assert len(pairs) > 5
            is_dark = sum(pairs[-1][1]) < 3 * 128  # the last text's background
            assert is_dark == ((media, scheme) == ("screen", "dark"))
            for front, back, text in pairs:
                assert contrast(_hex(front), _hex(back)) >= READABLE, (media, scheme, front, back, text)

    def show(self, document: Document) -> None:
        self.show_file(render(document))

    def show_file(self, pieces: Iterable[str]) -> None:
        self.requests.clear()
        self.file.write_text("".join(pieces), "utf-8")
        self.page.goto(self.file.as_uri())
        self.page.evaluate("document.fonts.ready.then(() => null)")

    @property
    def fetched(self) -> list[str]:
        """The requests except for the file itself and its fonts, which it contains."""
        return [url for url in self.requests if url != self.file.as_uri() and not url.startswith("data:font/woff2;")]

    def measured(self, document: Document) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.page.evaluate(_SHEETS, document.layout.page.width)
        return found

    def colors(self) -> list[tuple[list[int], list[int], str]]:
        """Each pair of a text's colour and its background's colour, with one text that has the pair."""
        found: list[tuple[list[int], list[int], str]] = self.page.evaluate(_CONTRAST)
        return found


@contextmanager
def sheet_page(browser: Browser, folder: Path) -> Iterator[SheetPage]:
    """The browser ignores the file's content security policy, which would block scripts. So only escaping can block
    them."""
    context = browser.new_context(bypass_csp=True)
    yield SheetPage(context.new_page(), folder / "card.html")
    context.close()


def assert_in_place(document: Document, measured: list[dict[str, Any]]) -> None:
    """Every part is where the sheet model has put it, and nothing reaches out of its part."""
    page, grid = document.layout.page, document.layout.grid
    texts = 0
    for sheet, seen in zip(document.sheets, measured, strict=True):
        assert_near(seen["size"], (page.width, page.height))
        for part, shown in zip(sheet.parts, seen["parts"], strict=True):
            frame, column = part.frame, grid.column(part.column)
            assert shown["kind"] == part.kind
            assert_near(shown["box"], (frame.x, frame.y, frame.width, frame.height))
            left, top, width, height = shown["box"]
            assert column.x - TOLERANCE < left
            assert left + width < column.x + column.width + TOLERANCE
            assert grid.body.y - TOLERANCE < top
            assert top + height < grid.body.y + grid.body.height + TOLERANCE
            assert shown["stray"] == [], f"sheet {sheet.index + 1}, {part.kind} of {part.key}"
            texts += shown["texts"]
            if isinstance(part.content, Diagram):
                linked = [node.box for node in part.content.nodes if node.href]
                for (x, y, width, height), box in zip(shown["nodes"], linked, strict=True):
                    assert_near([x + width / 2, y + height / 2], (box.centre.x, box.centre.y))
    assert texts >= len(document.sheets), "the measurement has found the texts"


def _hex(color: list[int]) -> str:
    return "#" + "".join(f"{channel:02x}" for channel in color)


def assert_near(seen: list[float], wanted: tuple[float, ...]) -> None:
    assert all(abs(one - other) < TOLERANCE for one, other in zip(seen, wanted, strict=True)), (seen, wanted)

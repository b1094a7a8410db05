"""The page and its contents: its files, the card's sheets with their style, the diagrams, and the search."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from cardapp.errors import NotFound
from cardapp.layout.html import pages, theme
from cardapp.web.http import Reply, Request, answer
from cardapp.web.resources.service import welcome

HTML = "text/html; charset=utf-8"
CSS = "text/css; charset=utf-8"
SCRIPT = "text/javascript; charset=utf-8"
FONT = "font/woff2"

STATIC = Path(__file__).resolve().parents[2] / "static"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_TYPES = {".js": SCRIPT, ".css": CSS}


def index(request: Request) -> Reply:
    """The page. If the Accept header accepts only JSON, the links of the API as JSON."""
    accepted = request.environ.get("HTTP_ACCEPT", "*/*")
    if "application/json" in accepted and "text/html" not in accepted and "*/*" not in accepted:
        return welcome(request).with_headers(("Vary", "Accept"))
    return Reply(_files()["index.html"], 200, HTML, (("Content-Security-Policy", POLICY), ("Vary", "Accept")))


def static(request: Request) -> Reply:
    """A script, style sheet or font of the page."""
    name = request.path["name"]
    font = theme.font_file(name)
    if font is not None:
        return Reply(font, 200, FONT)
    if name == "theme.css":
        return Reply(pages.page_style("/static/").encode(), 200, CSS)
    content = _files().get(name)
    kind = _TYPES.get(Path(name).suffix)
    if content is None or kind is None:
        raise NotFound(f"the page has no file {name[:100]!r}")
    return Reply(content, 200, kind)


def sheets(request: Request) -> Reply:
    """One page of the card: a block with all its sheets, as an HTML fragment for a shadow root."""
    index = request.query["page"]
    key, html = request.services.sheets.page(index)
    return answer({"page_index": index, "key": key, "html": html})


def sheet_style(request: Request) -> Reply:
    """The style sheet of all pages of the card."""
    return Reply(request.services.sheets.style().encode(), 200, CSS)


def diagram(request: Request) -> Reply:
    """The UML activity of the card, or of one block."""
    key = request.query["key"]
    return answer({"key": key, "html": request.services.sheets.diagram(key)})


def search(request: Request) -> Reply:
    """The places where titles, texts and code contain a text: at most 100, titles first."""
    return answer({"matches": [match.as_json() for match in request.services.sheets.search(request.query["text"])]})


@cache
def _files() -> dict[str, bytes]:
    """All files of the page by name. They are read once, so the files of a running service do not change."""
    return {file.name: file.read_bytes() for file in STATIC.iterdir() if file.is_file()}

"""The page to which the ``type`` of a problem refers: each code that a client can get, its cause, and what to do."""

from __future__ import annotations

from pathlib import Path

from marketdata.errors import MarketError
from marketdata.http.document import Document, marked
from marketdata.http.failures import STATUS, Statuses, about, kinds_shown, status_of, title_of

_PAGE = Document(Path(__file__).resolve().parent / "problems.html")


def problem_page(statuses: Statuses = STATUS) -> bytes:
    """The page in HTML. ``statuses`` is the table of a service."""
    return _PAGE.filled(codes="\n".join(_section(kind, statuses) for kind in kinds_shown(statuses)))


def _section(kind: type[MarketError], statuses: Statuses) -> str:
    head = f"<h2>{title_of(kind)} <small>{status_of(kind, statuses)}</small></h2>"
    entries = [(kind.code, about(kind), kind.remedy), *kind.narrower]
    return f"<section>\n{head}\n<dl>\n{''.join(_entry(*each) for each in entries)}</dl>\n</section>"


def _entry(code: str, cause: str, remedy: str) -> str:
    return f'<div id="{code}"><dt><code>{code}</code></dt><dd>{marked(cause)}</dd><dd>{marked(remedy)}</dd></div>\n'

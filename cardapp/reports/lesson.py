"""The lesson report: what happened, in its order, as one HTML file that needs nothing else.

No script, one style sheet inside, pictures as ``data:`` URIs; the file carries a Content-Security-Policy that allows
just that, and a server may send the same (``CONTENT_SECURITY_POLICY``). It is made piece by piece, so a long record
never stands in memory at once.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.resources import files
from typing import Any

from cardapp.card.catalog import Catalog
from cardapp.card.model import Card, Identity
from cardapp.layout.diagram import svg
from cardapp.layout.escape import html, position_url
from cardapp.layout.html import page_style
from cardapp.layout.layout_options import COLORS
from cardapp.reports.entry import Place, entry, moves
from cardapp.reports.event_text import MOVES, Event, is_noise
from cardapp.reports.overview import overview
from cardapp.reports.position_diagram import position_diagram
from cardapp.state.events import Head

_COLORS = {name: value for name, (_use, value) in COLORS.items()} | {
    "good": "#17794a",
    "bad": "#b32424",
    "bad_soft": "#fae7e5",
    "done": "#6a3fb5",
}
"""Those of the sheets, and what a report tells apart beside."""

STYLE = "".join(
    (
        page_style.fonts(),
        page_style.DESK,
        f":root{{{page_style.properties(_COLORS)}}}\n",
        page_style.on_dark_screen(_COLORS),
        svg.style(_COLORS),
        files(__package__).joinpath("lesson.css").read_text(encoding="utf-8"),
    )
)
STYLE_HASH = f"'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'"
"""The style sheet as a source expression of ``style-src``."""

CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src {STYLE_HASH}; font-src data:; img-src data:; base-uri 'none'; form-action 'none'"
)

_FOLD_FROM = 4
_FOLD_AT_MOST = 200
"""So many moves in a row are folded under one line; more begin another line, which bounds what is held in memory."""

_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


def render(
    *,
    identity: Identity,
    card: Card,
    catalog: Catalog,
    progress: Mapping[str, Any],
    current: str,
    events: Iterable[Event],
    head: Head,
    picture: Callable[[str], bytes],
    at: str,
    base_url: str,
) -> Iterator[str]:
    """The file in pieces.

    ``progress`` is ``card.progress.overview``; ``current`` the key of the session's position; ``events`` are all of
    this card and of no other, in order, as ``state.events.stream`` gives them, and ``head`` is the record's at the same
    moment; ``picture`` gives an evidence file's bytes by its name and may raise one of our errors, which is then shown
    in the picture's place; ``at`` is the time of the report, ``base_url`` the running application's address without a
    path. Scrolling and the events of other cards are left out, and counted.
    """
    place = Place(catalog, identity, base_url)
    yield _head(card, identity, at, base_url)
    yield overview(catalog, progress)
    yield from position_diagram(card, place, current)
    yield "<main>\n<h2>What happened</h2>\n"
    record = _Record(head)
    for group in _grouped(record.told(events)):
        if group[0]["at"][:10] != record.day:
            record.day = group[0]["at"][:10]
            yield f'<h2 class="day">{html(_long_day(record.day))}</h2>\n'
        if len(group) >= _FOLD_FROM:
            yield from moves(group, place)
        else:
            for event in group:
                yield from entry(event, place, picture)
    if not record.shown:
        yield '<p class="empty">Nothing yet: move through the card, sync a step, write a note.</p>\n'
    yield f"</main>\n{_foot(record, identity, at)}</body>\n</html>\n"


class _Record:
    """What went by, for the footer."""

    def __init__(self, head: Head) -> None:
        self.day = ""
        self.shown = 0
        self.noise = 0
        self.head = head

    @property
    def others(self) -> int:
        """Events of other cards; all are numbered from 1 on without a gap."""
        return self.head.seq - self.shown - self.noise

    def told(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            if is_noise(event):
                self.noise += 1
            else:
                self.shown += 1
                yield event


def _grouped(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Moves that follow each other on one day in one list, every other event in a list of its own."""
    run: list[Event] = []
    for event in events:
        quiet = event["kind"] in MOVES and not event["evidence"]
        if run and (not quiet or len(run) == _FOLD_AT_MOST or event["at"][:10] != run[0]["at"][:10]):
            yield from _run(run)
            run = []
        if quiet:
            run.append(event)
        else:
            yield [event]
    yield from _run(run)


def _run(run: list[Event]) -> Iterator[list[Event]]:
    if len(run) >= _FOLD_FROM:
        yield run
    else:
        yield from ([event] for event in run)


def _head(card: Card, identity: Identity, at: str, base_url: str) -> str:
    facts = {
        "Card": identity.id,
        "Version": identity.version,
        "UUID": identity.uuid,
        "Source SHA-256": identity.source_sha256,
        "Made": f"{_long_day(at[:10])}, {at[11:19]} UTC",
    }
    listed = "".join(f"<div><dt>{html(name)}</dt><dd>{html(value)}</dd></div>" for name, value in facts.items())
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{html(CONTENT_SECURITY_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{html(card.title)} · lesson report</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f'<header class="page">\n<p class="running"><span lang="{html(card.language)}">{html(card.title)}</span>'
        f'<span>Lesson report</span></p>\n<h1 lang="{html(card.language)}">{html(card.title)}</h1>\n'
        f'<p><a class="open" href="{html(position_url(base_url, ""))}">Open the card</a></p>\n'
        f'<dl class="identity">{listed}</dl>\n</header>\n'
    )


def _foot(record: _Record, identity: Identity, at: str) -> str:
    left_out = [
        f"{count} {what}"
        for count, what in ((record.noise, "of scrolling"), (record.others, "of other cards"))
        if count
    ]
    told = f"{record.shown} entries" + (f"; left out: {' and '.join(left_out)}" if left_out else "")
    end = ""
    if record.head.seq:
        end = (
            f"<p>The record ends with entry {record.head.seq}, whose hash is <code>{html(record.head.hash)}</code>. "
            "Whoever keeps this line can tell later whether anything above was changed: "
            "<code>bin/cardapp verify-events</code> recomputes it.</p>\n"
        )
    mine = (
        f'<p class="running"><span>{html(identity.id)} {html(identity.version)}</span><span>source '
        f"<code>{html(identity.source_sha256[:12])}</code></span><span>{html(_long_day(at[:10]))}</span></p>\n"
    )
    return f"<footer>\n<p>{html(told)}. All times are UTC.</p>\n{end}{mine}</footer>\n"


def _long_day(day: str) -> str:
    """2025-03-01 as 1 March 2025; anything else as it is."""
    year, _, rest = day.partition("-")
    month, _, date = rest.partition("-")
    if not (month.isdecimal() and date.isdecimal() and 1 <= int(month) <= 12):
        return day
    return f"{int(date)} {_MONTHS[int(month) - 1]} {year}"

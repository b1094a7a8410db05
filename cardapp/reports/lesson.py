"""Writes the lesson report: a card's events in chronological order, as one self-contained HTML file.

The file has no script. It has one inline style sheet, and its images are ``data:`` URIs. Its Content-Security-Policy
allows nothing else; a server may send the same policy (``CONTENT_SECURITY_POLICY``). The file is generated in pieces,
because a long record of events may not fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from cardapp.card.catalog import Catalog
from cardapp.card.model import Card, Identity
from cardapp.layout.diagram import svg
from cardapp.layout.escape import html, position_url
from cardapp.layout.html import theme
from cardapp.reports import document, explained
from cardapp.reports.entry import CardContext, entry
from cardapp.reports.event_text import Event, is_noise, is_withdrawn, where_links_work
from cardapp.reports.explained import Explanations
from cardapp.reports.overview import overview, position_diagram
from cardapp.state.events import Head

STYLE = document.style_sheet("lesson.css", svg.style(theme.COLORS))
CONTENT_SECURITY_POLICY = document.policy(STYLE)

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
    learner: str,
    identity: Identity,
    card: Card,
    catalog: Catalog,
    progress: Mapping[str, Any],
    current: str,
    events: Iterable[Event],
    head: Head,
    total: int,
    picture: Callable[[str], bytes],
    at: str,
    base_url: str,
    explanations: Explanations | None = None,
) -> Iterator[str]:
    """Yield the file in pieces. Scrolling, moves and events of other cards are left out; the footer gives their
    numbers.

    :param progress: from ``card.progress.overview``.
    :param current: the key of the current position.
    :param events: all events of this card, from ``state.events.stream``.
    :param head: the learner's last event of any card, read in the same transaction as ``events``.
    :param total: the number of the learner's events of all cards.
    :param picture: returns the bytes of an evidence file by its name. If it raises a CardAppError, the message replaces
        the image.
    :param base_url: the address of the running application, without a path.
    """
    context, day = CardContext(catalog, identity, base_url), ""
    yield _head(learner, card, identity, at, base_url)
    yield overview(catalog, progress)
    yield from position_diagram(card, context, current)
    if explanations is not None:
        yield from explained.section(explanations, context)
    yield "<main>\n<h2>Events</h2>\n"
    counts = _Counts(head, total)
    for event in counts.shown_events(events):
        if event["at"][:10] != day:
            day = event["at"][:10]
            yield f'<h2 class="day">{html(_long_day(day))}</h2>\n'
        yield from entry(event, context, picture)
    if not counts.shown:
        yield '<p class="empty">No events yet: answer a question, sync a step or write a note.</p>\n'
    yield f"</main>\n{_foot(counts, identity)}</body>\n</html>\n"


class _Counts:
    """Counts the events that were shown and left out, for the footer."""

    def __init__(self, head: Head, total: int) -> None:
        self.shown = 0
        self.noise = 0
        self.withdrawn = 0
        self.head = head
        self.total = total

    @property
    def others(self) -> int:
        """The number of other cards' events."""
        return self.total - self.shown - self.noise - self.withdrawn

    def shown_events(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            if is_withdrawn(event):
                self.withdrawn += 1
            elif is_noise(event):
                self.noise += 1
            else:
                self.shown += 1
                yield event


def _head(learner: str, card: Card, identity: Identity, at: str, base_url: str) -> str:
    facts = {
        "Card": identity.id,
        "Version": identity.version,
        "Created": f"{_long_day(at[:10])}, {at[11:19]} UTC",
    }
    return (
        f"{document.opening(f'{learner} · lesson report · {card.title}', STYLE)}"
        f'<header class="page">\n<h1>{html(learner)}</h1>\n<p class="running"><span lang="{html(card.language)}">'
        f"{html(card.title)}</span><span>Lesson report</span></p>\n"
        f'<p class="open"><a href="{html(position_url(base_url, ""))}">Open the card</a>. '
        f"{html(where_links_work(base_url))}</p>\n{_facts(facts)}</header>\n"
    )


def _facts(facts: Mapping[str, str]) -> str:
    listed = "".join(f"<div><dt>{html(name)}</dt><dd>{html(value)}</dd></div>" for name, value in facts.items())
    return f'<dl class="identity">{listed}</dl>\n'


def _foot(counts: _Counts, identity: Identity) -> str:
    left_out = [
        f"{count} {what}"
        for count, what in (
            (counts.noise, "of scrolling and moving"),
            (counts.withdrawn, "withdrawn"),
            (counts.others, "of other cards"),
        )
        if count
    ]
    summary = f"{counts.shown} {'entry' if counts.shown == 1 else 'entries'}" + (
        f"; left out: {' and '.join(left_out)}" if left_out else ""
    )
    end = ""
    if counts.head.seq:
        end = (
            f"<p>The last event is {counts.head.seq}, and its hash is <code>{html(counts.head.hash)}</code>. "
            "Keep this line to detect later changes of the record: <code>bin/cardapp verify-events</code> recomputes "
            "the hashes.</p>\n"
        )
    digests = _facts({"UUID of the card": identity.uuid, "Source SHA-256": identity.source_sha256})
    return f"<footer>\n<p>{html(summary)}. All times are UTC.</p>\n{end}{digests}</footer>\n"


def _long_day(day: str) -> str:
    """Return ``2025-03-01`` as ``1 March 2025``. Any other text is returned unchanged."""
    year, _, rest = day.partition("-")
    month, _, date = rest.partition("-")
    if not (month.isdecimal() and date.isdecimal() and 1 <= int(month) <= 12):
        return day
    return f"{int(date)} {_MONTHS[int(month) - 1]} {year}"

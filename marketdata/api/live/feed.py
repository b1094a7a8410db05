"""A feed: the stream of one symbol, interval and time zone, which its subscribers share. This module does no input or
output."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from marketdata.http.reply import encode
from marketdata.interval import UTC_ZONE, Zone, bucket_open
from marketdata.store.candles import Open
from marketdata.store.notifications import Change

TICKS = "ticks"
"""The ``interval`` of a feed of ticks."""
SUMMARY = "summary"
"""The ``interval`` of the subscription to summaries."""
ALL_SYMBOLS = ""
"""The symbol of a feed that is not about one symbol."""

MAX_SPANS = 64
"""When more changed ranges than this wait, the two that are closest become one. It then covers what is between them."""

MAX_KNOWN_TICKS = 4096
"""A feed remembers this many of its newest sent ticks, so that they are not sent again when their range is read
again."""


class Key(NamedTuple):
    """Identifies a feed. ``zone`` and ``open`` have the default values for feeds without candles. ``open`` is that of
    :func:`marketdata.store.candles.read`."""

    symbol: str
    interval: str
    zone: Zone
    open: Open = "first"

    @property
    def members(self) -> dict[str, str]:
        """The members of a message that name the feed. The time zone ``+00:00`` and the open ``first`` are left out."""
        named = {"interval": self.interval}
        if self.symbol != ALL_SYMBOLS:
            named = {"symbol": self.symbol, **named}
        if self.zone != UTC_ZONE:
            named["timeZone"] = self.zone.name
        if self.open != "first":
            named["open"] = self.open
        return named


class Span(NamedTuple):
    """A changed range: opening times of candles, or times of ticks, in microseconds. Both ends are inclusive.
    ``is_removal`` is True if ticks were removed, so candles may be gone."""

    first: int
    last: int
    is_removal: bool

    def joined(self, other: Span) -> Span:
        return Span(min(self.first, other.first), max(self.last, other.last), self.is_removal or other.is_removal)


@dataclass(eq=False, slots=True)
class Feed:
    key: Key
    users: int = 0
    """The number of subscriptions."""
    spans: list[Span] = field(default_factory=list)
    """Ranges that have changed since they were last read."""
    due: float = 0.0
    """The time (monotonic) from which the feed may be read again."""
    known: dict[str, int] = field(default_factory=dict)
    """The times of sent ticks, by id: all sent ticks from the time ``known_from`` on, except those that were forgotten.
    No forgotten tick is later than ``forgotten_until``."""
    pushed: set[str] = field(default_factory=set)
    """The ids of the ticks in ``known`` that all subscribers got. A tick in a page of ``since`` goes to one subscriber
    only, so it is not in ``pushed``."""
    known_from: int | None = None
    forgotten_until: int = -1
    final_until: int = 0
    """Only in a distributed version: the time up to which the chain's candles are final, if a notification has
    announced it since the feed was last read."""

    @property
    def is_of_ticks(self) -> bool:
        return self.key.interval == TICKS

    def mark(self, change: Change) -> None:
        """Note the range of this feed that a change affects."""
        if self.is_of_ticks:
            if change.is_of_ticks:
                self.add(Span(change.first, change.last, change.kind == "removed"))
            return
        first, last = (bucket_open(ts, self.key.interval, self.key.zone) for ts in (change.first, change.last))
        if not change.is_of_ticks:
            last -= 1  # the bucket that contains the final time is not final yet
        if first <= last:
            self.add(Span(first, last, change.kind == "removed"))

    def add(self, span: Span) -> None:
        """Note that ``span`` must be read."""
        apart = []
        for each in self.spans:
            if each.first <= span.last and span.first <= each.last:
                span = span.joined(each)
            else:
                apart.append(each)
        self.spans = sorted([*apart, span])
        if len(self.spans) > MAX_SPANS:
            at = min(range(MAX_SPANS), key=lambda at: self.spans[at + 1].first - self.spans[at].last)
            self.spans[at : at + 2] = [self.spans[at].joined(self.spans[at + 1])]

    def learn(self, ticks: dict[str, int]) -> None:
        """Note sent ticks, as times by id. If more than ``MAX_KNOWN_TICKS`` are known, the oldest are forgotten."""
        self.known |= ticks
        excess = len(self.known) - MAX_KNOWN_TICKS
        if excess > 0:
            for identity, ts in sorted(self.known.items(), key=itemgetter(1))[:excess]:
                self.forget(identity)
                self.forgotten_until = max(self.forgotten_until, ts)

    def forget(self, identity: str) -> None:
        del self.known[identity]
        self.pushed.discard(identity)

    def forget_all(self) -> None:
        """Note that no tick is stored."""
        self.known.clear()
        self.pushed.clear()

    def learned_since(self, start: int) -> None:
        """Note that all stored ticks from ``start`` on are known."""
        self.known_from = start if self.known_from is None else min(start, self.known_from)

    def knows(self, span: Span) -> bool:
        """Whether every sent tick of ``span`` is known."""
        return self.known_from is not None and self.known_from <= span.first > self.forgotten_until

    def take(self) -> list[Span]:
        """Return the ranges to read, and clear them."""
        taken, self.spans = self.spans, []
        return taken

    def message(self, kind: str, **more: object) -> bytes:
        """A message about this feed."""
        return encode({"type": kind, **self.key.members, **more})

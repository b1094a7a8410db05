"""A feed: what all subscribers of the same symbol, interval and time zone receive; pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from marketdata.http.reply import encode
from marketdata.interval import bucket_open
from marketdata.store.notifications import Change

TICKS = "ticks"
"""The ``interval`` of a feed of ticks."""

SPANS_MAX = 16
"""More ranges than this that wait to be read are read as one."""

KNOWN_TICKS = 4096
"""The newest ticks of a feed that are known to be sent: a range that is read again may contain some of them."""


class Key(NamedTuple):
    """``shift`` is that of the time zone, in minutes; 0 for ticks."""

    symbol: str
    interval: str
    shift: int

    @property
    def members(self) -> dict[str, str]:
        """What names the feed in a message; the time zone only where it is not UTC."""
        named = {"symbol": self.symbol, "interval": self.interval}
        if self.shift:
            hours, minutes = divmod(abs(self.shift), 60)
            named["timeZone"] = f"{'-' if self.shift < 0 else '+'}{hours:02}:{minutes:02}"
        return named


class Span(NamedTuple):
    """Opening times of candles, or times of ticks, in microseconds; both inclusive. ``is_removal``: ticks were removed,
    so candles of the range may be gone."""

    first: int
    last: int
    is_removal: bool

    def joined(self, other: Span) -> Span:
        return Span(min(self.first, other.first), max(self.last, other.last), self.is_removal or other.is_removal)


@dataclass(eq=False, slots=True)
class Feed:
    """``users`` counts subscriptions. ``spans`` changed since they were last read. ``due`` is when it may be read again
    (monotonic). ``known`` has the times of sent ticks by id: all of those since ``known_from``, but for ticks up to
    ``forgotten_until``. ``pushed`` are those that every subscriber got, not only one that asked for the past."""

    key: Key
    users: int = 0
    spans: list[Span] = field(default_factory=list)
    due: float = 0.0
    known: dict[str, int] = field(default_factory=dict)
    pushed: set[str] = field(default_factory=set)
    known_from: int | None = None
    forgotten_until: int = -1

    @property
    def is_of_ticks(self) -> bool:
        return self.key.interval == TICKS

    def mark(self, change: Change) -> None:
        """Note what a change means for this feed."""
        if self.is_of_ticks:
            if change.kind != "final":
                self.add(Span(change.first, change.last, change.kind == "removed"))
            return
        first, last = (bucket_open(ts, self.key.interval, self.key.shift) for ts in (change.first, change.last))
        self.add(Span(first, last, change.kind == "removed"))

    def add(self, span: Span) -> None:
        """Note that ``span`` has to be read."""
        apart = []
        for each in self.spans:
            if each.first <= span.last and span.first <= each.last:
                span = span.joined(each)
            else:
                apart.append(each)
        self.spans = [*apart, span]
        if len(self.spans) > SPANS_MAX:
            whole = self.spans[0]
            for each in self.spans:
                whole = whole.joined(each)
            self.spans = [whole]

    def learn(self, ticks: dict[str, int]) -> None:
        """These ticks, times by id, are sent. Of more than ``KNOWN_TICKS`` the oldest are forgotten."""
        self.known |= ticks
        excess = len(self.known) - KNOWN_TICKS
        if excess > 0:
            for identity, ts in sorted(self.known.items(), key=itemgetter(1))[:excess]:
                self.forget(identity)
                self.forgotten_until = max(self.forgotten_until, ts)

    def forget(self, identity: str) -> None:
        del self.known[identity]
        self.pushed.discard(identity)

    def learned_since(self, start: int) -> None:
        """All stored ticks from ``start`` have been learned."""
        self.known_from = start if self.known_from is None else min(start, self.known_from)

    def knows(self, span: Span) -> bool:
        """Whether a tick of ``span`` that is not known was not there before."""
        return self.known_from is not None and self.known_from <= span.first > self.forgotten_until

    def take(self) -> list[Span]:
        """The ranges to read now."""
        taken, self.spans = self.spans, []
        return taken

    def message(self, kind: str, **more: object) -> bytes:
        """A message about this feed."""
        return encode({"type": kind, **self.key.members, **more})

"""The reading thread of live connections if a feed cannot be read."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from marketdata.api.live import feed_reader
from marketdata.api.live.feed import Feed, Key, Span
from marketdata.api.live.feed_reader import FeedReader
from marketdata.api.live.readings import Reading
from marketdata.errors import NotFound
from marketdata.interval import UTC_ZONE, Zone
from marketdata.store.notifications import Change


@pytest.fixture
def pushed() -> list[str]:
    return []


@pytest.fixture
def reader(pushed: list[str]) -> FeedReader:
    pool: Any = SimpleNamespace(connection=lambda: nullcontext(None))
    placement: Any = None
    served: Any = SimpleNamespace(version=lambda: SimpleNamespace(shards=None))
    return FeedReader(pool, placement, served, lambda feed, _reading: pushed.append(feed.key.symbol))


def marked(reader: FeedReader, *symbols: str) -> list[Feed]:
    feeds = [reader.use(Key(symbol, "ticks", UTC_ZONE)) for symbol in symbols]
    for feed in feeds:
        feed.add(Span(0, 1, False))
    return feeds


@pytest.mark.parametrize(
    ("error", "read"),
    [
        (NotFound("gone"), ["B", "C"]),
        (psycopg.errors.QueryCanceled("slow"), ["B", "C"]),
        (KeyError("a bug"), ["B", "C"]),
        (psycopg.OperationalError("no server"), []),
    ],
)
def test_a_feed_that_cannot_be_read_does_not_delay_others(
    reader: FeedReader, pushed: list[str], monkeypatch: pytest.MonkeyPatch, error: Exception, read: list[str]
) -> None:
    def read_changes(_connection: Any, _version: Any, feed: Feed, _spans: Any) -> Reading:
        if feed.key.symbol == "A":
            raise error
        return Reading()

    monkeypatch.setattr(feed_reader, "read_changes", read_changes)
    feeds = marked(reader, "A", "B", "C")
    reader._read([], feeds)
    assert pushed == read
    waiting = [feed for feed in feeds if feed.key.symbol not in read]
    assert list(reader._marked) == waiting
    assert all(feed.spans == [Span(0, 1, False)] for feed in waiting)


def test_a_feed_is_read_until_its_node_has_the_finality_of_the_chain(
    pushed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator notifies before the other nodes have committed."""
    pool: Any = SimpleNamespace(connection=lambda: nullcontext(None))
    placement: Any = SimpleNamespace(read=lambda version, _names, work: work(None, version))
    served: Any = SimpleNamespace(version=lambda: SimpleNamespace(shards=2, ticks_table="t"))
    reader = FeedReader(pool, placement, served, lambda feed, _reading: pushed.append(feed.key.symbol))
    asked: list[int] = []

    def is_final(_connection: Any, _version: Any, _symbol: str, until: int) -> bool:
        asked.append(until)
        return len(asked) == 2

    monkeypatch.setattr(feed_reader, "is_final", is_final)
    monkeypatch.setattr(feed_reader, "read_changes", lambda *_: Reading())
    feed = reader.use(Key("ETH:A", "1m", UTC_ZONE))
    reader.changed([Change('"t"', "ETH", 0, 60_000_000, "chain_final")])
    for _ in range(2):
        assert list(reader._marked) == [feed]
        reader._marked.clear()
        reader._read([], [feed])
    assert list(reader._marked) == []
    assert (asked, pushed) == ([60_000_000] * 2, ["ETH:A"] * 2)


def test_candles_of_two_time_zones_may_end_at_the_same_time(reader: FeedReader) -> None:
    for zone in (UTC_ZONE, Zone("Europe/London"), Zone("Africa/Abidjan")):
        reader.use(Key("A", "1m", zone))
    assert len(reader._closings) == 3

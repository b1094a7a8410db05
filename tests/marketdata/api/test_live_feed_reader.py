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
from marketdata.interval import UTC_ZONE
from marketdata.store.notifications import Change
from tests.marketdata.api.conftest import eventually


@pytest.fixture
def pushed() -> list[str]:
    return []


def serving(pushed: list[str], version: Any, placement: Any = None) -> FeedReader:
    pool: Any = SimpleNamespace(connection=lambda: nullcontext(None))
    served: Any = SimpleNamespace(version=lambda: version)
    return FeedReader(pool, placement, served, lambda feed, _reading: pushed.append(feed.key.symbol))


def use(reader: FeedReader, *symbols: str) -> None:
    for symbol in symbols:
        reader.use(Key(symbol, "ticks", UTC_ZONE))
    reader.changed([Change('"t"', symbol, 0, 1, "stored") for symbol in symbols])


@pytest.mark.parametrize(
    ("error", "first"),
    [
        (NotFound("gone"), ["B", "C"]),
        (psycopg.errors.QueryCanceled("slow"), ["B", "C"]),
        (KeyError("a bug"), ["B", "C"]),
        (psycopg.OperationalError("no server"), []),
    ],
)
def test_a_feed_that_cannot_be_read_does_not_delay_others(
    pushed: list[str], monkeypatch: pytest.MonkeyPatch, error: Exception, first: list[str]
) -> None:
    """It is read again. If the database is gone, no other one is asked for until then."""
    failures: list[list[str]] = []

    def read_changes(_connection: Any, _version: Any, feed: Feed, spans: list[Span]) -> Reading:
        assert spans == [Span(0, 1, False)]
        if feed.key.symbol == "A" and len(failures) < 2:
            failures.append(list(pushed))
            raise error
        return Reading()

    monkeypatch.setattr(feed_reader, "read_changes", read_changes)
    reader = serving(pushed, SimpleNamespace(shards=None, ticks_table="t"))
    use(reader, "A", "B", "C")
    reader.start()
    try:
        eventually(lambda: "A" in pushed)
    finally:
        reader.stop()
    assert failures == [[], first]
    assert sorted(pushed) == ["A", "B", "C"]


def test_a_feed_is_read_until_its_node_has_the_finality_of_the_chain(
    pushed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator notifies before the other nodes have committed."""
    placement: Any = SimpleNamespace(read=lambda version, _names, work: work(None, version))
    reader = serving(pushed, SimpleNamespace(shards=2, ticks_table="t"), placement)
    asked: list[int] = []

    def is_final(_connection: Any, _version: Any, _symbol: str, until: int) -> bool:
        asked.append(until)
        return len(asked) == 3

    monkeypatch.setattr(feed_reader, "is_final", is_final)
    monkeypatch.setattr(feed_reader, "read_changes", lambda *_: Reading())
    reader.use(Key("ETH:A", "1m", UTC_ZONE))
    reader.changed([Change('"t"', "ETH", 0, 60_000_000, "chain_final")])
    reader.start()
    try:
        eventually(lambda: len(pushed) == 3)
        use(reader, "ETH:B")
        eventually(lambda: "ETH:B" in pushed)
    finally:
        reader.stop()
    assert (asked, pushed[:3]) == ([60_000_000] * 3, ["ETH:A"] * 3)

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

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
    monkeypatch: pytest.MonkeyPatch, error: Exception, first: list[str]
) -> None:
    """It is read again. If the database is gone, no other one is asked for until then."""
    pushed: list[str] = []
    failures: list[list[str]] = []

    def read_changes(_connection: Any, _version: Any, feed: Feed, spans: list[Span]) -> Reading:
        assert spans == [Span(0, 1, False)]
        if feed.key.symbol == "A" and len(failures) < 2:
            failures.append(list(pushed))
            raise error
        return Reading()

    monkeypatch.setattr(feed_reader, "read_changes", read_changes)
    nothing: Any = None
    pool: Any = SimpleNamespace(connection=lambda: nullcontext(None))
    served: Any = SimpleNamespace(version=lambda: SimpleNamespace(shards=None, ticks_table="t"))
    reader = FeedReader(pool, nothing, served, lambda feed, _reading: pushed.append(feed.key.symbol))
    for symbol in "ABC":
        reader.use(Key(symbol, "ticks", UTC_ZONE))
    reader.changed([Change('"t"', symbol, 0, 1, "stored") for symbol in "ABC"])
    reader.start()
    try:
        eventually(lambda: "A" in pushed)
    finally:
        reader.stop()
    assert failures == [[], first]
    assert sorted(pushed) == ["A", "B", "C"]

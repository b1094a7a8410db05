"""The sent ticks that a feed remembers."""

from __future__ import annotations

from marketdata.api.live.feed import MAX_KNOWN_TICKS, Feed, Key, Span
from marketdata.interval import UTC_ZONE


def test_a_feed_knows_ticks_from_the_earliest_page_on() -> None:
    feed = Feed(Key("A", "ticks", UTC_ZONE))
    assert not feed.knows(Span(10, 20, True))
    feed.learned_since(10)
    assert feed.knows(Span(10, 20, True))
    assert not feed.knows(Span(9, 20, True))
    feed.learned_since(15)
    assert feed.knows(Span(10, 20, True))


def test_the_oldest_ticks_are_forgotten() -> None:
    feed = Feed(Key("A", "ticks", UTC_ZONE))
    feed.learned_since(0)
    feed.learn({f"{ts}": ts for ts in reversed(range(MAX_KNOWN_TICKS + 10))})
    feed.pushed |= feed.known.keys()
    assert sorted(feed.known.values()) == list(range(10, MAX_KNOWN_TICKS + 10))
    assert not feed.knows(Span(9, 20, True))
    assert feed.knows(Span(10, 20, True))
    feed.learn({"new": MAX_KNOWN_TICKS + 10})
    assert "10" not in feed.known
    assert feed.pushed <= feed.known.keys()

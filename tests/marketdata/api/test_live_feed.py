"""The sent ticks that a feed remembers."""

from __future__ import annotations

from marketdata.api.live.feed import MAX_KNOWN_TICKS, MAX_SPANS, Feed, Key, Span
from marketdata.interval import UTC_ZONE


def test_a_feed_knows_ticks_from_the_earliest_page_on() -> None:
    feed = Feed(Key("A", "ticks", UTC_ZONE))
    assert not feed.knows(Span(10, 20, True))
    feed.learned_since(10)
    assert feed.knows(Span(10, 20, True))
    assert not feed.knows(Span(9, 20, True))
    feed.learned_since(15)
    assert feed.knows(Span(10, 20, True))


def test_of_too_many_ranges_the_two_that_are_closest_become_one() -> None:
    feed = Feed(Key("A", "ticks", UTC_ZONE))
    firsts = [100 * n for n in range(MAX_SPANS)]
    for first in (firsts[-1] + 7, *firsts):
        feed.add(Span(first, first, first == 0))
    assert feed.take() == [*(Span(at, at, at == 0) for at in firsts[:-1]), Span(firsts[-1], firsts[-1] + 7, False)]


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

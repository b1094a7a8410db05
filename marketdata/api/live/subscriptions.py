"""Handles the messages of subscribers: subscribe and unsubscribe.

The methods run in the server's thread, except the jobs that they submit to the reader's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from marketdata.api.live.feed import ALL_SYMBOLS, SUMMARY, TICKS, Feed, Key
from marketdata.api.live.feed_reader import FeedReader
from marketdata.api.live.readings import Page, read_page
from marketdata.api.live.reads import Reads
from marketdata.api.live.subscriber import Subscriber, Subscription
from marketdata.api.live.summaries import Items, Summaries
from marketdata.api.request_validation import checked, decoded
from marketdata.errors import InvalidValue, MarketError, NotFound
from marketdata.http.reply import encode
from marketdata.interval import UTC_ZONE
from marketdata.store import candles, summary
from marketdata.store.symbols import unknown_symbol
from marketdata.store.time_zones import TimeZones, zone_key

MAX_SUBSCRIPTIONS = 64
SUMMARY_SECONDS = 1.0
"""The shortest time between two messages with summaries to a connection."""


class Subscriptions:
    """The subscriptions of all connections. ``post`` runs an action in the server's thread. ``attend`` handles a
    subscriber's input and output."""

    def __init__(
        self,
        reader: FeedReader,
        summaries: Summaries,
        time_zones: TimeZones,
        post: Callable[[Callable[[], None]], None],
        attend: Callable[[Subscriber], None],
    ) -> None:
        self._reader = reader
        self._summaries = summaries
        self._time_zones = time_zones
        self._post = post
        self._attend = attend
        self._subscribers: dict[Feed, dict[Subscriber, Subscription]] = {}
        self.summary_feed = Feed(Key(ALL_SYMBOLS, SUMMARY, UTC_ZONE))
        """The feed of all subscriptions to summaries. ``summaries`` reads it."""

    def subscribers(self, feed: Feed) -> list[tuple[Subscriber, Subscription]]:
        """The subscribers of ``feed``, with their subscriptions."""
        return list(self._subscribers.get(feed, {}).items())

    def handle(self, subscriber: Subscriber) -> None:
        """Handle the received messages one after the other, until one of them has to wait for the reader."""
        while subscriber.inbox and not subscriber.is_waiting:
            request: dict[str, Any] = {}
            try:
                request = _parsed(subscriber.inbox.popleft())
                if request["op"] == "subscribe":
                    self._subscribe(subscriber, request)
                else:
                    self._unsubscribe(subscriber, request)
            except MarketError as error:
                subscriber.reply(_error(error, request))

    def continue_pages(self, subscriber: Subscriber) -> None:
        """Read the next page of ``since`` if all earlier messages were sent."""
        if subscriber.pending or subscriber.has_unsent or subscriber.is_waiting or subscriber.closing_since is not None:
            return
        paged = next((each for each in subscriber.subscriptions.values() if each.is_paged), None)
        if paged is not None:
            subscriber.is_waiting = True
            self._reader.submit(partial(self._read_page, subscriber, paged), partial(self._give_up, subscriber, paged))

    def forget(self, subscriber: Subscriber) -> None:
        """Remove all subscriptions of a connection that has ended."""
        for subscription in list(subscriber.subscriptions.values()):
            self._remove(subscriber, subscription)

    def _subscribe(self, subscriber: Subscriber, request: Mapping[str, Any]) -> None:
        if len(subscriber.subscriptions) >= MAX_SUBSCRIPTIONS and _found(subscriber, request) is None:
            raise InvalidValue(
                f"a connection has at most {MAX_SUBSCRIPTIONS} subscriptions: unsubscribe from one, or connect again",
                code="too_many_subscriptions",
            )
        subscriber.is_waiting = True
        self._reader.submit(
            partial(self._resolve_summary if request["interval"] == SUMMARY else self._resolve, subscriber, request),
            lambda error: self._post(partial(self._answer, subscriber, _error(error, request))),
        )

    def _unsubscribe(self, subscriber: Subscriber, request: Mapping[str, Any]) -> None:
        subscription = _found(subscriber, request)
        if subscription is None:
            raise NotFound("there is no such subscription on this connection", code="not_subscribed")
        self._remove(subscriber, subscription)
        subscriber.reply(subscription.feed.message("unsubscribed"))

    def _remove(self, subscriber: Subscriber, subscription: Subscription) -> None:
        feed = subscription.feed
        del subscriber.subscriptions[feed.key]
        subscriber.drop(subscription)
        del self._subscribers[feed][subscriber]
        if not self._subscribers[feed]:
            del self._subscribers[feed]
        self._release(subscription)

    def _release(self, subscription: Subscription) -> None:
        if subscription.feed is self.summary_feed:
            self._summaries.unwatch(subscription.symbols)
        else:
            self._reader.release(subscription.feed)

    # -- in the reader's thread ----------------------------------------------------------------------------------------

    def _resolve(self, subscriber: Subscriber, request: Mapping[str, Any], reads: Reads) -> None:
        name = request["symbol"]
        found = reads.read(name, partial(candles.counters, names=[name]))
        if name not in found:
            raise unknown_symbol(name)
        zone = self._time_zones.find(request["timeZone"]) if "timeZone" in request else UTC_ZONE
        key = Key(found[name].symbol, request["interval"], zone, request.get("open", "first"))
        # The feed notes changes from now on. The pages of `since` are read later, so no change is missed.
        subscription = Subscription(self._reader.use(key), name)
        if "since" in request:
            subscription.start, subscription.is_paged = request["since"] * 1000, True
        self._post(partial(self._subscribed, subscriber, subscription))

    def _resolve_summary(self, subscriber: Subscriber, request: Mapping[str, Any], reads: Reads) -> None:
        found = summary.merged_named(reads.read_each(request["symbols"], summary.named), request["symbols"])
        for name in request["symbols"]:
            if name not in found.names:
                raise unknown_symbol(name)
        self._summaries.watch(found.items)
        subscription = Subscription(
            self.summary_feed, ALL_SYMBOLS, pace=SUMMARY_SECONDS, symbols=frozenset(found.items)
        )
        self._post(partial(self._subscribed, subscriber, subscription, found.items))

    def _read_page(self, subscriber: Subscriber, subscription: Subscription, reads: Reads) -> None:
        feed, start, following = subscription.feed, subscription.start, subscription.following
        read = partial(read_page, feed=feed, start=start, cursor=following)
        page = reads.read(feed.key.symbol, read)
        feed.learn(page.ticks)
        if feed.is_of_ticks and page.following is None:
            feed.learned_since(start)
        self._post(partial(self._paged, subscriber, subscription, page))

    def _give_up(self, subscriber: Subscriber, subscription: Subscription, error: MarketError) -> None:
        subscription.is_paged = False
        self._post(partial(self._answer, subscriber, _error(error, subscription.feed.key.members)))

    # -- in the server's thread again ----------------------------------------------------------------------------------

    def _subscribed(self, subscriber: Subscriber, subscription: Subscription, items: Items | None = None) -> None:
        subscriber.is_waiting = False
        feed = subscription.feed
        if subscriber.is_gone:
            self._release(subscription)
            return
        earlier = subscriber.subscriptions.get(feed.key)
        if earlier is not None:
            self._remove(subscriber, earlier)
        subscriber.subscriptions[feed.key] = subscription
        self._subscribers.setdefault(feed, {})[subscriber] = subscription
        more: dict[str, object] = {"alias": subscription.name} if subscription.name != feed.key.symbol else {}
        if items is not None:
            more = {"symbols": list(items)}
            subscriber.push(subscription, items)
        self._answer(subscriber, feed.message("subscribed", **more))

    def _answer(self, subscriber: Subscriber, message: bytes) -> None:
        subscriber.is_waiting = False
        subscriber.reply(message)
        self._attend(subscriber)

    def _paged(self, subscriber: Subscriber, subscription: Subscription, page: Page) -> None:
        subscription.following = page.following
        subscription.is_paged = page.following is not None
        if subscriber.subscriptions.get(subscription.feed.key) is subscription:
            subscriber.push(subscription, page.frames)
        subscriber.is_waiting = False
        self._attend(subscriber)


def _parsed(text: str) -> dict[str, Any]:
    request = decoded(text.encode("utf-8", "surrogatepass"))
    checked("LiveRequest", request, "the message")
    _check_members(request)
    found: dict[str, Any] = request
    return found


def _check_members(request: Mapping[str, Any]) -> None:
    """Raise InvalidValue if a member is missing, or has no meaning for the interval."""
    interval, needed, meaningless = request["interval"], ["symbol"], ["symbols"]
    if interval == TICKS:
        meaningless = ["symbols", "timeZone", "open"]
    elif interval == SUMMARY:
        needed = ["symbols"] if request["op"] == "subscribe" else []
        meaningless = ["symbol", "timeZone", "open", "since"]
    for name in needed:
        if name not in request:
            raise InvalidValue(f"the message is missing {name}")
    for name in meaningless:
        if name in request:
            raise InvalidValue.of(f"/{name}", f"has no meaning for the interval {interval}")


def _found(subscriber: Subscriber, request: Mapping[str, Any]) -> Subscription | None:
    """The subscription that a request names by symbol or alias, or None."""
    name = request.get("symbol", ALL_SYMBOLS)
    sought = request["interval"], zone_key(request.get("timeZone", UTC_ZONE.name)), request.get("open", "first")
    for key, subscription in subscriber.subscriptions.items():
        if name in (key.symbol, subscription.name) and (key.interval, zone_key(key.zone.name), key.open) == sought:
            return subscription
    return None


def _error(error: MarketError, request: Mapping[str, Any]) -> bytes:
    """The error message for a failed request. It repeats the request's symbol, interval, time zone and open, and has
    the same further members as an HTTP problem."""
    named = {name: request[name] for name in ("symbol", "interval", "timeZone", "open") if name in request}
    return encode({"type": "error", **named, "code": error.code, "detail": error.detail, **error.extra})

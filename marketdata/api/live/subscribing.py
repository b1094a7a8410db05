"""The messages of clients: subscribe and unsubscribe. Used in the server's thread; the reader's jobs run in its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from marketdata.api.live import readings
from marketdata.api.live.client import Client, Subscription
from marketdata.api.live.feed import TICKS, Feed, Key
from marketdata.api.live.reader import Reader
from marketdata.api.live.readings import Page
from marketdata.api.request_validation import checked, decoded
from marketdata.errors import InvalidValue, MarketError, NotFound
from marketdata.http.reply import encode
from marketdata.interval import time_zone_shift
from marketdata.store import candles
from marketdata.store.pool import Connection
from marketdata.store.symbols import unknown_symbol
from marketdata.store.version import Version

SUBSCRIPTIONS_MAX = 64


class Subscribing:
    """``post`` calls an action in the server's thread, ``attend`` sends what a client has to receive."""

    def __init__(
        self, reader: Reader, post: Callable[[Callable[[], None]], None], attend: Callable[[Client], None]
    ) -> None:
        self._reader = reader
        self._post = post
        self._attend = attend
        self._subscribers: dict[Feed, dict[Client, Subscription]] = {}

    def subscribers(self, feed: Feed) -> list[tuple[Client, Subscription]]:
        """The clients that subscribed to ``feed``."""
        return list(self._subscribers.get(feed, {}).items())

    def handle(self, client: Client) -> None:
        """Handle what the client has sent, one message after the other."""
        while client.inbox and not client.is_waiting:
            request: dict[str, Any] = {}
            try:
                request = _parsed(client.inbox.popleft())
                if request["op"] == "subscribe":
                    self._subscribe(client, request)
                else:
                    self._unsubscribe(client, request)
            except MarketError as error:
                client.reply(_error(error, request))

    def continue_pages(self, client: Client) -> None:
        """Read the next page of a ``since`` when the client has received all before it."""
        if client.pending or client.has_unsent or client.is_waiting or client.closing_since is not None:
            return
        paged = next((each for each in client.subscriptions.values() if each.is_paged), None)
        if paged is not None:
            client.is_waiting = True
            self._reader.submit(partial(self._read_page, client, paged), partial(self._give_up, client, paged))

    def forget(self, client: Client) -> None:
        """The client has gone."""
        for subscription in list(client.subscriptions.values()):
            self._remove(client, subscription)

    def _subscribe(self, client: Client, request: Mapping[str, Any]) -> None:
        if len(client.subscriptions) >= SUBSCRIPTIONS_MAX and _found(client, request) is None:
            raise InvalidValue(
                f"a connection has at most {SUBSCRIPTIONS_MAX} subscriptions: unsubscribe from one, or connect again",
                code="too_many_subscriptions",
            )
        client.is_waiting = True
        self._reader.submit(
            partial(self._resolve, client, request),
            lambda error: self._post(partial(self._answer, client, _error(error, request))),
        )

    def _unsubscribe(self, client: Client, request: Mapping[str, Any]) -> None:
        subscription = _found(client, request)
        if subscription is None:
            raise NotFound("there is no such subscription on this connection", code="not_subscribed")
        self._remove(client, subscription)
        client.reply(subscription.feed.message("unsubscribed"))

    def _remove(self, client: Client, subscription: Subscription) -> None:
        feed = subscription.feed
        del client.subscriptions[feed.key]
        client.drop(subscription)
        del self._subscribers[feed][client]
        if not self._subscribers[feed]:
            del self._subscribers[feed]
        self._reader.release(feed)

    # -- in the reader's thread ----------------------------------------------------------------------------------------

    def _resolve(self, client: Client, request: Mapping[str, Any], connection: Connection, version: Version) -> None:
        name = request["symbol"]
        found = candles.counters(connection, version, [name])
        if name not in found:
            raise unknown_symbol(name)
        key = Key(found[name].symbol, request["interval"], _shift(request))
        # From here on changes are noted; the pages of `since` are read later, so no change is missed between.
        subscription = Subscription(self._reader.use(key), name)
        if "since" in request:
            subscription.start, subscription.is_paged = request["since"] * 1000, True
        self._post(partial(self._subscribed, client, subscription))

    def _read_page(self, client: Client, subscription: Subscription, connection: Connection, version: Version) -> None:
        feed, start, following = subscription.feed, subscription.start, subscription.following
        page = readings.page(connection, version, feed, start, following)
        self._post(partial(self._paged, client, subscription, page))

    def _give_up(self, client: Client, subscription: Subscription, error: MarketError) -> None:
        subscription.is_paged = False
        self._post(partial(self._answer, client, _error(error, subscription.feed.key.members)))

    # -- in the server's thread again ----------------------------------------------------------------------------------

    def _subscribed(self, client: Client, subscription: Subscription) -> None:
        client.is_waiting = False
        feed = subscription.feed
        if client.is_gone:
            self._reader.release(feed)
            return
        earlier = client.subscriptions.get(feed.key)
        if earlier is not None:
            self._remove(client, earlier)
        client.subscriptions[feed.key] = subscription
        self._subscribers.setdefault(feed, {})[client] = subscription
        alias = {"alias": subscription.name} if subscription.name != feed.key.symbol else {}
        self._answer(client, feed.message("subscribed", **alias))

    def _answer(self, client: Client, message: bytes) -> None:
        client.is_waiting = False
        client.reply(message)
        self._attend(client)

    def _paged(self, client: Client, subscription: Subscription, page: Page) -> None:
        subscription.following = page.following
        subscription.is_paged = page.following is not None
        if client.subscriptions.get(subscription.feed.key) is subscription:
            client.push(subscription, page.frames)
        client.is_waiting = False
        self._attend(client)


def _parsed(text: str) -> dict[str, Any]:
    request = decoded(text.encode("utf-8", "surrogatepass"))
    checked("LiveRequest", request, "the message")
    if request["interval"] == TICKS and "timeZone" in request:
        raise InvalidValue.of("/timeZone", "has no meaning for ticks")
    found: dict[str, Any] = request
    return found


def _shift(request: Mapping[str, Any]) -> int:
    return time_zone_shift(request.get("timeZone", "+00:00"))


def _found(client: Client, request: Mapping[str, Any]) -> Subscription | None:
    """The subscription that a request names, by its symbol or its alias."""
    shift, interval = _shift(request), request["interval"]
    for key, subscription in client.subscriptions.items():
        if request["symbol"] in (key.symbol, subscription.name) and (key.interval, key.shift) == (interval, shift):
            return subscription
    return None


def _error(error: MarketError, request: Mapping[str, Any]) -> bytes:
    """The message about a request that failed, with what the request names."""
    named = {name: request[name] for name in ("symbol", "interval", "timeZone") if name in request}
    return encode({"type": "error", **named, "code": error.code, "detail": error.detail})

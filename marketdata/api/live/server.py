"""Serves all live connections in one thread with one selector. The thread never waits for the database."""

from __future__ import annotations

import logging
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any

from marketdata.api.auth import Caller
from marketdata.api.live.feed import Feed
from marketdata.api.live.feed_reader import FeedReader
from marketdata.api.live.new_symbols import NewSymbols
from marketdata.api.live.readings import Frames, Reading
from marketdata.api.live.reads import Reads
from marketdata.api.live.subscriber import BATCH_BYTES, RECEIVE_BYTES, Subscriber
from marketdata.api.live.subscriptions import Subscriptions
from marketdata.api.live.summaries import Items, Summaries
from marketdata.api.live.websocket import GOING_AWAY, POLICY, Violation, accepted, text_frame
from marketdata.api.served_version import ServedVersion
from marketdata.errors import Saturated
from marketdata.http.reply import encode
from marketdata.http.wsgi import HandOver
from marketdata.store import tokens
from marketdata.store.notifications import Change
from marketdata.store.placement import Placement
from marketdata.store.pool import Pool
from marketdata.store.time_zones import TimeZones

MAX_CONNECTIONS = 2000

SWEEP_SECONDS = 1.0
PING_SECONDS = 25.0
HEARTBEAT_SECONDS = 15.0
"""How often each connection gets the message ``heartbeat``. A page cannot see the pings of the protocol."""
SILENT_SECONDS = 80.0
"""A connection is closed if for this long the peer has neither sent anything nor accepted waiting output."""
CLOSE_SECONDS = 2.0
"""How long a closed connection waits for the peer's close frame."""
TOKENS_SECONDS = 10.0
"""How often all tokens are checked, in case a notification of a revocation was lost."""

HEARTBEAT = encode({"type": "heartbeat"})

_log = logging.getLogger(__name__)


class Live:
    """All live connections of the service. Call ``start`` once; ``stop`` is idempotent. Thread-safe."""

    def __init__(
        self,
        pool: Pool,
        placement: Placement,
        served: ServedVersion,
        time_zones: TimeZones,
        sent: Callable[[int], None],
        connections: int = MAX_CONNECTIONS,
        *,
        sweep_seconds: float = SWEEP_SECONDS,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        tokens_seconds: float = TOKENS_SECONDS,
    ) -> None:
        """``sent`` is called with the number of candles, ticks, new symbols and items of summaries that were sent."""
        self._room = connections
        self._sweep_seconds, self._heartbeat_seconds = sweep_seconds, heartbeat_seconds
        self._tokens_seconds = tokens_seconds
        self._sent = sent
        self._reader = FeedReader(
            pool, placement, served, lambda feed, reading: self._post(partial(self._push, feed, reading))
        )
        self._summaries = Summaries(self._reader, lambda items: self._post(partial(self._push_summaries, items)))
        self._subscriptions = Subscriptions(self._reader, self._summaries, time_zones, self._post, self._attend)
        self._new_symbols = NewSymbols(
            self._reader,
            served,
            lambda found: self._post(partial(self._announce, found)),
            lambda gone: self._post(partial(self._withdraw, gone)),
        )
        self._subscribers: dict[socket.socket, Subscriber] = {}
        self._later: dict[Subscriber, float] = {}
        self._actions: deque[Callable[[], None]] = deque()
        self._selector: selectors.BaseSelector
        self._wake_reader: socket.socket
        self._wake_writer: socket.socket
        self._sweep_at = self._tokens_at = 0.0
        self._ending_at: float | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = socket.socketpair()
        for each in (self._wake_reader, self._wake_writer):
            each.setblocking(False)
        self._selector.register(self._wake_reader, selectors.EVENT_READ)
        self._reader.start()
        self._thread = threading.Thread(target=self._run, name="api-live", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Close every connection with the code 1001."""
        self._reader.stop(timeout)
        if self._thread is not None:
            self._post(self._end)
            self._thread.join(timeout)

    # -- in any thread -------------------------------------------------------------------------------------------------

    @property
    def connections(self) -> int:
        return len(self._subscribers)

    def handshake(self, environ: Mapping[str, Any], caller: Caller) -> HandOver:
        """Accept the handshake of a request. The caller must raise the returned HandOver, which gives the connection to
        this server.

        Raises UpgradeRequired, BadRequest or Saturated if the handshake is refused.
        """
        response = accepted(environ)
        self._check_room()
        return HandOver(lambda sock: self.adopt(sock, caller, response))

    def _check_room(self) -> None:
        """Raise :class:`Saturated` if no more connections are accepted."""
        if len(self._subscribers) >= self._room or self._ending_at is not None:
            raise Saturated(
                f"{len(self._subscribers)} live connections are open, which is the maximum; try again later"
            )

    def adopt(self, sock: socket.socket, caller: Caller, response: bytes) -> None:
        """Serve a connection, after sending it ``response``. Does not block."""
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The kernel's buffer is small, because a newer state of a candle cannot replace data in that buffer.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BATCH_BYTES)
        self._post(partial(self._open, Subscriber(sock, caller, response)))

    def changed(self, changes: list[Change]) -> None:
        self._reader.changed(changes)
        self._new_symbols.changed(changes)
        self._summaries.changed(changes)

    def resync(self) -> None:
        """Handle a loss of notifications: tell every subscriber to read again, and check the tokens."""
        self._reader.resync()
        self._new_symbols.resync()
        self._summaries.resync()
        self.check_tokens()

    def revoked(self, identity: str) -> None:
        """Close the connections of the token with this id."""
        self._post(partial(self._close_tokens, {identity}))

    def check_tokens(self) -> None:
        """Close the connections whose tokens have expired or were revoked."""
        used = {subscriber.caller.id for subscriber in list(self._subscribers.values())}

        def check(reads: Reads) -> None:
            unusable = used - tokens.usable(reads.connection, used)
            self._post(partial(self._close_tokens, unusable))

        if used:
            self._reader.submit(check, lambda _error: None)

    def _post(self, action: Callable[[], None]) -> None:
        """Call ``action`` in the server's thread."""
        self._actions.append(action)
        if self._thread is not None:
            with suppress(OSError):  # the thread is awake already, or has ended
                self._wake_writer.send(b".")

    # -- in the server's thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        while self._ending_at is None or (self._subscribers and monotonic() < self._ending_at):
            try:
                self._turn()
            except Exception:
                _log.exception("internal error in the loop of live connections")
        for subscriber in list(self._subscribers.values()):
            self._drop(subscriber)
        self._selector.close()
        self._wake_reader.close()
        self._wake_writer.close()

    def _turn(self) -> None:
        until = min([self._sweep_at, *self._later.values()])
        for key, events in self._selector.select(max(until - monotonic(), 0.0)):
            if key.fileobj is self._wake_reader:
                with suppress(BlockingIOError):
                    self._wake_reader.recv(4096)
            elif (subscriber := self._subscribers.get(key.data)) is not None:
                self._ready(subscriber, events)
        while self._actions:
            self._actions.popleft()()
        now = monotonic()
        for subscriber in [subscriber for subscriber, at in self._later.items() if at <= now]:
            del self._later[subscriber]
            self._attend(subscriber)
        if now >= self._sweep_at:
            self._sweep_at = now + self._sweep_seconds
            self._sweep(now)

    def _open(self, subscriber: Subscriber) -> None:
        if self._ending_at is not None:
            subscriber.socket.close()
            return
        self._subscribers[subscriber.socket] = subscriber
        subscriber.heartbeat_at = monotonic() + self._heartbeat_seconds
        self._attend(subscriber)

    def _ready(self, subscriber: Subscriber, events: int) -> None:
        if events & selectors.EVENT_READ:
            try:
                data = subscriber.socket.recv(RECEIVE_BYTES)
            except BlockingIOError:
                data = None
            except OSError:
                data = b""
            if data == b"":
                self._drop(subscriber)
                return
            if data:
                self._received(subscriber, data)
        self._attend(subscriber)

    def _received(self, subscriber: Subscriber, data: bytes) -> None:
        subscriber.alive_at = monotonic()
        try:
            subscriber.inbox.extend(subscriber.protocol.received(data))
        except Violation as violation:
            subscriber.close(violation.code, violation.reason)
        subscriber.replies.extend(subscriber.protocol.control_frames)
        subscriber.protocol.control_frames.clear()

    def _attend(self, subscriber: Subscriber) -> None:
        """Handle the received messages, send the messages that are due, and register the events to wait for."""
        if subscriber.socket not in self._subscribers:
            return
        if subscriber.closing_since is None:
            self._subscriptions.handle(subscriber)
        sent = subscriber.sent_messages
        try:
            again = subscriber.flush()
        except OSError:
            self._drop(subscriber)
            return
        if subscriber.sent_messages > sent:
            self._sent(subscriber.sent_messages - sent)
        self._subscriptions.continue_pages(subscriber)
        if subscriber.protocol.is_closed and not subscriber.has_unsent:
            self._drop(subscriber)
            return
        if again is not None:
            self._later[subscriber] = again
        wants_input = selectors.EVENT_READ if subscriber.wants_input else 0
        self._watch(subscriber, wants_input | (selectors.EVENT_WRITE if subscriber.has_unsent else 0))

    def _watch(self, subscriber: Subscriber, events: int) -> None:
        if events and subscriber.watched:
            if events != subscriber.watched:
                self._selector.modify(subscriber.socket, events, subscriber.socket)
        elif events:
            self._selector.register(subscriber.socket, events, subscriber.socket)
        elif subscriber.watched:
            self._selector.unregister(subscriber.socket)
        subscriber.watched = events

    def _push(self, feed: Feed, reading: Reading) -> None:
        for subscriber, subscription in self._subscriptions.subscribers(feed):
            subscriber.push(subscription, reading.frames)
            if reading.is_partial:
                subscriber.lacking.add(subscription)
            self._attend(subscriber)

    def _push_summaries(self, items: Items) -> None:
        for subscriber, subscription in self._subscriptions.subscribers(self._subscriptions.summary_feed):
            frames: Frames = {symbol: item for symbol, item in items.items() if symbol in subscription.symbols}
            if frames:
                subscriber.push(subscription, frames)
                self._attend(subscriber)

    def _announce(self, symbols: Collection[str]) -> None:
        """Send new symbols to each connection that has a subscription."""
        frames: Frames = {name: text_frame(encode({"type": "symbol", "symbol": name})) for name in symbols}
        for subscriber in list(self._subscribers.values()) if frames else ():
            if subscriber.subscriptions:
                subscriber.push(subscriber.news, frames)
                self._attend(subscriber)

    def _withdraw(self, symbols: Collection[str]) -> None:
        """Tell each connection that has a subscription to read the symbols again, and their summaries."""
        for subscriber in list(self._subscribers.values()) if symbols else ():
            if subscriber.subscriptions:
                summaries = [each for each in subscriber.subscriptions.values() if not each.symbols.isdisjoint(symbols)]
                subscriber.lacking.update([subscriber.news, *summaries])
                self._attend(subscriber)

    def _sweep(self, now: float) -> None:
        for subscriber in list(self._subscribers.values()):
            silent = now - subscriber.alive_at
            if silent > SILENT_SECONDS or now - (subscriber.closing_since or now) > CLOSE_SECONDS:
                self._drop(subscriber)
            elif not subscriber.replies:
                self._keep_alive(subscriber, now)
        self._summaries.sweep(now)
        if now >= self._tokens_at:
            self._tokens_at = now + self._tokens_seconds
            self.check_tokens()

    def _keep_alive(self, subscriber: Subscriber, now: float) -> None:
        """Send a heartbeat or a ping if it is due. While earlier replies wait, neither is added."""
        if subscriber.closing_since is None and now >= subscriber.heartbeat_at:
            subscriber.heartbeat_at = now + self._heartbeat_seconds
            subscriber.reply(HEARTBEAT)
        elif now - subscriber.alive_at > PING_SECONDS:
            subscriber.ping()
        else:
            return
        self._attend(subscriber)

    def _close_tokens(self, identities: set[str]) -> None:
        for subscriber in list(self._subscribers.values()):
            if subscriber.caller.id in identities:
                subscriber.close(POLICY, "the token was revoked or has expired")
                self._attend(subscriber)

    def _end(self) -> None:
        if self._ending_at is None:
            self._ending_at = monotonic() + CLOSE_SECONDS
            for subscriber in list(self._subscribers.values()):
                subscriber.close(GOING_AWAY, "the service ends")
                self._attend(subscriber)

    def _drop(self, subscriber: Subscriber) -> None:
        if self._subscribers.pop(subscriber.socket, None) is not None:
            subscriber.is_gone = True
            self._watch(subscriber, 0)
            self._later.pop(subscriber, None)
            self._subscriptions.forget(subscriber)
            subscriber.socket.close()

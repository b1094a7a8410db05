"""The thread that serves all live connections with one selector. It never waits for the database."""

from __future__ import annotations

import logging
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import monotonic

from marketdata.api.caller import Caller
from marketdata.api.live.client import BATCH_BYTES, RECEIVE_BYTES, Client
from marketdata.api.live.feed import Feed
from marketdata.api.live.frames import GOING_AWAY, POLICY, Violation
from marketdata.api.live.reader import Reader
from marketdata.api.live.readings import Reading
from marketdata.api.live.subscribing import Subscribing
from marketdata.api.served_version import ServedVersion
from marketdata.errors import Saturated
from marketdata.store import tokens
from marketdata.store.notifications import Change
from marketdata.store.pool import Connection, Pool
from marketdata.store.version import Version

CONNECTIONS = 2000

SWEEP_SECONDS = 1.0
PING_SECONDS = 25.0
SILENT_SECONDS = 80.0
"""A client that answers no ping for so long, and accepts nothing of what waits for it, is closed."""
CLOSE_SECONDS = 2.0
"""How long a closed connection waits for the client's close frame."""
TOKENS_SECONDS = 10.0
"""How often the tokens of all connections are checked, beside the notifications of revocations."""

_log = logging.getLogger(__name__)


class Live:
    """All live connections of the service. ``start`` once, ``stop`` any number of times. Thread-safe."""

    def __init__(self, pool: Pool, served: ServedVersion, connections: int = CONNECTIONS) -> None:
        self._room = connections
        self._reader = Reader(pool, served, lambda feed, reading: self._post(partial(self._push, feed, reading)))
        self._subscribing = Subscribing(self._reader, self._post, self._attend)
        self._clients: dict[socket.socket, Client] = {}
        self._later: dict[Client, float] = {}
        self._actions: deque[Callable[[], None]] = deque()
        self._selector: selectors.BaseSelector
        self._wake_reader: socket.socket
        self._wake_writer: socket.socket
        self._sweep_at = self._tokens_at = 0.0
        self._ending_at: float | None = None
        self._thread: threading.Thread | None = None
        self._sent_messages = 0

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
        return len(self._clients)

    @property
    def sent_messages(self) -> int:
        """Candles and ticks sent since the start."""
        return self._sent_messages

    def check_room(self) -> None:
        """:class:`Saturated` when no more connections are accepted."""
        if len(self._clients) >= self._room or self._ending_at is not None:
            raise Saturated(f"{len(self._clients)} live connections are open, the most allowed; try again later")

    def adopt(self, sock: socket.socket, caller: Caller, response: bytes) -> None:
        """Send ``response`` and serve the connection. Does not block."""
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # What the kernel has accepted cannot be replaced by a newer state, so it accepts little.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BATCH_BYTES)
        self._post(partial(self._open, Client(sock, caller, response)))

    def changed(self, changes: list[Change]) -> None:
        self._reader.changed(changes)

    def resync(self) -> None:
        """Notifications may have been lost: tell every client, and check the tokens."""
        self._reader.resync()
        self.check_tokens()

    def revoked(self, identity: str) -> None:
        """Close the connections of this token."""
        self._post(partial(self._close_tokens, {identity}))

    def check_tokens(self) -> None:
        """Close the connections whose tokens have expired or were revoked."""
        used = {client.caller.id for client in list(self._clients.values())}

        def check(connection: Connection, _version: Version) -> None:
            unusable = used - tokens.usable(connection, used)
            self._post(partial(self._close_tokens, unusable))

        if used:
            self._reader.submit(check, lambda _error: None)

    def _post(self, action: Callable[[], None]) -> None:
        """Call ``action`` in the server's thread."""
        self._actions.append(action)
        if self._thread is not None:
            with suppress(OSError):  # it is woken already, or has ended
                self._wake_writer.send(b".")

    # -- in the server's thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        while self._ending_at is None or (self._clients and monotonic() < self._ending_at):
            try:
                self._turn()
            except Exception:
                _log.exception("internal error in the loop of live connections")
        for client in list(self._clients.values()):
            self._drop(client)
        self._selector.close()
        self._wake_reader.close()
        self._wake_writer.close()

    def _turn(self) -> None:
        until = min([self._sweep_at, *self._later.values()])
        for key, events in self._selector.select(max(until - monotonic(), 0.0)):
            if key.fileobj is self._wake_reader:
                with suppress(BlockingIOError):
                    self._wake_reader.recv(4096)
            elif (client := self._clients.get(key.data)) is not None:
                self._ready(client, events)
        while self._actions:
            self._actions.popleft()()
        now = monotonic()
        for client in [client for client, at in self._later.items() if at <= now]:
            del self._later[client]
            self._attend(client)
        if now >= self._sweep_at:
            self._sweep_at = now + SWEEP_SECONDS
            self._sweep(now)

    def _open(self, client: Client) -> None:
        if self._ending_at is not None:
            client.socket.close()
            return
        self._clients[client.socket] = client
        self._attend(client)

    def _ready(self, client: Client, events: int) -> None:
        if events & selectors.EVENT_READ:
            try:
                data = client.socket.recv(RECEIVE_BYTES)
            except BlockingIOError:
                data = None
            except OSError:
                data = b""
            if data == b"":
                self._drop(client)
                return
            if data:
                self._received(client, data)
        self._attend(client)

    def _received(self, client: Client, data: bytes) -> None:
        client.alive_at = monotonic()
        try:
            client.inbox.extend(client.protocol.received(data))
        except Violation as violation:
            client.close(violation.code, violation.reason)
        client.replies.extend(client.protocol.answers)
        client.protocol.answers.clear()

    def _attend(self, client: Client) -> None:
        """Handle the client's next messages, send what can be sent, and register what to wait for."""
        if client.socket not in self._clients:
            return
        if client.closing_since is None:
            self._subscribing.handle(client)
        sent = client.sent_messages
        try:
            again = client.flush()
        except OSError:
            self._drop(client)
            return
        self._sent_messages += client.sent_messages - sent
        self._subscribing.continue_pages(client)
        if client.protocol.is_closed and not client.has_unsent:
            self._drop(client)
            return
        if again is not None:
            self._later[client] = again
        wants_input = selectors.EVENT_READ if client.wants_input else 0
        self._watch(client, wants_input | (selectors.EVENT_WRITE if client.has_unsent else 0))

    def _watch(self, client: Client, events: int) -> None:
        if events and client.watched:
            if events != client.watched:
                self._selector.modify(client.socket, events, client.socket)
        elif events:
            self._selector.register(client.socket, events, client.socket)
        elif client.watched:
            self._selector.unregister(client.socket)
        client.watched = events

    def _push(self, feed: Feed, reading: Reading) -> None:
        for client, subscription in self._subscribing.subscribers(feed):
            client.push(subscription, reading.frames)
            if reading.is_partial:
                client.lacking.add(subscription)
            self._attend(client)

    def _sweep(self, now: float) -> None:
        for client in list(self._clients.values()):
            silent = now - client.alive_at
            if silent > SILENT_SECONDS or now - (client.closing_since or now) > CLOSE_SECONDS:
                self._drop(client)
            elif silent > PING_SECONDS and not client.replies:
                client.ping()
                self._attend(client)
        if now >= self._tokens_at:
            self._tokens_at = now + TOKENS_SECONDS
            self.check_tokens()

    def _close_tokens(self, identities: set[str]) -> None:
        for client in list(self._clients.values()):
            if client.caller.id in identities:
                client.close(POLICY, "the token was revoked or has expired")
                self._attend(client)

    def _end(self) -> None:
        if self._ending_at is None:
            self._ending_at = monotonic() + CLOSE_SECONDS
            for client in list(self._clients.values()):
                client.close(GOING_AWAY, "the service ends")
                self._attend(client)

    def _drop(self, client: Client) -> None:
        if self._clients.pop(client.socket, None) is not None:
            client.is_gone = True
            self._watch(client, 0)
            self._later.pop(client, None)
            self._subscribing.forget(client)
            client.socket.close()

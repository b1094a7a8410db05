"""One connection: its subscriptions, and the messages that wait to be sent. Used in the server's thread only.

For each candle at most one message waits. A message with a newer state of the candle replaces it, so a slow subscriber
does not receive every state.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from time import monotonic

from marketdata.api.auth import Caller
from marketdata.api.live.feed import ALL_SYMBOLS, SUMMARY, Feed, Key
from marketdata.api.live.feed_reader import PACE_SECONDS
from marketdata.api.live.readings import PAGE_ROWS, Frames
from marketdata.api.live.websocket import PING, Protocol, text_frame
from marketdata.interval import UTC_ZONE

MAX_PENDING = 2 * PAGE_ROWS
"""The largest number of waiting messages. Above it the oldest are dropped, and a message names their feeds."""

BATCH_BYTES = 64 * 1024
"""The size of a batch of messages. The next batch is made after the kernel has accepted the whole previous batch."""

_MAX_PARTS = 512
"""Maximum number of parts of one ``sendmsg``."""
RECEIVE_BYTES = 4096
MAX_REPLIES = 64
"""While this many replies wait, nothing is received from the subscriber."""


@dataclass(eq=False, slots=True)
class Subscription:
    """A subscriber's use of a feed. ``name`` is the symbol or alias that the subscriber sent. ``due`` is the time
    (monotonic) from which messages may be sent again, ``pace`` the shortest time between two. ``symbols`` are those of
    a subscription to summaries.

    ``is_paged`` is True while pages of ``since`` remain to be read: from ``start``, or from the cursor ``following``.
    """

    feed: Feed
    name: str
    due: float = 0.0
    pace: float = PACE_SECONDS
    symbols: frozenset[str] = frozenset()
    start: int = 0
    following: int | str | None = None
    is_paged: bool = False


class Subscriber:
    """Takes over ``sock``, which must be non-blocking, and sends ``response`` first."""

    def __init__(self, sock: socket.socket, caller: Caller, response: bytes) -> None:
        self.socket = sock
        self.caller = caller
        self.protocol = Protocol()
        self.subscriptions: dict[Key, Subscription] = {}
        self.news = Subscription(Feed(Key(ALL_SYMBOLS, "symbols", UTC_ZONE)), ALL_SYMBOLS)
        """The subscription to new symbols. It is in effect while the connection has any other subscription."""
        self.inbox: deque[str] = deque()
        """Received messages that are not handled yet."""
        self.is_waiting = False
        """Whether the reader works for this subscriber. Until it has finished, no further message is handled."""
        self.replies: deque[bytes] = deque([response])
        self.pending: dict[tuple[Subscription, int | str], bytes] = {}
        """The frames to send. Summaries wait as items, which are sent together in one message."""
        self.lacking: set[Subscription] = set()
        """Subscriptions that missed changes. The subscriber has not been told yet."""
        self._unsent: list[bytes | memoryview] = []
        self.alive_at = monotonic()
        """The time when the peer last sent something or accepted waiting data."""
        self.heartbeat_at = 0.0
        """The time (monotonic) when the next heartbeat is due. The server sets it."""
        self.closing_since: float | None = None
        self.is_gone = False
        self.watched = 0
        """The selector's events that this connection waits for."""
        self.sent_messages = 0

    @property
    def has_unsent(self) -> bool:
        """Whether the kernel has not yet accepted the whole batch."""
        return bool(self._unsent)

    @property
    def wants_input(self) -> bool:
        return not self.inbox and len(self.replies) < MAX_REPLIES

    def reply(self, message: bytes) -> None:
        """Send ``message`` before the pending messages."""
        self.replies.append(text_frame(message))

    def push(self, subscription: Subscription, frames: Frames | Mapping[str, bytes]) -> None:
        """Add messages, replacing pending ones of the same candles or ticks."""
        if self.closing_since is not None:
            return
        pending = self.pending
        for at, frame in frames.items():
            pending[subscription, at] = frame
        if (surplus := len(pending) - MAX_PENDING) > 0:
            for key in list(islice(pending, surplus)):
                self.lacking.add(key[0])
                del pending[key]

    def drop(self, subscription: Subscription) -> None:
        """Drop the pending messages of a subscription that has ended."""
        self.lacking.discard(subscription)
        self.pending = {key: frame for key, frame in self.pending.items() if key[0] is not subscription}

    def ping(self) -> None:
        self.replies.append(PING)

    def close(self, code: int, reason: str) -> None:
        """Send a close frame and nothing after it. If the kernel has accepted only a part of a batch, the rest of the
        batch is sent first."""
        if self.closing_since is None:
            self.closing_since = monotonic()
            self.inbox.clear()
            self.pending.clear()
            self.lacking.clear()
            self.replies.clear()
            self.replies.append(self.protocol.close(code, reason))

    def flush(self) -> float | None:
        """Send as much as the kernel accepts. Returns the time (monotonic) when the next delayed message is due, or
        None if no message is delayed. Raises OSError when the connection is lost."""
        is_late = self.has_unsent
        while True:
            if not self._unsent:
                self._unsent, again = self._batch()
                if not self._unsent:
                    if self.closing_since is not None:
                        # Now the peer closes the connection. If it does not, the server's sweep does.
                        self.socket.shutdown(socket.SHUT_WR)
                    return again
            try:
                sent = self.socket.sendmsg(self._unsent[:_MAX_PARTS])
            except BlockingIOError:
                return None
            if is_late:
                self.alive_at = monotonic()
            self._accepted(sent)

    def _accepted(self, sent: int) -> None:
        count = 0
        for part in self._unsent:
            if sent < len(part):
                break
            sent -= len(part)
            count += 1
        del self._unsent[:count]
        if sent:
            self._unsent[0] = memoryview(self._unsent[0])[sent:]

    def _batch(self) -> tuple[list[bytes | memoryview], float | None]:
        """The next messages to send, and the time when further messages are due, or None."""
        batch: list[bytes | memoryview] = [each for each in self.replies if each]
        self.replies.clear()
        batch += [_missed(subscription) for subscription in self.lacking]
        self.lacking.clear()
        if not self.pending:
            return batch, None
        now, size, again = monotonic(), 0, None
        taken, subscriptions = [], set()
        items: list[bytes | memoryview] = []
        for key, frame in self.pending.items():
            if key[0].due > now:
                again = min(again or key[0].due, key[0].due)
            elif size < BATCH_BYTES or key[0].feed.key.interval == SUMMARY:
                taken.append(key)
                subscriptions.add(key[0])
                (items if key[0].feed.key.interval == SUMMARY else batch).append(frame)
                size += len(frame)
        if items:
            batch.append(text_frame(b'{"type":"summary","items":[%b]}' % b",".join(items)))
        for key in taken:
            del self.pending[key]
        for subscription in subscriptions:
            subscription.due = now + subscription.pace
            again = min(again or subscription.due, subscription.due)
        self.sent_messages += len(taken)
        return batch, again if self.pending else None


def _missed(subscription: Subscription) -> bytes:
    detail = "more has changed than was sent: read it again, from /v1/chart, /v1/ticks, /v1/symbols or /v1/summary"
    return text_frame(subscription.feed.message("error", code="missed", detail=detail))

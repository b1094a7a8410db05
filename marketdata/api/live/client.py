"""One connection: what its client subscribed to, and what it has yet to receive. Used in the server's thread only.

What waits for a client is kept by candle: a newer state replaces an older one, so a slow client skips states.
"""

from __future__ import annotations

import socket
from collections import deque
from dataclasses import dataclass
from itertools import islice
from time import monotonic

from marketdata.api.caller import Caller
from marketdata.api.live.feed import Feed, Key
from marketdata.api.live.frames import PING, Protocol, text_frame
from marketdata.api.live.reader import PACE_SECONDS
from marketdata.api.live.readings import ROWS, Frames

PENDING_MAX = 2 * ROWS
"""Messages that wait for a client. Beyond it the oldest are dropped, and a message names the feeds that lack some."""

BATCH_BYTES = 64 * 1024
"""Messages are handed to the kernel in batches of this size, and the next one is made when all of it was accepted."""

_VECTOR = 512
RECEIVE_BYTES = 4096
REPLIES_MAX = 64
"""While more replies than this wait, nothing is received from the client."""


@dataclass(eq=False, slots=True)
class Subscription:
    """``name`` is the symbol or alias as the client sent it. ``due`` is when its candles may be sent again (monotonic).
    ``start`` and ``following`` are the rest of what ``since`` asks for, while ``is_paged``."""

    feed: Feed
    name: str
    due: float = 0.0
    start: int = 0
    following: int | str | None = None
    is_paged: bool = False


class Client:
    """``sock`` is non-blocking and belongs to this object."""

    def __init__(self, sock: socket.socket, caller: Caller, response: bytes) -> None:
        self.socket = sock
        self.caller = caller
        self.protocol = Protocol()
        self.subscriptions: dict[Key, Subscription] = {}
        self.inbox: deque[str] = deque()
        """Messages that were received and are not handled yet."""
        self.is_waiting = False
        """Whether the reader works for this client; its next message is handled after that."""
        self.replies: deque[bytes] = deque([response])
        self.pending: dict[tuple[Subscription, int | str], bytes] = {}
        self.lacking: set[Subscription] = set()
        """The subscriptions of which the client missed changes, and got no message about it yet."""
        self._unsent: list[bytes | memoryview] = []
        self.alive_at = monotonic()
        """When the client last sent something, or accepted what had waited for it."""
        self.closing_since: float | None = None
        self.is_gone = False
        self.watched = 0
        """The events of the selector that are waited for."""
        self.sent_messages = 0

    @property
    def has_unsent(self) -> bool:
        """Whether the kernel did not accept everything."""
        return bool(self._unsent)

    @property
    def wants_input(self) -> bool:
        return not self.inbox and len(self.replies) < REPLIES_MAX

    def reply(self, message: bytes) -> None:
        """Send ``message`` before what is pending."""
        self.replies.append(text_frame(message))

    def push(self, subscription: Subscription, frames: Frames) -> None:
        """Replace what is pending of these candles or ticks."""
        if self.closing_since is not None:
            return
        pending = self.pending
        for at, frame in frames.items():
            pending[subscription, at] = frame
        if (surplus := len(pending) - PENDING_MAX) > 0:
            for key in list(islice(pending, surplus)):
                self.lacking.add(key[0])
                del pending[key]

    def drop(self, subscription: Subscription) -> None:
        """Drop what is pending of a subscription that has ended."""
        self.lacking.discard(subscription)
        self.pending = {key: frame for key, frame in self.pending.items() if key[0] is not subscription}

    def ping(self) -> None:
        self.replies.append(PING)

    def close(self, code: int, reason: str) -> None:
        """Send a close frame after what the kernel accepted in part, and nothing more."""
        if self.closing_since is None:
            self.closing_since = monotonic()
            self.inbox.clear()
            self.pending.clear()
            self.lacking.clear()
            self.replies.clear()
            self.replies.append(self.protocol.close(code, reason))

    def flush(self) -> float | None:
        """Send what the kernel accepts. Returns when to call this again for what may not be sent yet (monotonic); None
        if there is nothing. OSError when the connection is lost."""
        is_late = self.has_unsent
        while True:
            if not self._unsent:
                self._unsent, again = self._batch()
                if not self._unsent:
                    if self.closing_since is not None:
                        self.socket.shutdown(
                            socket.SHUT_WR
                        )  # the client ends the connection, or the server after a while
                    return again
            try:
                sent = self.socket.sendmsg(self._unsent[:_VECTOR])
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
        """The next messages to send, and when more may be sent."""
        batch: list[bytes | memoryview] = [each for each in self.replies if each]
        self.replies.clear()
        batch += [_missed(subscription) for subscription in self.lacking]
        self.lacking.clear()
        if not self.pending:
            return batch, None
        now, size, again = monotonic(), 0, None
        taken, subscriptions = [], set()
        for key, frame in self.pending.items():
            if key[0].due > now:
                again = min(again or key[0].due, key[0].due)
            elif size < BATCH_BYTES:
                taken.append(key)
                subscriptions.add(key[0])
                batch.append(frame)
                size += len(frame)
        for key in taken:
            del self.pending[key]
        for subscription in subscriptions:
            subscription.due = now + PACE_SECONDS
            again = min(again or subscription.due, subscription.due)
        self.sent_messages += len(taken)
        return batch, again if self.pending else None


def _missed(subscription: Subscription) -> bytes:
    detail = "more has changed than was sent: read the range again, from /v1/chart or /v1/ticks"
    return text_frame(subscription.feed.message("error", code="missed", detail=detail))

"""Limits of connections: request size, total size of kept bodies, timeouts, and the minimum read rate of a client."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any, NamedTuple

from cardapp.web.failures import InternalError, TooManyBodies
from cardapp.web.gate import Gate, too_large
from cardapp.web.peer import Address, MakeError, closed_by_client, is_established

IDLE_SECONDS = 60
"""A connection is closed after this long without traffic, even if a response is unsent, and when its client is this
far behind ``MIN_RATE``."""

ARRIVAL_SECONDS = 120.0
"""Longest time for one request to arrive: enough for a picture through a slow tunnel."""

UNREAD_BYTES = 1 << 30
"""Maximum total of unsent response bytes; above it a worker blocks on its client. Below it workers, and the read
transaction of a report, end without waiting for clients: waitress keeps the bytes in temporary files."""

MIN_RATE = 256 * 1024
"""Bytes per second that a client must read while a worker blocks on it."""

CROWDED_SECONDS = 5.0
"""Replaces ``IDLE_SECONDS`` for a client behind ``MIN_RATE`` while requests queue for a worker. Not shorter, because
the buffers of the kernel empty in bursts of up to a megabyte."""

LINGER_SECONDS = 30.0
LINGER_BYTES = 64 * 1024 * 1024
"""After a refusal the rest of the request is read and dropped up to these bounds. Closing at once would make the kernel
reset the connection, and a client that is still writing would lose the response."""

BODIES_BYTES = 64 * 1024 * 1024
"""Maximum total of request bodies that are kept at once."""
UNCOUNTED_BYTES = 16 * 1024
"""A body up to this size does not count, so small requests are accepted while large uploads are refused."""

_log = logging.getLogger(__name__)


class Timeouts(NamedTuple):
    """Seconds until a connection is closed. Each field is explained at its default, for example ``ARRIVAL_SECONDS``."""

    arrival: float = ARRIVAL_SECONDS
    idle: float = IDLE_SECONDS
    crowded: float = CROWDED_SECONDS
    linger: float = LINGER_SECONDS


class BodyBudget:
    """Limits the total size of all request bodies that are kept at once. Thread-safe."""

    def __init__(self, limit: int = BODIES_BYTES) -> None:
        self._free = limit
        self._lock = threading.Lock()

    def reserve(self, size: int) -> bool:
        """Reserve ``size`` bytes; returns False and reserves nothing if fewer are free."""
        with self._lock:
            has_room = size <= self._free
            if has_room:
                self._free -= size
        return has_room

    def release(self, size: int) -> None:
        with self._lock:
            self._free += size


@dataclass(frozen=True)
class Rules:
    """The rules for the connections of one listening socket.

    ``admit(client, local)`` gets both addresses of a new connection. It returns None, or a function that makes the
    error with which every request of the connection is refused.
    """

    gate: Gate
    bodies: BodyBudget
    unread_bytes: int = UNREAD_BYTES
    admit: Callable[[Address, Address], MakeError | None] | None = None

    def refusal(self, accepted: socket.socket, client: Any) -> MakeError | None:
        """The result of ``admit`` for a connection. If ``admit`` raises, every request is refused with 500."""
        if self.admit is None:
            return None
        try:
            refused = self.admit(client[:2], accepted.getsockname()[:2])
            # A client that has reset this connection may have left its port to the one that was looked up.
            return refused or (None if is_established(accepted) else closed_by_client)
        except Exception:
            _log.exception("internal error: the account of a connection could not be looked up")
            return lambda: InternalError("the account of this connection could not be looked up: see the service's log")


class RequestLimits:
    """Checks one request while it arrives. ``close`` releases its bytes and may be called repeatedly."""

    def __init__(self, rules: Rules, foreign: MakeError | None) -> None:
        self._rules = rules
        self._foreign = foreign
        self._limit = 0
        self._reserved = 0

    def check_head(self, head: Mapping[str, Any], *, has_body: bool) -> MakeError | None:
        """The error that refuses the request, or None. Call it when the head is complete.

        A request without a body is checked only for the client's account: the gate in front of the application
        refuses it for the other reasons, and then the connection can stay open.
        """
        if self._foreign is not None or not has_body:
            return self._foreign
        self._limit = self._rules.gate.body_limit(head)
        refused = self._rules.gate.refusal(head)
        return None if refused is None else lambda: refused

    def count_body(self, size: int) -> MakeError | None:
        """The error that refuses the request, or None, now that ``size`` bytes of its body have arrived."""
        if size > self._limit:
            return lambda: too_large(self._limit)
        if size > UNCOUNTED_BYTES:
            if not self._rules.bodies.reserve(size - self._reserved):
                return lambda: TooManyBodies(
                    "too many request bodies are arriving at once: send this one again a little later"
                )
            self._reserved = size
        return None

    def close(self) -> None:
        self._rules.bodies.release(self._reserved)
        self._reserved = 0


class Activity:
    """The times of the last events on one connection, in monotonic seconds."""

    def __init__(self) -> None:
        self.moved = monotonic()
        """Last traffic."""
        self.is_blocking = False
        """Whether a worker blocks on the client."""
        self._arriving_since: float | None = None
        self._rate_met_until = 0.0
        """The client has read at ``MIN_RATE`` up to this time; when it is in the past, the client is behind."""
        self._lingering_since: float | None = None
        self._dropped = 0

    def arriving(self, *, is_partial: bool) -> None:
        """Bytes of a request arrived; ``is_partial``: more of it is missing."""
        self.moved = monotonic()
        if not is_partial:
            self._arriving_since = None
        elif self._arriving_since is None:
            self._arriving_since = monotonic()

    def sending(self) -> None:
        """Response bytes are about to be sent, and none was unsent before."""
        self.moved = self._rate_met_until = monotonic()

    def sent(self, size: int) -> None:
        """The kernel accepted ``size`` bytes of the response."""
        now = monotonic()
        if size:
            self.moved = now
        self._rate_met_until = min(self._rate_met_until + size / MIN_RATE, now)

    def linger(self) -> None:
        """The refusal is sent; what still arrives is dropped from now on."""
        self._arriving_since = None
        self._lingering_since = monotonic()

    @property
    def is_lingering(self) -> bool:
        return self._lingering_since is not None

    def drop(self, size: int) -> bool:
        """Count ``size`` dropped bytes; returns False when ``LINGER_BYTES`` is reached."""
        self._dropped += size
        return self._dropped < LINGER_BYTES

    def is_unused(self, seconds: float) -> bool:
        """Whether the connection, on which no response is under way, can be closed to make room for another one."""
        return self.is_lingering or monotonic() - self.moved >= seconds

    def is_overdue(self, timeouts: Timeouts, *, crowded: bool, is_sending: bool, is_served: bool) -> bool:
        """Whether the connection has to be closed. ``crowded``: requests queue for a worker; ``is_sending``: response
        bytes are unsent; ``is_served``: a request has arrived whose response is not complete."""
        now = monotonic()
        if self._lingering_since is not None:
            return now - self._lingering_since > timeouts.linger
        if self._arriving_since is not None and now - self._arriving_since > timeouts.arrival:
            return True
        if self.is_blocking and now - self._rate_met_until > (timeouts.crowded if crowded else timeouts.idle):
            return True
        return (is_sending or not is_served) and now - self.moved > timeouts.idle

"""The limits of a connection: what it may send, how much is kept, how long it may idle, how fast it must read."""

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
"""A connection without traffic for this long is closed, also when its client does not read its response; and so is a
client that falls this far behind ``LEAST_RATE``."""

ARRIVAL_SECONDS = 120.0
"""Longest time for one request to arrive: enough for a picture through a slow tunnel."""

UNREAD_BYTES = 1 << 30
"""Maximum total of unsent response bytes; above it a worker blocks on its client. Below it workers, and the read
transaction of a report, end without waiting for clients: waitress keeps the bytes in temporary files."""

LEAST_RATE = 256 * 1024
"""Bytes per second that a client must read while a worker blocks on it."""

CROWDED_SECONDS = 5.0
"""Replaces ``IDLE_SECONDS`` for a client behind ``LEAST_RATE`` while requests queue for a worker. Not shorter, because
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


class Patience(NamedTuple):
    """Seconds until a connection is closed; the constants of the same names say why."""

    arrival: float = ARRIVAL_SECONDS
    idle: float = IDLE_SECONDS
    crowded: float = CROWDED_SECONDS
    linger: float = LINGER_SECONDS


class Bodies:
    """The bytes of all request bodies that are kept at once; safe to use from several threads."""

    def __init__(self, limit: int = BODIES_BYTES) -> None:
        self._free = limit
        self._lock = threading.Lock()

    def reserve(self, size: int) -> bool:
        """Whether there is room for ``size`` more bytes; if so they are reserved."""
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
    """What one listening socket applies to its connections. ``admit`` gets the address of a connection's client and
    that of our end, and returns the error that answers every request of the connection, or None."""

    gate: Gate
    bodies: Bodies
    unread_bytes: int = UNREAD_BYTES
    admit: Callable[[Address, Address], MakeError | None] | None = None

    def refusal(self, accepted: socket.socket, client: Any) -> MakeError | None:
        """What ``admit`` says of a connection; if it fails, the connection is refused."""
        if self.admit is None:
            return None
        try:
            refused = self.admit(client[:2], accepted.getsockname()[:2])
            # A client that has reset this connection may have left its port to the one that was looked up.
            return refused or (None if is_established(accepted) else closed_by_client)
        except Exception:
            _log.exception("internal error: the account of a connection could not be looked up")
            return lambda: InternalError("the account of this connection could not be looked up: see the service's log")


class Reception:
    """One request as it arrives. ``close`` any number of times."""

    def __init__(self, rules: Rules, foreign: MakeError | None) -> None:
        self._rules = rules
        self._foreign = foreign
        self._limit = 0
        self._reserved = 0

    def judge(self, head: Mapping[str, Any], *, has_body: bool) -> MakeError | None:
        """Why the request is refused, now that its head is complete. One without a body passes here, as the application
        is behind the same gate: then the connection need not be closed."""
        if self._foreign is not None or not has_body:
            return self._foreign
        self._limit = self._rules.gate.body_limit(head)
        refused = self._rules.gate.refusal(head)
        return None if refused is None else lambda: refused

    def keep(self, size: int) -> MakeError | None:
        """Why the request is refused, now that ``size`` bytes of its body are kept."""
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
    """What happened on one connection and when, in monotonic seconds."""

    def __init__(self) -> None:
        self.moved = monotonic()
        """Last traffic."""
        self.is_blocking = False
        """Whether a worker blocks on the client."""
        self._arriving_since: float | None = None
        self._read_until = 0.0
        """The moment up to which the client has read what ``LEAST_RATE`` demands."""
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
        self.moved = self._read_until = monotonic()

    def sent(self, size: int) -> None:
        """The client's side took so many bytes of the response."""
        now = monotonic()
        if size:
            self.moved = now
        self._read_until = min(self._read_until + size / LEAST_RATE, now)

    def linger(self) -> None:
        """The refusal is sent; what still arrives is dropped from now on."""
        self._arriving_since = None
        self._lingering_since = monotonic()

    @property
    def is_lingering(self) -> bool:
        return self._lingering_since is not None

    def drop(self, size: int) -> bool:
        """``size`` bytes were dropped; False when that was the last that is read."""
        self._dropped += size
        return self._dropped < LINGER_BYTES

    def is_unused(self, seconds: float) -> bool:
        """Whether the connection, on which no response is under way, can be closed to make room for another one."""
        return self.is_lingering or monotonic() - self.moved >= seconds

    def is_overdue(self, patience: Patience, *, crowded: bool, is_sending: bool, is_served: bool) -> bool:
        """Whether the connection has to be closed. ``crowded``: requests queue for a worker; ``is_sending``: response
        bytes are unsent; ``is_served``: a request has arrived whose response is not complete."""
        now = monotonic()
        if self._lingering_since is not None:
            return now - self._lingering_since > patience.linger
        if self._arriving_since is not None and now - self._arriving_since > patience.arrival:
            return True
        if self.is_blocking and now - self._read_until > (patience.crowded if crowded else patience.idle):
            return True
        return (is_sending or not is_served) and now - self.moved > patience.idle

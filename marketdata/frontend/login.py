"""HTTP Basic authentication (RFC 7617) against the users of ``frontend.json``.

bcrypt is slow on purpose, so a verified login is remembered for a minute. The memory holds a keyed digest of name and
password, and the user's hash at that time. Removing a user, or changing the password, ends their sessions at once.

Failed logins are limited by token buckets. One is per address. Others limit the tries for a user, so that many
addresses guess no faster than a few, and still no failed logins from elsewhere lock the user out: an address that has
not failed takes from a bucket of the user that those who have failed cannot empty. After that, address and user
together have a few tries of their own, before they share the user's last bucket with everybody. A digest stays in the
memory after its minute. A request with such a digest takes from the bucket of its address alone.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from hashlib import blake2b
from hmac import compare_digest
from time import monotonic

import bcrypt

from marketdata.errors import MarketError
from marketdata.frontend.concurrency_limit import ConcurrencyLimit
from marketdata.frontend.problems import LoginRequired, LoginUnavailable, TooManyTries, log
from marketdata.frontend.users import MAX_PASSWORD_BYTES

REMEMBERED_SECONDS = 60.0
MAX_REMEMBERED = 1000
MAX_RUNNING = max(2, len(os.sched_getaffinity(0)))
"""The number of passwords that are checked at the same time. Each check keeps a core busy."""
MAX_WAITING = 60
_WAIT_SECONDS = 10.0

BURST = 10
"""The size of the bucket of an address, and of the one that all addresses share for a user."""
FRESH_BURST = 100
"""The number of addresses that have not failed and may fail at once for a user."""
OWN_BURST = 5
"""The number of tries that an address has for a user, beside those that it shares."""
SECONDS_EACH = 6.0
"""Seconds until a bucket gains one token."""
OWN_SECONDS_EACH = 600.0
MAX_KEYS = 10_000

Key = tuple[Hashable, ...]
_LIMITS: Mapping[Hashable, tuple[int, float]] = {
    "address": (BURST, SECONDS_EACH),
    "fresh": (FRESH_BURST, SECONDS_EACH),
    "own": (OWN_BURST, OWN_SECONDS_EACH),
    "user": (BURST, SECONDS_EACH),
}
"""The size of each kind of bucket, and the seconds until it gains a token. A key begins with its kind."""


class Login:
    """Identifies the user of a request. ``users`` returns each user's current hash."""

    def __init__(self, users: Callable[[], Mapping[str, bytes]], clock: Callable[[], float] = monotonic) -> None:
        self._users = users
        self._clock = clock
        self._key = os.urandom(32)
        self._lock = threading.Lock()
        self._remembered: OrderedDict[bytes, tuple[str, bytes, float]] = OrderedDict()
        self._checking: dict[bytes, threading.Lock] = {}
        self._throttle = Throttle(clock)
        self._checks = ConcurrencyLimit(MAX_RUNNING, MAX_WAITING, _WAIT_SECONDS)

    def user(self, authorization: str | None, address: str) -> str:
        """The user that the header authenticates. Otherwise raises LoginRequired, TooManyTries, Busy or
        LoginUnavailable."""
        users, digest = self._current(), self._digest(authorization)
        return self._known(users, digest) or self._verified(authorization, digest, address)

    def user_from_memory(self, authorization: str | None) -> str | None:
        """The user if the login is remembered; None when the password must be checked."""
        return self._known(self._current(), self._digest(authorization))

    def standing(self, name: str) -> Callable[[], bool]:
        """Returns a function that tells whether the user still exists with the password of this moment."""
        hashed = self._current().get(name)

        def stands() -> bool:
            try:
                return hashed is not None and self._users().get(name) == hashed
            except MarketError:
                return False

        return stands

    def _current(self) -> Mapping[str, bytes]:
        try:
            return self._users()
        except MarketError as error:
            log.error("nobody can log in: %s", error.detail)
            raise LoginUnavailable("nobody can log in now: the log of the frontend has the reason") from error

    def _digest(self, authorization: str | None) -> bytes:
        if authorization is None:
            raise LoginRequired("log in to see this page")
        return blake2b(authorization.encode("latin-1"), key=self._key).digest()

    def _known(self, users: Mapping[str, bytes], digest: bytes) -> str | None:
        name, until = self._once_verified(users, digest)
        return name if self._clock() < until else None

    def _once_verified(self, users: Mapping[str, bytes], digest: bytes) -> tuple[str | None, float]:
        """The user of a digest that was verified against the user's current hash, and the time until which the login is
        remembered. Returns None and 0 without such a digest."""
        with self._lock:
            name, hashed, until = self._remembered.get(digest, ("", b"", 0.0))
        return (name, until) if hashed and users.get(name) == hashed else (None, 0.0)

    def _verified(self, authorization: str | None, digest: bytes, address: str) -> str:
        name, password = _credentials(authorization or "")
        # A browser sends several requests at once. The first request checks the password for all.
        with self._lock:
            turn = self._checking.setdefault(digest, threading.Lock())
        try:
            with self._checks.entered(), turn:
                users = self._current()
                if known := self._known(users, digest):
                    return known
                keys = self._taken(name, _network(address), is_known=self._once_verified(users, digest)[0] is not None)
                with self._checks.running():
                    is_right = self._matches(users, name, password)
                if not is_right:
                    log.warning("wrong user name or password from %s", address)
                    raise LoginRequired("wrong user name or password")
                self._throttle.give_back(*keys)
                self._remember(digest, name, users[name])
                return name
        finally:
            with self._lock:
                self._checking.pop(digest, None)

    def _taken(self, name: str, network: str, *, is_known: bool) -> tuple[Key, ...]:
        """Take the tokens for a try, and return the keys of their buckets. Raises TooManyTries if one is empty.
        ``is_known`` says that this password was right before."""
        user, of_address = self._keyed(name.encode()), ("address", network)
        choices: tuple[tuple[Key, ...], ...] = (("own", network, user),), (("user", user),)
        if is_known:
            choices = ((),)
        elif self._throttle.is_full(of_address):
            choices = ((("fresh", user),),)
        for choice in choices:
            keys = (of_address, *choice)
            if not (wait := self._throttle.take(*keys)):
                return keys
        raise TooManyTries(wait)

    def _matches(self, users: Mapping[str, bytes], name: str, password: bytes) -> bool:
        """Whether the password is right. For an unknown name, the password is checked against another user's hash, so
        that the answer takes the same time. A name is always checked against the same hash."""
        hashed = users.get(name)
        if hashed is None:
            if not users:
                return False
            of_name = int.from_bytes(self._keyed(name.encode())[:8])
            hashed = sorted(users.values())[of_name % len(users)]
        is_usable = len(password) <= MAX_PASSWORD_BYTES and b"\0" not in password
        is_right = compare_digest(bcrypt.hashpw(password if is_usable else b"-", hashed), hashed)
        return is_right and is_usable and name in users

    def _keyed(self, data: bytes) -> bytes:
        return blake2b(data, key=self._key, digest_size=16).digest()

    def _remember(self, digest: bytes, name: str, hashed: bytes) -> None:
        with self._lock:
            self._remembered.pop(digest, None)
            self._remembered[digest] = (name, hashed, self._clock() + REMEMBERED_SECONDS)
            while len(self._remembered) > MAX_REMEMBERED:
                self._remembered.popitem(last=False)


def _network(address: str) -> str:
    """The key of an address in the throttle. For IPv6 it is the network /64, because a client can use any address of
    its network."""
    return address if ":" not in address else str(ipaddress.ip_network(f"{address.partition('%')[0]}/64", strict=False))


def _credentials(authorization: str) -> tuple[str, bytes]:
    """The name and the password in a header ``Basic …``. Raises LoginRequired for any other header."""
    scheme, _, encoded = authorization.partition(" ")
    try:
        if scheme.lower() != "basic":
            raise ValueError
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        if not colon:
            raise ValueError
        return name.decode("utf-8"), password
    except (ValueError, binascii.Error) as error:
        raise LoginRequired("log in with user name and password (HTTP Basic authentication)") from error


# -- failed logins ----------------------------------------------------------------------------------------------------


class Throttle:
    """A token bucket for each key. With more than ``max_keys`` keys, the least recently used bucket is forgotten."""

    def __init__(self, clock: Callable[[], float] = monotonic, max_keys: int = MAX_KEYS) -> None:
        self._clock = clock
        self._max_keys = max_keys
        self._lock = threading.Lock()
        # The time at which each key's bucket is full again. Taking a token moves that time by the seconds of the key.
        self._full_at: OrderedDict[Key, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._full_at)

    def is_full(self, key: Key) -> bool:
        """Whether no token was taken from the bucket, or all are there again."""
        with self._lock:
            return self._full_at.get(key, 0.0) <= self._clock()

    def take(self, *keys: Key) -> float:
        """Take a token from each key's bucket and return 0. If a bucket is empty, take no token and return the seconds
        to wait."""
        with self._lock:
            now = self._clock()
            wait = max(self._wait(key, now) for key in keys)
            if wait > 0:
                return wait
            for key in keys:
                self._full_at[key] = max(self._full_at.pop(key, now), now) + _LIMITS[key[0]][1]
            while len(self._full_at) > self._max_keys:
                self._full_at.popitem(last=False)
            return 0.0

    def _wait(self, key: Key, now: float) -> float:
        burst, seconds = _LIMITS[key[0]]
        return self._full_at.get(key, now) - now - (burst - 1) * seconds

    def give_back(self, *keys: Key) -> None:
        """Give the tokens back after a successful login."""
        with self._lock:
            for key in keys:
                if key in self._full_at:
                    self._full_at[key] -= _LIMITS[key[0]][1]

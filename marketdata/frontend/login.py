"""HTTP Basic authentication (RFC 7617) against the users of ``frontend.json``.

bcrypt is slow on purpose. A verified login is therefore remembered for a minute, by a keyed digest of name and password
and together with the hash that it was verified against: a user who was removed or got another password is out at once.
The digest itself is kept after that minute: wrong tries of others for the same user do not slow a login that was right.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import blake2b
from hmac import compare_digest
from time import monotonic

import bcrypt

from marketdata.errors import MarketError
from marketdata.frontend.concurrency_limit import Slots
from marketdata.frontend.failures import LoginRequired, LoginUnavailable, TooManyTries, log
from marketdata.frontend.throttle import Throttle
from marketdata.frontend.users import PASSWORD_BYTES

REMEMBERED_SECONDS = 60.0
REMEMBERED_MAX = 1000
RUNNING = max(2, len(os.sched_getaffinity(0)))
"""Passwords that are checked at once: each keeps a core busy."""
WAITING = 60
_WAIT_SECONDS = 10.0


class Login:
    """``user`` says who sent a request. ``users`` gives the hash of each user as it is now."""

    def __init__(self, users: Callable[[], Mapping[str, bytes]], clock: Callable[[], float] = monotonic) -> None:
        self._users = users
        self._clock = clock
        self._key = os.urandom(32)
        self._lock = threading.Lock()
        self._remembered: OrderedDict[bytes, tuple[str, bytes, float]] = OrderedDict()
        self._checking: dict[bytes, threading.Lock] = {}
        self._throttle = Throttle(clock)
        self._slots = Slots(RUNNING, WAITING, _WAIT_SECONDS)

    def user(self, authorization: str | None, address: str) -> str:
        """The user whom the header proves; LoginRequired, TooManyTries, Busy or LoginUnavailable otherwise."""
        users, digest = self._current(), self._digest(authorization)
        return self._known(users, digest) or self._verified(authorization, digest, address)

    def user_from_memory(self, authorization: str | None) -> str | None:
        """The user who was verified a short while ago; None when the password has to be checked."""
        return self._known(self._current(), self._digest(authorization))

    def standing(self, name: str) -> Callable[[], bool]:
        """Tells from now on whether the user is still there, with the password of this moment."""
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
        """The user whom a login proved before, with the password of this moment, and until when that is enough."""
        with self._lock:
            name, hashed, until = self._remembered.get(digest, ("", b"", 0.0))
        return (name, until) if hashed and users.get(name) == hashed else (None, 0.0)

    def _verified(self, authorization: str | None, digest: bytes, address: str) -> str:
        name, password = _credentials(authorization or "")
        # A browser sends several requests at once: the first one checks the password for all.
        with self._lock:
            turn = self._checking.setdefault(digest, threading.Lock())
        try:
            with self._slots.entered(), turn:
                users = self._current()
                if known := self._known(users, digest):
                    return known
                keys = [("address", _network(address)), ("user", self._keyed(name.encode()))]
                if self._once_verified(users, digest)[0]:
                    del keys[1]
                if wait := self._throttle.take(*keys):
                    raise TooManyTries(wait)
                with self._slots.running():
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

    def _matches(self, users: Mapping[str, bytes], name: str, password: bytes) -> bool:
        """Takes the same time for an unknown user: the hash of another one is used, always the same for a name."""
        hashed = users.get(name)
        if hashed is None:
            if not users:
                return False
            of_name = int.from_bytes(self._keyed(name.encode())[:8])
            hashed = sorted(users.values())[of_name % len(users)]
        is_usable = len(password) <= PASSWORD_BYTES and b"\0" not in password
        is_right = compare_digest(bcrypt.hashpw(password if is_usable else b"-", hashed), hashed)
        return is_right and is_usable and name in users

    def _keyed(self, data: bytes) -> bytes:
        return blake2b(data, key=self._key, digest_size=16).digest()

    def _remember(self, digest: bytes, name: str, hashed: bytes) -> None:
        with self._lock:
            self._remembered.pop(digest, None)
            self._remembered[digest] = (name, hashed, self._clock() + REMEMBERED_SECONDS)
            while len(self._remembered) > REMEMBERED_MAX:
                self._remembered.popitem(last=False)


def _network(address: str) -> str:
    """An IPv6 client has a whole /64 to choose addresses from."""
    return address if ":" not in address else str(ipaddress.ip_network(f"{address.partition('%')[0]}/64", strict=False))


def _credentials(authorization: str) -> tuple[str, bytes]:
    """Name and password of a header ``Basic …``; LoginRequired when it is another one or malformed."""
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

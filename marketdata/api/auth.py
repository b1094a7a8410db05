"""Who asks: bearer tokens (RFC 6750) checked against the database, and the admin secret.

A token is looked up by its SHA-256 and then cached for at most :data:`CACHE_SECONDS`; a revocation removes it from the
cache through :mod:`marketdata.api.revocation_listener`. Every unusable token gets the same answer.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable
from time import monotonic

from marketdata import token
from marketdata.api.caller import Caller, Scope
from marketdata.errors import Forbidden, InvalidRequest, Unauthorized
from marketdata.store.tokens import Holder

CACHE_SECONDS = 30.0
_CACHE_MAX = 10_000
_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([A-Za-z0-9._~+/-]+=*)", re.ASCII)

ADMIN = "admin"


class Authenticator:
    """Recognises callers. ``find`` asks the database for the holder of a usable token by its SHA-256."""

    def __init__(
        self,
        find: Callable[[bytes], Holder | None],
        admin_digest: bytes | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._find = find
        self._admin_digest = admin_digest
        self._clock = clock
        self._cached: dict[bytes, tuple[Caller, float]] = {}
        self._generation = 0
        self._used: set[str] = set()

    def admit(self, authorization: str | None, wanted: Scope) -> Caller:
        """The caller, who has the wanted scope; else InvalidRequest, Unauthorized or Forbidden."""
        caller = self._recognise(presented(authorization))
        if wanted == "any" and caller.scope != ADMIN:
            return caller
        if caller.scope != wanted:
            scope = "read write" if wanted == "any" else wanted
            raise Forbidden(f"this needs the scope {scope}, the token has another", extra={"scope": scope})
        return caller

    def forget(self, identity: str | None = None) -> None:
        """Ask the database again for the token of that id, or for every one: what is being looked up now, too."""
        self._generation += 1
        for key, (caller, _) in list(self._cached.items()):
            if identity is None or caller.id == identity:
                self._cached.pop(key, None)

    def take_used(self) -> list[str]:
        """The ids of the tokens used since the last call."""
        used, self._used = self._used, set()
        return sorted(used)

    def _recognise(self, text: str) -> Caller:
        digest = token.digest(text)
        known = self._cached.get(digest)
        if known is not None and known[1] > self._clock():
            self._used.add(known[0].id)
            return known[0]
        if self._admin_digest is not None and hmac.compare_digest(digest, self._admin_digest):
            return Caller(ADMIN, ADMIN, ADMIN)
        if not token.is_sound(text):
            raise _unusable()
        generation, asked_at = self._generation, self._clock()
        holder = self._find(digest)
        if holder is None:
            self._cached.pop(digest, None)
            raise _unusable()
        caller = Caller(holder.id, holder.name, holder.scope)
        self._used.add(caller.id)
        # A revocation that was told while the database was asked may be newer than the answer.
        if generation == self._generation:
            self._cache(digest, caller, asked_at + min(CACHE_SECONDS, holder.seconds_left))
        return caller

    def _cache(self, digest: bytes, caller: Caller, until: float) -> None:
        if len(self._cached) >= _CACHE_MAX:
            self._cached.clear()
        self._cached[digest] = (caller, until)


def presented(authorization: str | None) -> str:
    """The token of an ``Authorization`` header. Two of them arrive joined by a comma, which no token68 holds."""
    if authorization is None:
        raise Unauthorized("send a token: Authorization: Bearer md_…")
    found = _BEARER.fullmatch(authorization)
    if found is None:
        raise InvalidRequest("Authorization must stand once, as: Bearer <token>")
    return found[1]


def _unusable() -> Unauthorized:
    return Unauthorized("the token cannot be used", code="invalid_token")

"""Authentication: bearer tokens (RFC 6750) checked against the database, and the administrator's secret.

A token is looked up by its SHA-256 and cached for at most :data:`CACHE_SECONDS`; a revocation removes it from the cache
(:mod:`marketdata.api.revocation_listener`). Malformed, unknown, expired and revoked tokens get the same answer.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Literal

from marketdata import token
from marketdata.errors import Forbidden, InvalidRequest, Unauthorized
from marketdata.secretfile import ADMIN_SECRET
from marketdata.store.tokens import ValidToken

CACHE_SECONDS = 30.0
_CACHE_MAX = 10_000
_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([A-Za-z0-9._~+/-]+=*)", re.ASCII)

ADMIN = "admin"
_ADMIN_CREDENTIAL = f"the administrator's secret, from the file {ADMIN_SECRET} in the folder of the token files"


Scope = Literal["read", "write", "any", "admin"]
"""What a route requires: a token of that scope, a token of either scope (``any``), or the administrator's secret."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The token's id, name and scope; for the administrator's secret all three are ``admin``."""

    id: str
    name: str
    scope: str


class Authenticator:
    """Identifies callers. ``find`` queries the database for the holder of a valid token by its SHA-256."""

    def __init__(
        self,
        find: Callable[[bytes], ValidToken | None],
        admin_digest: bytes | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._find = find
        self._admin_digest = admin_digest
        self._clock = clock
        self._cached: dict[bytes, tuple[Caller, float]] = {}
        self._generation = 0
        self._used: set[str] = set()

    def admit(self, authorization: str | None, required: Scope) -> Caller:
        """The caller of an ``Authorization`` header. Raises InvalidRequest for a malformed header, Unauthorized for a
        missing or unusable token, Forbidden for one of another scope."""
        text = presented(authorization, required)
        digest = token.digest(text)
        return _in_scope(self._from_memory(text, digest, required) or self._look_up(digest, required), required)

    def admit_from_memory(self, authorization: str | None, required: Scope) -> Caller | None:
        """As :meth:`admit`, without the database: None for a token that only the database can decide."""
        text = presented(authorization, required)
        caller = self._from_memory(text, token.digest(text), required)
        return caller and _in_scope(caller, required)

    def forget(self, identity: str | None = None) -> None:
        """Remove the token of that id, or every token, from the cache. The result of a look-up that is running is not
        cached either."""
        self._generation += 1
        for key, (caller, _) in list(self._cached.items()):
            if identity is None or caller.id == identity:
                self._cached.pop(key, None)

    def take_used(self) -> list[str]:
        """The ids of the tokens used since the last call."""
        used, self._used = self._used, set()
        return sorted(used)

    def _from_memory(self, text: str, digest: bytes, required: Scope) -> Caller | None:
        """The caller, when the token is cached or the administrator's secret; Unauthorized for a wrong checksum."""
        known = self._cached.get(digest)
        if known is not None and known[1] > self._clock():
            self._used.add(known[0].id)
            return known[0]
        if self._admin_digest is not None and hmac.compare_digest(digest, self._admin_digest):
            return Caller(ADMIN, ADMIN, ADMIN)
        if not token.is_sound(text):
            raise _unusable(required)
        return None

    def _look_up(self, digest: bytes, required: Scope) -> Caller:
        generation, began = self._generation, self._clock()
        holder = self._find(digest)
        if holder is None:
            self._cached.pop(digest, None)
            raise _unusable(required)
        caller = Caller(holder.id, holder.name, holder.scope)
        self._used.add(caller.id)
        # A revocation received during the query may be newer than its result.
        if generation == self._generation:
            self._cache(digest, caller, began + min(CACHE_SECONDS, holder.seconds_left))
        return caller

    def _cache(self, digest: bytes, caller: Caller, until: float) -> None:
        if len(self._cached) >= _CACHE_MAX:
            self._cached.clear()
        self._cached[digest] = (caller, until)


def presented(authorization: str | None, required: Scope) -> str:
    """The token of an ``Authorization`` header. The values of a repeated header are joined by a comma, which no token68
    contains."""
    if authorization is None:
        what, example = (_ADMIN_CREDENTIAL, "…") if required == ADMIN else ("a token", "md_…")
        raise Unauthorized(f"send {what}: Authorization: Bearer {example}")
    found = _BEARER.fullmatch(authorization)
    if found is None:
        raise InvalidRequest("Authorization must be sent once, as: Bearer <token>")
    return found[1]


def _in_scope(caller: Caller, required: Scope) -> Caller:
    if caller.scope == required or (required == "any" and caller.scope != ADMIN):
        return caller
    scope = "read write" if required == "any" else required
    detail = f"this request requires the scope {scope}; the token has another"
    if required == ADMIN:
        detail = f"this request requires {_ADMIN_CREDENTIAL}, not a token"
    raise Forbidden(detail, extra={"scope": scope})


def _unusable(required: Scope) -> Unauthorized:
    advice = f"; this request requires {_ADMIN_CREDENTIAL}" if required == ADMIN else ""
    return Unauthorized(f"the token cannot be used{advice}", code="invalid_token")

"""Authentication: bearer tokens (RFC 6750) checked against the database, and the administrator's secret.

A token is looked up by its SHA-256 and cached for at most :data:`CACHE_SECONDS`. A revocation removes it from the cache
(:mod:`marketdata.api.revocation_listener`). Malformed, unknown, expired and revoked tokens get the same response.
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
_MAX_CACHED = 10_000
_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([A-Za-z0-9._~+/-]+=*)", re.ASCII)

ADMIN = "admin"
_ADMIN_CREDENTIAL = f"the administrator's secret, from the file {ADMIN_SECRET} in the folder of the token files"


Scope = Literal["read", "write", "any", "admin"]
"""What a route requires: a token of the scope read or write, a token of either scope (``any``), or the administrator's
secret."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Id, name and scope of the caller's token. For the administrator's secret all three are ``admin``."""

    id: str
    name: str
    scope: str


class Authenticator:
    """Identifies callers. ``find`` queries the database for a valid token by its SHA-256."""

    def __init__(
        self,
        find: Callable[[bytes], ValidToken | None],
        admin_digest: bytes | None = None,
        clock: Callable[[], float] = monotonic,
        cache_seconds: float = CACHE_SECONDS,
    ) -> None:
        self._find = find
        self._admin_digest = admin_digest
        self._clock = clock
        self._cache_seconds = cache_seconds
        self._cached: dict[bytes, tuple[Caller, float]] = {}
        self._generation = 0
        self._used: set[str] = set()

    def admit(self, authorization: str | None, required: Scope) -> Caller:
        """Returns the caller that an ``Authorization`` header identifies. Raises InvalidRequest for a malformed header,
        Unauthorized for a missing or unusable token, and Forbidden for a token of another scope."""
        text = token_of(authorization, required)
        digest = token.digest(text)
        return _in_scope(self._from_memory(text, digest, required) or self._look_up(digest, required), required)

    def admit_from_memory(self, authorization: str | None, required: Scope) -> Caller | None:
        """Like :meth:`admit`, but without the database. Returns None if only the database can decide."""
        text = token_of(authorization, required)
        caller = self._from_memory(text, token.digest(text), required)
        return caller and _in_scope(caller, required)

    def forget(self, identity: str | None = None) -> None:
        """Remove the token with this id, or all tokens, from the cache. If a look-up is running, its result is not
        cached either."""
        self._generation += 1
        for key, (caller, _) in list(self._cached.items()):
            if identity is None or caller.id == identity:
                self._cached.pop(key, None)

    def take_used(self) -> list[str]:
        """Returns the ids of the tokens that were used since the last call."""
        used, self._used = self._used, set()
        return sorted(used)

    def _from_memory(self, text: str, digest: bytes, required: Scope) -> Caller | None:
        """Returns the caller if the token is cached or is the administrator's secret. Raises Unauthorized if the
        token's checksum is wrong."""
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
        # If a revocation was received during the query, the query's result may be older than the revocation.
        if generation == self._generation:
            self._cache(digest, caller, began + min(self._cache_seconds, holder.seconds_left))
        return caller

    def _cache(self, digest: bytes, caller: Caller, until: float) -> None:
        if len(self._cached) >= _MAX_CACHED:
            self._cached.clear()
        self._cached[digest] = (caller, until)


def token_of(authorization: str | None, required: Scope) -> str:
    """Returns the token of an ``Authorization`` header. A repeated header is refused: waitress joins its values by a
    comma, and no token contains a comma."""
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

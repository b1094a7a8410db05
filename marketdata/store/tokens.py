"""Tokens as rows of ``api_tokens``: made, listed, revoked, rotated, recognised. The token itself is never kept.

Every function takes an open connection and leaves the transaction to its caller. A revocation is told on the channel
:data:`CHANNEL` with the token's id, and reaches listeners when the transaction commits.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.rows import class_row

from marketdata import token
from marketdata.errors import InvalidValue, NotFound

CHANNEL = "market_token_revoked"

_COLUMNS = "id::text AS id, name, scope, hint, created_at, expires_at, revoked_at, last_used_at"


@dataclass(frozen=True)
class Token:
    """A row without its secret."""

    id: str
    name: str
    scope: str
    hint: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None

    def as_json(self) -> dict[str, Any]:
        """Times as RFC 3339 in UTC, as the database keeps them."""
        return {name: each.isoformat() if isinstance(each, datetime) else each for name, each in asdict(self).items()}


@dataclass(frozen=True)
class Holder:
    """Whom a usable token belongs to, and for how many seconds more (infinite without an expiry)."""

    id: str
    name: str
    scope: str
    seconds_left: float


def create(
    conn: Connection[Any], name: str, scope: token.Scope, expires_at: datetime | None = None
) -> tuple[Token, str]:
    """A new token and its row; only here is the token itself ever seen."""
    text = token.generate()
    with conn.cursor(row_factory=class_row(Token)) as cursor:
        cursor.execute(
            "INSERT INTO api_tokens (name, scope, token_sha256, hint, expires_at) "
            f"SELECT %s, %s, %s, %s, %s WHERE %s::timestamptz IS NULL OR %s > now() RETURNING {_COLUMNS}",
            (name, scope, token.digest(text), token.hint(text), expires_at, expires_at, expires_at),
        )
        made = cursor.fetchone()
    if made is None:
        raise InvalidValue.of("/expires_at", "lies in the past")
    return made, text


def list_all(conn: Connection[Any]) -> list[Token]:
    """Every token, revoked ones too, in the order in which they were made."""
    with conn.cursor(row_factory=class_row(Token)) as cursor:
        return cursor.execute(f"SELECT {_COLUMNS} FROM api_tokens ORDER BY created_at, api_tokens.id").fetchall()


def revoke(conn: Connection[Any], identity: str) -> Token:
    """Make a token unusable for good; again is no error. :class:`NotFound` for an id that is none."""
    with conn.cursor(row_factory=class_row(Token)) as cursor:
        cursor.execute(
            "UPDATE api_tokens SET revoked_at = coalesce(revoked_at, now()) WHERE api_tokens.id::text = %s "
            f"RETURNING {_COLUMNS}",
            (identity,),
        )
        revoked = cursor.fetchone()
        if revoked is None:
            raise NotFound(
                f"there is no token with the id {identity[:80]!r}; its name is no id: list the tokens to see it",
                code="unknown_token",
            )
        cursor.execute("SELECT pg_notify(%s, %s)", (CHANNEL, revoked.id))
    return revoked


def rotate(conn: Connection[Any], identity: str) -> tuple[Token, str]:
    """Revoke a token and make one of the same name, scope and expiry; in one transaction there is always one."""
    old = revoke(conn, identity)
    return create(conn, old.name, "write" if old.scope == "write" else "read", old.expires_at)


def find(conn: Connection[Any], digest: bytes) -> Holder | None:
    """The holder of the usable token with this SHA-256; None for an unknown, expired or revoked one."""
    with conn.cursor(row_factory=class_row(Holder)) as cursor:
        return cursor.execute(
            "SELECT id::text AS id, name, scope, "
            "coalesce(extract(epoch FROM expires_at - now()), 'infinity')::float8 AS seconds_left "
            "FROM api_tokens WHERE token_sha256 = %s AND revoked_at IS NULL "
            "AND (expires_at IS NULL OR expires_at > now())",
            (digest,),
        ).fetchone()


def digest_of(conn: Connection[Any], identity: str) -> bytes | None:
    """The SHA-256 of the token with this id, usable or not; None when there is none."""
    row = conn.execute("SELECT token_sha256 FROM api_tokens WHERE id::text = %s", (identity,)).fetchone()
    return None if row is None else row[0]


def touch(conn: Connection[Any], identities: Sequence[str]) -> None:
    """Note that these tokens were used."""
    conn.execute("UPDATE api_tokens SET last_used_at = now() WHERE id::text = ANY(%s)", (list(identities),))


class Revocations:
    """A connection that hears of revocations. ``wait`` in one thread, ``wake`` and ``close`` from any."""

    def __init__(self, conn: Connection[Any]) -> None:
        """``conn`` is in autocommit mode and belongs to this object from now on."""
        self._conn = conn
        self._conn.execute(f"LISTEN {CHANNEL}")
        self._waker, self._wakened = socket.socketpair()

    def wait(self, seconds: float) -> list[str]:
        """The ids revoked since the last call, at most ``seconds`` later; ``OSError`` when the connection is gone."""
        try:
            found = [each.payload for each in self._conn.notifies(timeout=0)]
            if not found:
                select.select([self._conn.fileno(), self._wakened.fileno()], [], [], seconds)
                found = [each.payload for each in self._conn.notifies(timeout=0)]
        except (psycopg.Error, ValueError) as error:
            raise OSError("the connection that hears of revocations is gone") from error
        return found

    def wake(self) -> None:
        """Let a running ``wait`` return."""
        with suppress(OSError):
            self._waker.send(b".")

    def close(self) -> None:
        """Again is no error."""
        with suppress(psycopg.Error):
            self._conn.close()
        self._waker.close()
        self._wakened.close()

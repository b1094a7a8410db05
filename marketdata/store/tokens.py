"""Creates, lists, revokes, rotates and finds API tokens, the rows of ``api_tokens``. Only a token's hash is stored.

The functions take an open connection and leave transactions to their caller. A revocation notifies the channel
:data:`REVOKED` with the token's id; listeners get it when the transaction commits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from psycopg import Connection
from psycopg.rows import class_row

from marketdata import token
from marketdata.errors import InvalidValue, NotFound
from marketdata.store.pool import Pool

REVOKED = "market_token_revoked"

_COLUMNS = "id::text AS id, name, scope, hint, created_at, expires_at, revoked_at, last_used_at"


@dataclass(frozen=True)
class Token:
    """A row of ``api_tokens`` without ``token_sha256``."""

    id: str
    name: str
    scope: str
    hint: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None

    def as_json(self) -> dict[str, Any]:
        """The members for JSON; times are RFC 3339 in UTC."""
        return {name: each.isoformat() if isinstance(each, datetime) else each for name, each in asdict(self).items()}


@dataclass(frozen=True)
class ValidToken:
    """A token that is neither expired nor revoked; ``seconds_left`` is infinite if it has no expiry."""

    id: str
    name: str
    scope: str
    seconds_left: float


def create(
    conn: Connection[Any], name: str, scope: token.Scope, expires_at: datetime | None = None
) -> tuple[Token, str]:
    """Create a token. Returns its row and its text, which is not stored."""
    text = token.generate()
    with conn.cursor(row_factory=class_row(Token)) as cursor:
        cursor.execute(
            "INSERT INTO api_tokens (name, scope, token_sha256, hint, expires_at) "
            f"SELECT %s, %s, %s, %s, %s WHERE %s::timestamptz IS NULL OR %s > now() RETURNING {_COLUMNS}",
            (name, scope, token.digest(text), token.hint(text), expires_at, expires_at, expires_at),
        )
        made = cursor.fetchone()
    if made is None:
        raise InvalidValue.of("/expires_at", "must be in the future")
    return made, text


def list_all(conn: Connection[Any]) -> list[Token]:
    """Every token, revoked ones too, in the order of their creation."""
    with conn.cursor(row_factory=class_row(Token)) as cursor:
        return cursor.execute(f"SELECT {_COLUMNS} FROM api_tokens ORDER BY created_at, api_tokens.id").fetchall()


def revoke(conn: Connection[Any], identity: str) -> Token:
    """Revoke a token. A token that is already revoked stays as it is. Raises :class:`NotFound` (``unknown_token``) for
    an unknown id."""
    with conn.cursor(row_factory=class_row(Token)) as cursor:
        cursor.execute(
            "UPDATE api_tokens SET revoked_at = coalesce(revoked_at, now()) WHERE api_tokens.id::text = %s "
            f"RETURNING {_COLUMNS}",
            (identity,),
        )
        revoked = cursor.fetchone()
        if revoked is None:
            raise _unknown(identity)
        cursor.execute("SELECT pg_notify(%s, %s)", (REVOKED, revoked.id))
    return revoked


def rotate(conn: Connection[Any], identity: str) -> tuple[Token, str]:
    """Revoke a token and create one with the same name, scope and expiry. The caller provides the transaction."""
    old = revoke(conn, identity)
    return create(conn, old.name, "write" if old.scope == "write" else "read", old.expires_at)


def create_like(conn: Connection[Any], identity: str) -> tuple[Token, str]:
    """Create a token with the name, scope and expiry of another, which stays valid."""
    with conn.cursor(row_factory=class_row(Token)) as cursor:
        statement = f"SELECT {_COLUMNS} FROM api_tokens WHERE api_tokens.id::text = %s"
        like = cursor.execute(statement, (identity,)).fetchone()
    if like is None:
        raise _unknown(identity)
    return create(conn, like.name, "write" if like.scope == "write" else "read", like.expires_at)


def find(conn: Connection[Any], digest: bytes) -> ValidToken | None:
    """The valid token with this SHA-256; None when it is unknown, expired or revoked."""
    with conn.cursor(row_factory=class_row(ValidToken)) as cursor:
        return cursor.execute(
            "SELECT id::text AS id, name, scope, "
            "coalesce(extract(epoch FROM expires_at - now()), 'infinity')::float8 AS seconds_left "
            "FROM api_tokens WHERE token_sha256 = %s AND revoked_at IS NULL "
            "AND (expires_at IS NULL OR expires_at > now())",
            (digest,),
        ).fetchone()


def finder(pool: Pool) -> Callable[[bytes], ValidToken | None]:
    """Return a function that calls :func:`find` on a connection of ``pool``."""

    def find_on_pool(digest: bytes) -> ValidToken | None:
        with pool.connection() as connection:
            return find(connection, digest)

    return find_on_pool


def usable(conn: Connection[Any], identities: Collection[str]) -> set[str]:
    """The given ids without those of expired, revoked and unknown tokens."""
    rows = conn.execute(
        "SELECT id::text FROM api_tokens WHERE id::text = ANY(%s) AND revoked_at IS NULL "
        "AND (expires_at IS NULL OR expires_at > now())",
        (list(identities),),
    )
    return {identity for (identity,) in rows}


def is_usable(conn: Connection[Any], identity: str) -> bool:
    """Whether the token is neither expired nor revoked."""
    return bool(usable(conn, [identity]))


def digest_of(conn: Connection[Any], identity: str) -> bytes | None:
    """The SHA-256 of the token with this id, valid or not; None for an unknown id."""
    row = conn.execute("SELECT token_sha256 FROM api_tokens WHERE id::text = %s", (identity,)).fetchone()
    return None if row is None else row[0]


def touch(conn: Connection[Any], identities: Sequence[str]) -> None:
    """Set ``last_used_at`` of these tokens to now."""
    conn.execute("UPDATE api_tokens SET last_used_at = now() WHERE id::text = ANY(%s)", (list(identities),))


def _unknown(identity: str) -> NotFound:
    where = "bin/marketdata-token list (GET /v1/admin/tokens) shows the ids"
    detail = f"there is no token with the id {identity[:80]!r}: {where}"
    return NotFound(detail, code="unknown_token")

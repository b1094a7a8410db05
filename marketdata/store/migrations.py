"""The tables that all versions share, as append-only steps; ``market_migrations`` holds a row for each that ran.

A step that has shipped is never edited: databases in the field have run it. A change is a further step at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from marketdata.errors import StateError
from marketdata.store.pool import Connection

LOCK = 0x6D61726B6574
"""``market`` in ASCII: the advisory lock under which the schema changes, one at a time in each database."""

_REGISTER = """
CREATE TABLE IF NOT EXISTS market_migrations (
    step       integer PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""

_FIRST = """
CREATE TABLE api_tokens (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz,
    name         text NOT NULL,
    scope        text NOT NULL CHECK (scope IN ('read', 'write')),
    hint         text NOT NULL,
    token_sha256 bytea NOT NULL UNIQUE CHECK (octet_length(token_sha256) = 32)
);
COMMENT ON TABLE api_tokens IS 'Who may use the API. The token itself is never kept.';

CREATE TABLE market_versions (
    n                integer NOT NULL CHECK (n > 0),
    is_current       boolean NOT NULL DEFAULT false,
    created_at       timestamptz NOT NULL DEFAULT now(),
    prefix           text COLLATE "C" NOT NULL,
    ticks_table      text COLLATE "C" NOT NULL UNIQUE,
    candles_function text COLLATE "C" NOT NULL UNIQUE,
    state            text NOT NULL DEFAULT 'ready' CHECK (state IN ('ready', 'retired')),
    PRIMARY KEY (prefix, n)
);
CREATE UNIQUE INDEX market_versions_one_current ON market_versions (prefix) WHERE is_current;
COMMENT ON TABLE market_versions IS 'Versions of the data, side by side; the current one is served by default.';

CREATE TABLE market_aliases (
    alias  text COLLATE "C" PRIMARY KEY,
    symbol text COLLATE "C" NOT NULL,
    CHECK (alias <> symbol)
);
COMMENT ON TABLE market_aliases IS 'Other names of symbols, in every version.';

CREATE TABLE market_leases (
    fencing    bigint NOT NULL,
    expires_at timestamptz NOT NULL,
    name       text COLLATE "C" PRIMARY KEY,
    holder     text COLLATE "C" NOT NULL
);
COMMENT ON TABLE market_leases IS 'Who does what only one may do; fencing grows with every new holder.';
"""

STEPS: tuple[str, ...] = (_FIRST,)


def migrate(connection: Connection, steps: Sequence[str] = STEPS) -> int:
    """Bring the database to ``len(steps)``; returns how many steps this call ran.

    A step and its number are one transaction under the advisory lock, so callers at the same time follow one another
    and each step runs once. StateError, without a change, for a database that a newer program has migrated.
    """
    ran = 0
    while _next_step(connection, steps):
        ran += 1
    return ran


def _next_step(connection: Connection, steps: Sequence[str]) -> bool:
    with connection.transaction():
        lock(connection)
        connection.execute(_REGISTER)
        row = connection.execute("SELECT coalesce(max(step), 0) FROM market_migrations").fetchone()
        done = row[0] if row else 0
        if done > len(steps):
            raise StateError(
                f"the database has step {done} of the schema, this program knows {len(steps)}: a newer one has used "
                "it. Run that newer version, or name another database in DATABASE_URL",
                code="newer_schema",
            )
        if done == len(steps):
            return False
        connection.execute(steps[done])
        connection.execute("INSERT INTO market_migrations (step) VALUES (%s)", (done + 1,))
    return True


def lock(connection: Connection) -> None:
    """Wait until nobody else changes the schema; until the end of the transaction that is open here."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))

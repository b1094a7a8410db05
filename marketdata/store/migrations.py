"""Migrations of the tables that all versions share. ``market_migrations`` has a row for each applied step.

Existing databases have applied the present steps, so these never change: a change is a new step at the end. While the
restore of a backup is unfinished, migrations are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from marketdata.errors import StateError
from marketdata.store.pool import Connection

LOCK = 0x6D61726B6574
"""Key of the advisory lock that serialises schema changes in a database: ``market`` in ASCII."""

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
    shards           integer CHECK (shards > 0),
    PRIMARY KEY (prefix, n)
);
COMMENT ON COLUMN market_versions.shards IS 'Number of shards, if Citus distributes the version; null for a plain one.';
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

_COPIED = """
CREATE TABLE market_copied_retracted (
    source     text COLLATE "C" NOT NULL REFERENCES market_versions (ticks_table) ON DELETE CASCADE,
    target     text COLLATE "C" NOT NULL REFERENCES market_versions (ticks_table) ON DELETE CASCADE,
    symbol     text COLLATE "C" NOT NULL,
    block_hash text COLLATE "C" NOT NULL,
    PRIMARY KEY (source, target, symbol, block_hash)
);
COMMENT ON TABLE market_copied_retracted IS 'Retractions that a copy has carried from one version to another.';

CREATE TABLE market_copied_coverage (
    "from" timestamptz NOT NULL,
    "to"   timestamptz NOT NULL,
    source text COLLATE "C" NOT NULL REFERENCES market_versions (ticks_table) ON DELETE CASCADE,
    target text COLLATE "C" NOT NULL REFERENCES market_versions (ticks_table) ON DELETE CASCADE,
    symbol text COLLATE "C" NOT NULL,
    state  text COLLATE "C" NOT NULL,
    PRIMARY KEY (source, target, symbol, "from")
);
COMMENT ON TABLE market_copied_coverage IS 'Coverage that a copy has carried from one version to another.';
"""

STEPS: tuple[str, ...] = (_FIRST, _COPIED)


def migrate(connection: Connection, steps: Sequence[str] = STEPS) -> int:
    """Apply the steps that the database lacks; returns how many this call applied.

    One transaction, under the advisory lock, applies a step and stores its number. So each step runs once, even with
    several callers at once. Raises StateError if a newer release has applied further steps, or a restore is unfinished.
    """
    refuse_unfinished_restore(connection)
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
                f"the database has schema step {done}, this release knows {len(steps)}: a newer release has migrated "
                "it. Run that release, or set DATABASE_URL to another database",
                code="newer_schema",
            )
        if done == len(steps):
            return False
        connection.execute(steps[done])
        connection.execute("INSERT INTO market_migrations (step) VALUES (%s)", (done + 1,))
    return True


def lock(connection: Connection) -> None:
    """Lock the schema until the end of the current transaction."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))


# -- a restore: the table market_restore with one row -----------------------------------------------------------------
#
# A restore creates the table in the empty database before anything else. Its last transaction stores everything. While
# the restore runs, only the same restore may continue; other commands create nothing in the database. Then the tables
# are analyzed. The row stays, so that a repeated restore finds that it has nothing to do. A backup leaves it out.

RESTORE_TABLE = "market_restore"
RestoreState = Literal["running", "stored", "done"]


class Restore(NamedTuple):
    """The backup that is or was restored: its folder, and the SHA-256 of its manifest. ``stored``: the transaction has
    committed. ``done``: the tables are analyzed, too."""

    folder: str
    digest: str
    state: RestoreState = "running"


def begin_restore(connection: Connection, backup: Restore) -> None:
    with connection.transaction():
        connection.execute(
            "CREATE TABLE market_restore (folder text NOT NULL, digest text NOT NULL, state text NOT NULL)"
        )
        connection.execute("INSERT INTO market_restore VALUES (%s, %s, %s)", backup)


def record_restore(connection: Connection, state: RestoreState) -> None:
    """Record how far the restore is. Call this in the transaction that completes this state."""
    connection.execute("UPDATE market_restore SET state = %s", (state,))


def last_restore(connection: Connection) -> Restore | None:
    """The restore into this database, or None."""
    row = connection.execute("SELECT to_regclass('market_restore') IS NOT NULL").fetchone()
    if row != (True,):
        return None
    found = connection.execute("SELECT folder, digest, state FROM market_restore").fetchone()
    return None if found is None else Restore(*found)


def refuse_unfinished_restore(connection: Connection) -> None:
    """Raise StateError while a restore has not ended."""
    if (found := last_restore(connection)) is not None and found.state == "running":
        raise StateError(
            f"the restore of {found.folder} into this database has not ended: wait for it, or, if it was interrupted, "
            f"run bin/marketdata-restore {found.folder} again",
            code="restoring",
        )

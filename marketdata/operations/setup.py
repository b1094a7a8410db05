"""Sets up a database: the shared tables and roles (``bin/marketdata-init``), a version with its settings file
(``bin/marketdata-version N``), or everything that the API needs at its first start."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import psycopg
from psycopg import sql

from marketdata import secretfile
from marketdata.errors import StateError, UsageError, VersionMissing
from marketdata.graphql.engine import READER
from marketdata.operations import Say
from marketdata.operations.credential_files import make_token_files
from marketdata.settings import Settings, declared
from marketdata.store import migrations, shards
from marketdata.store.pool import Connection
from marketdata.store.version import Registered, Version, register, registered

FIRST_PORT = 8787
"""The default port of the API. The API of version N has a port that is N - 1 higher."""

_READABLE = ("ticks", "rollups", "symbols", "chains", "retracted", "pruned", "coverage", "candle")
READER_LIMITS = {"statement_timeout": "60s", "temp_file_limit": "1GB"}
"""What a reader may take up: the time of a statement, and the temporary files of a session."""
_REVOKED = {
    "temporary tables": "TEMPORARY ON DATABASE {}",
    "large objects": "EXECUTE ON FUNCTION lo_creat(integer), lo_create(oid), lo_from_bytea(oid, bytea)",
}
_WANTING = """
    SELECT name FROM unnest(ARRAY['statement_timeout', 'temp_file_limit']) AS name
    WHERE NOT EXISTS (
        SELECT FROM pg_db_role_setting CROSS JOIN unnest(setconfig) AS entry
        WHERE setrole = %(reader)s::regrole AND starts_with(entry, name || '='))
    UNION ALL SELECT 'temporary tables' WHERE has_database_privilege('public', current_database(), 'TEMPORARY')
    UNION ALL SELECT 'large objects' WHERE has_function_privilege('public', 'lo_create(oid)', 'EXECUTE')"""
TRIGGER_FUNCTIONS = ("ticks_guard", "rollups_insert", "rollups_delete")


def prepare(connection: Connection, settings: Settings, say: Say) -> None:
    """Create what is missing: the shared tables, version 1 if there is no version, and files with a read and a write
    token. The API calls this at each start on its private cluster. Several processes may do so at once."""
    initialise(connection, say)
    if not registered(connection, settings.prefix):
        make_version(connection, settings, 1, say)
    make_token_files(connection, settings.secrets_dir, say)


def initialise(connection: Connection, say: Say, reader: str = READER) -> None:
    """Apply the migrations that the database lacks and create the role of readers."""
    shards.refuse_worker(connection)
    applied = migrations.migrate(connection)
    say(f"schema: {applied} step{'s' if applied != 1 else ''} applied" if applied else "schema: up to date")
    say(_create_reader(connection, reader))
    if unlimited := _limit_reader(connection, reader):
        say(f"role {reader}: this login may not limit its {', '.join(unlimited)}")


def _create_reader(connection: Connection, reader: str) -> str:
    """Create the reader role if needed; returns what was done. Roles belong to the whole server, so an operation on
    another database may create the role at the same time."""
    if _has_role(connection, reader):
        return f"role {reader}: already exists"
    try:
        with connection.transaction():  # if the caller has a transaction, an error undoes only this statement
            connection.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(reader)))
    except (psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
        return f"role {reader}: already exists"
    except psycopg.errors.InsufficientPrivilege:
        return (
            f"role {reader}: not created, this login lacks the privilege; programs that read by SQL or GraphQL need it "
            f"(CREATE ROLE {reader})"
        )
    return f"role {reader}: created"


def _limit_reader(connection: Connection, reader: str) -> list[str]:
    """Give the reader's statements limits, and take from PUBLIC what lets a reader write; returns what this login may
    not change. Limits that somebody has set stay."""
    if not _has_role(connection, reader):
        return []
    with connection.transaction():
        migrations.lock(connection)
        for name, limit in READER_LIMITS.items():
            if name in _wanting(connection, reader):
                statement = sql.SQL("ALTER ROLE {} SET {} = {}")
                _attempt(connection, statement.format(sql.Identifier(reader), sql.Identifier(name), limit))
        for name, target in _REVOKED.items():
            if name in _wanting(connection, reader):
                database = sql.Identifier(connection.info.dbname)
                _attempt(connection, sql.SQL("REVOKE {} FROM PUBLIC").format(sql.SQL(target).format(database)))
        return _wanting(connection, reader)


def _wanting(connection: Connection, reader: str) -> list[str]:
    """The limits of the reader that are not in force."""
    return [name for (name,) in connection.execute(_WANTING, {"reader": reader}).fetchall()]


def _attempt(connection: Connection, statement: sql.Composed) -> None:
    """Change the role or a privilege, if this login may. Operations on other databases may change the role at the same
    time."""
    with (
        contextlib.suppress(psycopg.errors.InsufficientPrivilege, psycopg.errors.InternalError_),
        connection.transaction(),
    ):
        connection.execute(statement)


def _has_role(connection: Connection, name: str) -> bool:
    return connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (name,)).fetchone() is not None


def make_version(
    connection: Connection, settings: Settings, n: int, say: Say, shard_count: int | None = None
) -> Version:
    """Create version ``n`` of the prefix, unless it exists, and write its settings file into the state directory. If
    the file cannot be written, no change of the database is committed. With ``shard_count``, Citus distributes the
    version over as many shards."""
    version = replace(Version.of(settings.prefix, n), shards=shard_count)
    path = settings_file(settings, n)
    secretfile.make_folder(settings.state_dir, "MARKET_STATE_DIR")
    with contextlib.ExitStack() as after_commit, connection.transaction():
        done, version = make_tables(connection, version)
        before, text = _settings_file(path, version)
        if text != before:
            after_commit.enter_context(secretfile.replaced(path, text))
    say(f"version {n}: {done}")
    say(f"{path}: written" if text != before else f"{path}: up to date")
    return version


def make_tables(connection: Connection, version: Version) -> tuple[str, Version]:
    """Create the version, unless it exists, and grant the privileges. Returns what was done, and the version. The
    settings file is not written."""
    with connection.transaction():
        migrations.lock(connection)
        done, version = _create_or_check(connection, version)
        # An existing version may lack the privileges, because it is older than the role, or was restored.
        _grant(connection, [*(version.name(part) for part in _READABLE), "market_aliases"])
        _reserve(connection, [version.name(part) for part in TRIGGER_FUNCTIONS])
    return done, version


def _grant(connection: Connection, tables: list[str]) -> None:
    """Let the reader role, if it exists, read these tables."""
    if _has_role(connection, READER):
        names = sql.SQL(", ").join(map(sql.Identifier, tables))
        connection.execute(sql.SQL("GRANT SELECT ON {} TO {}").format(names, sql.Identifier(READER)))


def _reserve(connection: Connection, trigger_functions: list[str]) -> None:
    """Allow only their owner to attach these functions to a table; existing triggers work for everybody.

    Every role may create a temporary table. If a role could attach these functions to it, they would run as their owner
    and process the rows of the temporary table as ticks.
    """
    names = sql.SQL(", ").join(sql.SQL("{}()").format(sql.Identifier(name)) for name in trigger_functions)
    connection.execute(sql.SQL("REVOKE EXECUTE ON FUNCTION {} FROM PUBLIC").format(names))


def settings_file(settings: Settings, n: int) -> Path:
    """The settings file of version ``n``: ``vN.env``, or ``<prefix>-vN.env`` if the prefix is not the default."""
    is_default = settings.prefix == declared()["prefix"].default
    return settings.state_dir / (f"v{n}.env" if is_default else f"{settings.prefix}-v{n}.env")


def _create_or_check(connection: Connection, version: Version) -> tuple[str, Version]:
    """Create the version, or check the existing one; returns what was done, and the version."""
    known = {each.n: each.version for each in registered(connection, version.prefix)}
    if version.n not in known:
        entry = _create(connection, version)
        current = "; it is the current version" if entry.is_current else ""
        created = f"created {version.ticks_table} and {version.candles_function}"
        return f"{created}{_distributed(connection, version)}{current}", version
    existing = known[version.n]
    if version.shards not in (None, existing.shards):
        now = f"{existing.shards} shards" if existing.shards else "no shards"
        raise UsageError(
            f"--shards {version.shards}: version {version.n} exists and has {now}. Create another version with "
            f"--shards {version.shards}, and carry the data over with bin/marketdata-copy"
        )
    _check(connection, existing)
    if existing.shards is not None:
        shards.create_functions(connection, existing)
    exists = f"{existing.ticks_table} and {existing.candles_function} already exist"
    return f"{exists}{_distributed(connection, existing)}", existing


def _distributed(connection: Connection, version: Version) -> str:
    if version.shards is None:
        return ""
    placed = shards.placed(connection, version)
    return f", {len(placed)} shards on {len({each.node for each in placed})} nodes"


def _create(connection: Connection, version: Version) -> Registered:
    if version.shards is not None:
        shards.require_citus(connection)
    try:
        connection.execute(version.script(), prepare=False)
    except (psycopg.errors.DuplicateTable, psycopg.errors.DuplicateFunction) as error:
        raise StateError(
            f"{error.diag.message_primary}, but no version {version.n} with the prefix {version.prefix} is registered: "
            "remove or rename it, or choose another MARKET_PREFIX"
        ) from error
    if version.shards is not None:
        shards.distribute(connection, version)
    return register(connection, version)


def _check(connection: Connection, version: Version) -> None:
    try:
        version.check(connection)
    except VersionMissing as error:
        raise StateError(
            f"version {version.n} is registered but incomplete: {error.detail}. Restore it from a backup; or, if its "
            f"data are not needed, delete its row from market_versions and its remaining tables, and create it again"
        ) from error


def _own_port(n: int) -> list[str]:
    """The lines that let this version's API run beside the API of version 1, which has the default port."""
    port = FIRST_PORT + n - 1
    if n == 1 or port > 65535:
        return []
    return [
        "# The port of this version's API, at which its ingestor finds it, too.",
        f"MARKET_API_PORT={port}",
    ]


def _settings_file(path: Path, version: Version) -> tuple[str | None, str]:
    """Return the present text of the file (None if it does not exist) and the new text. The new text keeps the lines
    that somebody has added."""
    ours = {
        "MARKET_PREFIX": version.prefix,
        "TICKS_TABLE": version.ticks_table,
        "CANDLES_FUNCTION": version.candles_function,
    }
    before: str | None = None
    lines = [
        f"# Settings of version {version.n}: bin/marketdata-api --env-file {path}",
        "# etc/marketdata.env lists all settings.",
        *_own_port(version.n),
    ]
    try:
        before = path.read_text(encoding="utf-8")
        lines = before.splitlines()
    except FileNotFoundError:
        pass
    except (OSError, UnicodeDecodeError) as error:
        raise StateError(f"{path} cannot be read: {error}") from error
    kept = [line for line in lines if line.partition("=")[0].strip() not in ours]
    return before, "\n".join([*kept, *(f"{name}={value}" for name, value in ours.items())]) + "\n"

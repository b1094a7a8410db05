"""``bin/marketdata-version N``: the tables and functions of version N, and its settings file."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psycopg

from marketdata import secretfile
from marketdata.errors import StateError, VersionMissing
from marketdata.operations.database import Say, grant, reserve
from marketdata.settings import Settings
from marketdata.store import migrations
from marketdata.store.pool import Connection
from marketdata.store.version import Registered, Version, register, registered

FIRST_PORT = 8787
"""The default port of the API; that of version N is N - 1 higher."""

_READABLE = ("ticks", "rollups", "symbols", "retracted", "coverage", "candle")
TRIGGER_FUNCTIONS = ("ticks_guard", "rollups_insert", "rollups_delete")


def make_version(connection: Connection, settings: Settings, n: int, say: Say) -> Version:
    """Create version ``n`` of the prefix, unless it exists, and write ``vN.env`` into the state directory. Nothing is
    committed when the file cannot be written."""
    version = Version.of(settings.prefix, n)
    path = settings_file(settings, n)
    secretfile.make_folder(settings.state_dir, "MARKET_STATE_DIR")
    with contextlib.ExitStack() as after_commit, connection.transaction():
        done = make_tables(connection, version)
        before, text = _settings_file(path, version)
        if text != before:
            after_commit.enter_context(secretfile.replaced(path, text))
    say(f"version {n}: {done}")
    say(f"{path}: written" if text != before else f"{path}: up to date")
    return version


def make_tables(connection: Connection, version: Version) -> str:
    """Create the version, unless it exists, with the privileges on it; returns what was done. Its settings file stays
    as it is."""
    with connection.transaction():
        migrations.lock(connection)
        done = _create_or_check(connection, version)
        # Also for an existing version: it may be older than the role, and a restored one lacks privileges.
        grant(connection, [*(version.name(part) for part in _READABLE), "market_aliases"])
        reserve(connection, [version.name(part) for part in TRIGGER_FUNCTIONS])
    return done


def settings_file(settings: Settings, n: int) -> Path:
    """The settings file of version ``n``."""
    return settings.state_dir / f"v{n}.env"


def _create_or_check(connection: Connection, version: Version) -> str:
    """What was done, in words."""
    known = {each.n: each.version for each in registered(connection, version.prefix)}
    if version.n not in known:
        entry = _create(connection, version)
        current = "; it is the current version" if entry.is_current else ""
        return f"created {version.ticks_table} and {version.candles_function}{current}"
    _check(connection, known[version.n])
    return f"{version.ticks_table} and {version.candles_function} already exist"


def _create(connection: Connection, version: Version) -> Registered:
    try:
        connection.execute(version.script(), prepare=False)
    except (psycopg.errors.DuplicateTable, psycopg.errors.DuplicateFunction) as error:
        raise StateError(
            f"{error.diag.message_primary}, but no version {version.n} with the prefix {version.prefix} is registered: "
            "remove or rename it, or choose another MARKET_PREFIX"
        ) from error
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
    """The lines that let the API of a version run beside that of version 1, which has the default port."""
    port = FIRST_PORT + n - 1
    if n == 1 or port > 65535:
        return []
    return [
        "# The port of this version's API, and where its ingestor finds it.",
        f"MARKET_API_PORT={port}",
        f"API_UPSTREAM=http://127.0.0.1:{port}",
    ]


def _settings_file(path: Path, version: Version) -> tuple[str | None, str]:
    """The text of the file (None when there is none), and the text that it must have; lines that were added stay."""
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

"""``bin/marketdata-version N``: the tables and functions of version N, and its settings file."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg

from marketdata.bootstrap.database import Say, grant
from marketdata.errors import StateError, VersionMissing
from marketdata.settings import Settings
from marketdata.store import migrations, registry
from marketdata.store.pool import Connection
from marketdata.store.version import Version

_READABLE = ("ticks", "rollups", "symbols", "retracted", "coverage", "candle")


def make_version(connection: Connection, settings: Settings, n: int, say: Say) -> Version:
    """Make version ``n`` of the prefix where it is not there yet, and write ``vN.env`` into the state directory."""
    version = Version.of(settings.prefix, n)
    with connection.transaction():
        migrations.lock(connection)
        known = {each.n: each for each in registry.registered(connection, settings.prefix)}
        if n in known:
            _check(connection, known[n].version)
            say(f"version {n}: there already ({version.ticks_table}, {version.candles_function})")
        else:
            entry = _make(connection, version)
            current = "; it is the current one" if entry.is_current else ""
            say(f"version {n}: made {version.ticks_table} and {version.candles_function}{current}")
        # Also for one that was made before the role was.
        grant(connection, [*(version.name(part) for part in _READABLE), "market_aliases"])
    path = settings.state_dir / f"v{n}.env"
    say(f"{path}: written" if _write_settings(path, version) else f"{path}: up to date")
    return version


def _make(connection: Connection, version: Version) -> registry.Registered:
    try:
        connection.execute(version.script(), prepare=False)
    except (psycopg.errors.DuplicateTable, psycopg.errors.DuplicateFunction) as error:
        raise StateError(
            f"{error.diag.message_primary}, and no version {version.n} with the prefix {version.prefix} is registered: "
            "remove or rename it, or choose another MARKET_PREFIX"
        ) from error
    return registry.register(connection, version)


def _check(connection: Connection, version: Version) -> None:
    try:
        version.check(connection)
    except VersionMissing as error:
        raise StateError(
            f"version {version.n} is registered, yet incomplete: {error.detail}. Restore it from a backup; or, if its "
            f"data are not needed, DELETE its row from market_versions and what is left of it, and make it anew"
        ) from error


def _write_settings(path: Path, version: Version) -> bool:
    """Write the file unless it says just that; its own further lines stay. True when it was written."""
    ours = {
        "MARKET_PREFIX": version.prefix,
        "TICKS_TABLE": version.ticks_table,
        "CANDLES_FUNCTION": version.candles_function,
    }
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        lines = [
            f"# Settings of version {version.n}: bin/marketdata-api --env-file {path}",
            "# What else can be set stands in etc/vN.env.example.",
        ]
    kept = [line for line in lines if line.partition("=")[0].strip() not in ours]
    text = "\n".join([*kept, *(f"{name}={value}" for name, value in ours.items())]) + "\n"
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return False
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    os.chmod(fresh, 0o600)  # who adds DATABASE_URL adds a password
    fresh.replace(path)
    return True

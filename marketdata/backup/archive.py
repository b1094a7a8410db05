"""The folder of a backup: chooses the files, copies them at one moment, checks them, and puts them back."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from marketdata import file_system
from marketdata.backup.exchange import sync
from marketdata.errors import StateError, UsageError
from marketdata.secretfile import make_folder
from marketdata.settings import Settings
from marketdata.store.pool import Connection, connect
from marketdata.store.version import Version, distributed

DUMP, MANIFEST, STATE, SECRETS = "database.dump", "manifest.json", "state", "secrets"
FORMAT = 1
_LEAST_BYTES = 64 << 10
"""A program that writes to a full file system may have left a block free."""

_STATE_FILES = ("v*.env", "*-v*.env", "demo/chain.json")
_OUTBOXES = ("ingestor/*.sqlite", "demo/*.sqlite")

LOCK_S, TRIES = 3, 10
"""Seconds of an attempt to lock the writers out, and number of attempts. An attempt is short: while it waits for the
end of one long write, all other writers wait behind it."""

_NAME = "marketdata-backup"
_VERSIONS = "SELECT ticks_table, candles_function FROM market_versions WHERE to_regclass(ticks_table) IS NOT NULL"


@contextmanager
def moment(url: str, copy: Callable[[], None]) -> Iterator[str]:
    """Call ``copy`` while nothing is written, then yield the name of a snapshot of the database at this moment.

    An ingestor removes an item from its outbox when the API has stored it. If the outbox were copied after the
    database, such an item could be in neither copy. If the outbox were copied before the database, the copied database
    could hold blocks that the copied outbox does not know. The ingestor would not retract these blocks after a
    reorganisation. So both are copied at the same moment, and writers wait for some milliseconds.
    """
    with connect(url, application_name=_NAME) as reader:
        reader.execute("SET idle_in_transaction_session_timeout = 0")  # pg_dump may take hours
        with connect(url, application_name=_NAME) as locker, locker.transaction():
            _hold_writers(locker)
            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            row = reader.execute("SELECT pg_export_snapshot()").fetchone()
            copy()
        assert row is not None
        yield str(row[0])
        reader.execute("ROLLBACK")


def _hold_writers(connection: Connection) -> None:
    """Make writers wait until the caller's transaction ends. Every write of ticks first writes a row of the symbols
    table, so a lock on this table stops it."""
    versions = [Version.from_names(*row) for row in connection.execute(_VERSIONS).fetchall()]
    tables = [each.name(part) for part in ("symbols", "coverage") for each in versions]
    if not tables:
        return
    statement = sql.SQL("LOCK TABLE {} IN SHARE MODE").format(sql.SQL(", ").join(map(sql.Identifier, tables)))
    connection.execute(f"SET LOCAL lock_timeout = '{LOCK_S}s'")
    for _ in range(TRIES):
        try:
            with connection.transaction():
                connection.execute(statement)
            return
        except psycopg.errors.LockNotAvailable:
            continue
    raise StateError(f"a write has been running for over {LOCK_S * TRIES} s: make the backup when it has ended")


def refuse_distributed(connection: Connection) -> None:
    """Raise StateError if a version is distributed. Its ticks are on several nodes, and a dump is of one."""
    if tables := distributed(connection):
        raise StateError(
            f"{', '.join(tables)}: Citus distributes this version over nodes, and a backup is of one database. Archive "
            "the WAL of all nodes, make base backups of them with pg_basebackup, and name the moments that can be "
            "restored with SELECT citus_create_restore_point('NAME') on the coordinator. Or go back to a plain version "
            "with bin/marketdata-copy and -cutover, and remove this one with bin/marketdata-drop"
        )


def outboxes(settings: Settings) -> list[Path]:
    """The SQLite files of the ingestors. They must be copied at the same moment as the database."""
    return [path for pattern in _OUTBOXES for path in sorted(settings.state_dir.glob(pattern))]


def other_files(settings: Settings) -> dict[str, Path]:
    """The other files of a backup, by their path in the backup."""
    found = [path for pattern in _STATE_FILES for path in sorted(settings.state_dir.glob(pattern))]
    named = {f"{STATE}/{path.relative_to(settings.state_dir)}": path for path in found}
    return named | {f"{SECRETS}/{path.name}": path for path in sorted(settings.secrets_dir.glob("*.json"))}


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder beside ``target``. If the block succeeds, sync it and rename it to ``target``. If it
    failed and the file system has no room, StateError says so, whatever failed first."""
    if target.exists() or target.is_symlink():
        raise UsageError(f"{target} already exists: name a new folder for each backup")
    partial = target.parent / f".{target.name}.{secrets.token_hex(4)}.part"
    with _translated(target):
        partial.mkdir(mode=0o700)
        try:
            yield partial
            for folder, _folders, files in os.walk(partial):
                for name in (*files, "."):
                    sync(Path(folder, name))
            partial.rename(target)
            sync(target.parent)
        except BaseException as error:
            is_full = file_system.free_bytes(target.parent) < _LEAST_BYTES
            shutil.rmtree(partial, ignore_errors=True)
            if is_full and isinstance(error, Exception):
                raise StateError(f"{file_system.named(target.parent)} is full: no room for {target}") from error
            raise


def add(source: Path, target: Path) -> None:
    """Copy a file into the backup, readable by its owner alone."""
    with _translated(target):
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with source.open("rb") as content, open(target, "xb", opener=_private) as file:
            shutil.copyfileobj(content, file)


def write_manifest(folder: Path, about: Mapping[str, Any]) -> None:
    """Write the manifest. It is the last file, so a folder that has one is complete."""
    files = {str(path.relative_to(folder)): _digest(path) for path in sorted(folder.rglob("*")) if path.is_file()}
    with open(folder / MANIFEST, "x", encoding="utf-8", opener=_private) as file:
        json.dump({"format": FORMAT, **about, "files": files}, file, indent=1)


def identity(folder: Path) -> str:
    """The SHA-256 of the manifest, which lists the SHA-256 of every other file."""
    return _digest(folder / MANIFEST)


def checked(folder: Path) -> list[str]:
    """Check every file of a backup against the manifest, and return their names. Raises UsageError if the folder is not
    a backup, and StateError if a file is missing or was changed."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        made, files = manifest["format"], dict(manifest["files"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{folder} is not a backup of the market data: {MANIFEST} cannot be read ({error})") from error
    if made != FORMAT:
        raise UsageError(f"{folder} has the format {made}, this release reads {FORMAT}: use the release that made it")
    for name, digest in files.items():
        if not _is_name(name):
            raise UsageError(f"{folder / MANIFEST} names a file outside the backup: {name}")
        with suppress(OSError):
            if _digest(folder / name) == digest:
                continue
        raise StateError(f"{folder / name} is missing or was changed after the backup: restore another backup")
    return sorted(files)


def places(settings: Settings, names: list[str]) -> dict[str, Path]:
    """The path to which each file of a backup is restored, by its name in the backup."""
    roots = {STATE: settings.state_dir, SECRETS: settings.secrets_dir}
    parts = {name: name.partition("/") for name in names if name != DUMP}
    return {name: roots[root] / rest for name, (root, _, rest) in parts.items()}


def refuse_different(folder: Path, targets: Mapping[str, Path]) -> None:
    """Raises StateError when one of the files exists already with another content."""
    for name, target in targets.items():
        if target.exists() and _digest(target) != _digest(folder / name):
            raise StateError(
                f"{target} exists with another content, and a restore replaces nothing: move it away, or set "
                "MARKET_STATE_DIR to an empty folder"
            )


def put_back(folder: Path, targets: Mapping[str, Path]) -> None:
    """Restore the files that do not exist yet. Each file is restored completely or not at all, so the call can be
    repeated."""
    for name, target in targets.items():
        make_folder(target.parent, "MARKET_SECRETS_DIR" if name.startswith(SECRETS) else "MARKET_STATE_DIR")
        for leftover in target.parent.glob(f".{glob.escape(target.name)}.*.part"):  # left by a killed restore
            leftover.unlink()
        if target.exists():
            continue
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        try:
            add(folder / name, temporary)
            with _translated(target):
                sync(temporary)
                os.link(temporary, target)  # fails if the file was created meanwhile
                sync(target.parent)
        finally:
            temporary.unlink(missing_ok=True)


def _is_name(name: str) -> bool:
    root, slash, rest = name.partition("/")
    if name == DUMP:
        return True
    return root in (STATE, SECRETS) and bool(slash and rest) and ".." not in name.split("/")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


@contextmanager
def _translated(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StateError(f"{target} cannot be written: {error.strerror or error}") from error

"""The folder of a backup: which files belong to it, at which moment they are copied, and how they are written, checked
and put back."""

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

from marketdata.backup.exchange import sync
from marketdata.errors import StateError, UsageError
from marketdata.secretfile import make_folder
from marketdata.settings import Settings
from marketdata.store.pool import Connection, connect
from marketdata.store.version import Version

DUMP, MANIFEST, STATE, SECRETS = "database.dump", "manifest.json", "state", "secrets"
FORMAT = 1

_STATE_FILES = ("v*.env", "demo/chain.json")
_OUTBOXES = ("ingestor/*.sqlite", "demo/*.sqlite")

LOCK_S, TRIES = 3, 10
"""While this waits for a long write to end, other writers wait behind it."""

_NAME = "marketdata-backup"
_VERSIONS = "SELECT ticks_table, candles_function FROM market_versions WHERE to_regclass(ticks_table) IS NOT NULL"


@contextmanager
def moment(url: str, copy: Callable[[], None]) -> Iterator[str]:
    """Call ``copy`` while nothing is written. The block gets the name of a snapshot of the database at that moment.

    An ingestor removes an item from its outbox when the API has stored it. If the outbox were copied after the
    database, such an item could be in neither. If it were copied before, the database could hold blocks that the
    ingestor does not know, and would not retract after a reorganisation. So writers wait for some milliseconds.
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
    """Until the caller's transaction ends. Every write of ticks begins with the table of symbols."""
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


def outboxes(settings: Settings) -> list[Path]:
    """The SQLite files of the ingestors, which are copied in the same moment as the database."""
    return [path for pattern in _OUTBOXES for path in sorted(settings.state_dir.glob(pattern))]


def other_files(settings: Settings) -> dict[str, Path]:
    """The path in the backup of each other file that belongs to it."""
    found = [path for pattern in _STATE_FILES for path in sorted(settings.state_dir.glob(pattern))]
    named = {f"{STATE}/{path.relative_to(settings.state_dir)}": path for path in found}
    return named | {f"{SECRETS}/{path.name}": path for path in sorted(settings.secrets_dir.glob("*.json"))}


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A temporary folder beside ``target`` that gets this name when the block succeeds, and is on the disk then."""
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
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise


def add(source: Path, target: Path) -> None:
    """Copy a file into the backup, readable by its owner alone."""
    with _translated(target):
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with source.open("rb") as content, open(target, "xb", opener=_private) as file:
            shutil.copyfileobj(content, file)


def write_manifest(folder: Path, about: Mapping[str, Any]) -> None:
    """The last file: a folder with it is complete."""
    files = {str(path.relative_to(folder)): _digest(path) for path in sorted(folder.rglob("*")) if path.is_file()}
    with open(folder / MANIFEST, "x", encoding="utf-8", opener=_private) as file:
        json.dump({"format": FORMAT, **about, "files": files}, file, indent=1)


def identity(folder: Path) -> str:
    """The SHA-256 of the manifest, which lists the SHA-256 of every other file."""
    return _digest(folder / MANIFEST)


def checked(folder: Path) -> list[str]:
    """The names of the files of a backup, each of which is unchanged. UsageError when the folder is no backup,
    StateError when a file is missing or was changed."""
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
    """Where each file of a backup belongs. StateError when another one is there: a restore replaces nothing."""
    roots = {STATE: settings.state_dir, SECRETS: settings.secrets_dir}
    parts = {name: name.partition("/") for name in names if name != DUMP}
    return {name: roots[root] / rest for name, (root, _, rest) in parts.items()}


def refuse_different(folder: Path, targets: Mapping[str, Path]) -> None:
    """StateError when a file is there already with another content."""
    for name, target in targets.items():
        if target.exists() and _digest(target) != _digest(folder / name):
            raise StateError(
                f"{target} exists with another content, and a restore replaces nothing: move it away, or set "
                "MARKET_STATE_DIR to an empty folder"
            )


def put_back(folder: Path, targets: Mapping[str, Path]) -> None:
    """Copy the files that are not there yet, each complete or not at all, so that it can be repeated."""
    for name, target in targets.items():
        make_folder(target.parent, "MARKET_SECRETS_DIR" if name.startswith(SECRETS) else "MARKET_STATE_DIR")
        for left in target.parent.glob(f".{glob.escape(target.name)}.*.part"):  # of a restore that was killed
            left.unlink()
        if target.exists():
            continue
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        try:
            add(folder / name, temporary)
            with _translated(target):
                sync(temporary)
                os.link(temporary, target)  # fails when somebody made it meanwhile
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

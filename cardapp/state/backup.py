"""Backup and restore of the stored state: the database and the images that its events pin.

A backup is a folder with the SQLite database in the file ``card-state`` and the images in the folder ``evidence/``. The
service may run during a backup. The database is copied first, in one snapshot, then the images. An image is complete
before its row is written, and it is never changed. So every image that the snapshot names can still be copied.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from cardapp import private_directories
from cardapp.errors import NotFound, StateError, UsageError
from cardapp.state import events, evidence
from cardapp.state.database import read_only
from cardapp.state.events import Verification
from cardapp.state.sqlite_errors import translating

DATABASE, EVIDENCE = "card-state", "evidence"


def backup(database: Path, evidence_dir: Path, target: Path) -> Verification:
    """Write a backup to the folder ``target``. Returns whether the copied record of events is intact.

    The folder has a temporary name until all files are complete and on the disk.

    :raises UsageError: ``target`` exists.
    :raises StateError: the database is damaged, or the database or the target cannot be used.
    """
    if target.exists() or target.is_symlink():
        raise UsageError(f"{target} already exists: name a new folder for each backup")
    with _writing(target):
        partial = target.parent / f".{target.name}.{secrets.token_hex(4)}.part"
        partial.mkdir(mode=0o700)
        try:
            (partial / EVIDENCE).mkdir(mode=0o700)
            names = _copy_database(database, partial / DATABASE)
            _refuse_damaged(partial / DATABASE, f"no backup was made of {database}; keep the earlier backups")
            for name in names:
                _copy_image(evidence_dir, partial / EVIDENCE, name)
            report = events.verify_file(partial / DATABASE, evidence_root=partial / EVIDENCE)
            _sync(partial / EVIDENCE)
            _sync(partial)
            partial.rename(target)
            _sync(target.parent)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    return report


def restore(source: Path, database: Path, evidence_dir: Path) -> Verification:
    """Restore the backup ``source``. Returns whether its record of events is intact. The service must not run.

    Nothing that exists is replaced. The database is written last, so that an interrupted restore can be repeated.

    :raises UsageError: ``source`` is no backup.
    :raises StateError: the database exists already, or the backup is damaged.
    """
    if not (source / DATABASE).is_file():
        raise UsageError(f"{source} is not a backup of the card application: it has no file {DATABASE}")
    refuse_existing(database)
    _refuse_damaged(source / DATABASE, "restore another backup")
    report = events.verify_file(source / DATABASE, evidence_root=source / EVIDENCE)
    private_directories.make_directory(evidence_dir.parent, "CARD_STATE_DIR")
    private_directories.make_directory(evidence_dir, "CARD_STATE_DIR")
    private_directories.make_directory_of_file(database.parent, "CARD_STATE_DATABASE")
    with _writing(database.parent):
        for name in sorted(os.listdir(source / EVIDENCE)):
            if evidence.NAME.fullmatch(name):
                evidence.store(evidence_dir, evidence.load(source / EVIDENCE, name))
        _place(source / DATABASE, database)
    return report


def refuse_existing(database: Path) -> None:
    """Raise an error if the database or its WAL exists, because SQLite would apply an old WAL to a new database.

    :raises StateError: one of the files exists.
    """
    for path in (database, Path(f"{database}-wal"), Path(f"{database}-shm")):
        if path.exists() or path.is_symlink():
            raise StateError(
                f"{path} exists, and a restore replaces nothing: stop the service and move the state directory away, "
                "or set CARD_STATE_DIR to an empty one"
            )


def _copy_database(database: Path, target: Path) -> list[str]:
    """Copy one snapshot of the database. Returns the names of the images that it pins."""
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    with read_only(database) as source, translating(target), closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
        # Without WAL the copy is one file and can be read on a read-only medium. The service switches WAL on again.
        copy.execute("PRAGMA journal_mode = DELETE")
        rows = copy.execute("SELECT DISTINCT name FROM evidence ORDER BY name").fetchall()
    _sync(target)
    return [name for (name,) in rows]


def _copy_image(root: Path, target: Path, name: str) -> None:
    """Copy one image. A missing image is left out; the verification of the record reports it."""
    try:
        data = evidence.load(root, name)
    except NotFound:
        return
    with open(target / name, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _refuse_damaged(database: Path, remedy: str) -> None:
    """Raise StateError if a page of the file is damaged. The hashes of the events do not cover all pages."""
    with read_only(database) as connection:
        found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(1)")]
    if found != ["ok"]:
        raise StateError(f"the database {database} is damaged ({found[0].splitlines()[0]}): {remedy}")


def _place(source: Path, target: Path) -> None:
    """Copy ``source`` to a temporary file, then make ``target`` a hard link to it. This fails if ``target`` was created
    meanwhile, so nothing is replaced."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with open(temporary, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            with source.open("rb") as content:
                shutil.copyfileobj(content, file)
            file.flush()
            os.fsync(file.fileno())
        refuse_existing(target)
        os.link(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    _sync(target.parent)


@contextmanager
def _writing(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StateError(f"{place} cannot be written: {error.strerror or error}; nothing was replaced") from error


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

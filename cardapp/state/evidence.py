"""Pictures pinned to events: the files, named by their content, and the rows that pin them.

A file is on the disk, wholly and under its final name, before its row is written. So a crash leaves at most a file
without a row: a temporary one is removed at the next start, a whole one waits for the same picture to be sent again.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cardapp import private
from cardapp.errors import NotFound, StateError
from cardapp.state.images import inspect

NAME = re.compile(r"[0-9a-f]{64}\.(png|jpg)")
_TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.part")
_CODES = {
    errno.ENOSPC: "state_disk_full",
    errno.EDQUOT: "state_disk_full",
    errno.EROFS: "state_read_only",
    errno.EACCES: "state_read_only",
    errno.EPERM: "state_read_only",
}
_MEDIA_TYPES = {"png": "image/png", "jpg": "image/jpeg"}


@dataclass(frozen=True)
class Stored:
    """A picture on the disk. ``name`` is its SHA-256 in hex and .png or .jpg, ``size`` in bytes, sides in pixels."""

    name: str
    media_type: str
    size: int
    width: int
    height: int

    @property
    def sha256(self) -> str:
        return self.name.partition(".")[0]


# -- files ---------------------------------------------------------------------------------------------------------


def store(root: Path, data: bytes) -> Stored:
    """Check the picture (see ``images.inspect`` for the refusals), write it and sync it and its directory.

    A picture that is there already is not written again. The caller has bounded the size of ``data``.
    """
    image = inspect(data)
    name = f"{hashlib.sha256(data).hexdigest()}.{image.extension}"
    target = root / name
    try:
        _make_private(root)
        if target.is_symlink() or not target.is_file() or target.read_bytes() != data:
            _write(root, target, data)
    except OSError as error:
        raise StateError(
            f"The picture could not be written to {root}: {error.strerror}. Free some space, or make it writable.",
            code=_CODES.get(error.errno or 0, "state_io_error"),
        ) from error
    return Stored(name, image.media_type, len(data), image.width, image.height)


def path(root: Path, name: str) -> Path:
    """Where the picture of this name lies. NotFound for any other kind of name, a missing file and a symlink."""
    place = root / name
    if NAME.fullmatch(name) is None or root.is_symlink() or place.is_symlink() or not place.is_file():
        raise NotFound(f"There is no evidence {name[:80]!r}. The events list the names that there are.")
    return place


def load(root: Path, name: str) -> bytes:
    """The picture's bytes; NotFound as ``path``."""
    try:
        descriptor = os.open(path(root, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise NotFound(f"The evidence {name} cannot be read: {error.strerror}.") from error
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def media_type(name: str) -> str:
    """``image/png`` or ``image/jpeg``, by the extension of a valid name."""
    return _MEDIA_TYPES[name.rpartition(".")[2]]


def sweep(root: Path, conn: sqlite3.Connection) -> list[str]:
    """At start, before anything is uploaded: remove temporary files; the names of pinned pictures that are missing.

    A whole picture without a row stays: it is what its name says, does no harm, and may belong to another database.
    """
    _make_private(root)
    found = set(os.listdir(root))
    for name in filter(_TEMPORARY.fullmatch, found):
        (root / name).unlink()
    pinned = [row["name"] for row in conn.execute("SELECT DISTINCT name FROM evidence ORDER BY name")]
    return [name for name in pinned if name not in found]


def _make_private(root: Path) -> None:
    if private.make_directory(root, "CARD_STATE_DIR"):
        _sync_directory(root.parent)


def _write(root: Path, target: Path, data: bytes) -> None:
    """Under a temporary name, synced, then renamed; the directory last, so that the name outlives a power cut."""
    temporary = root / f".{secrets.token_hex(8)}.part"
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags | os.O_CLOEXEC, 0o600)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        _sync_directory(root)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# -- rows ----------------------------------------------------------------------------------------------------------


def add(conn: sqlite3.Connection, stored: Stored, *, seq: int, event_seq: int, caption: str, at: str) -> None:
    """Pin a stored picture to event ``event_seq``; ``seq`` is its own ``evidence.added`` event.

    Use ``events.pin``, which appends that event too.
    """
    conn.execute(
        "INSERT INTO evidence (seq, event_seq, name, media_type, size, width, height, caption, at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            seq,
            event_seq,
            stored.name,
            stored.media_type,
            stored.size,
            stored.width,
            stored.height,
            caption,
            at,
        ),
    )


def for_events(conn: sqlite3.Connection, seqs: Sequence[int]) -> dict[int, list[dict[str, Any]]]:
    """Event seq to its pictures {name, media_type, size, width, height, caption, at}, in the order they were pinned."""
    pinned: dict[int, list[dict[str, Any]]] = {}
    rows = conn.execute(
        "SELECT * FROM evidence WHERE event_seq IN (SELECT value FROM json_each(?)) ORDER BY event_seq, seq",
        (json.dumps(list(seqs)),),
    )
    for row in rows:
        shown = {name: row[name] for name in ("name", "media_type", "size", "width", "height", "caption", "at")}
        pinned.setdefault(row["event_seq"], []).append(shown)
    return pinned


def faults(conn: sqlite3.Connection, root: Path | None) -> Iterator[tuple[int, str]]:
    """(seq, what is wrong) where a row differs from its ``evidence.added`` event, which the chain protects; with
    ``root`` also where the file is missing or is not what its name says."""
    rows = conn.execute(
        "SELECT event.seq AS at_seq, event.data, evidence.* FROM event LEFT JOIN evidence ON evidence.seq = event.seq "
        "WHERE event.kind = 'evidence.added' ORDER BY event.seq"
    )
    for row in rows:
        said = json.loads(row["data"])
        if row["name"] is None:
            yield row["at_seq"], f"the row of the evidence that entry {row['at_seq']} added was taken out"
        elif (row["name"], row["caption"], row["event_seq"]) != (
            said.get("name"),
            said.get("caption"),
            said.get("event_seq") or row["seq"],
        ):
            yield row["seq"], f"the evidence row of entry {row['seq']} is not what that entry says"
        elif root is not None and not _whole(root, row["name"]):
            yield row["seq"], f"the picture {row['name']} is missing or was changed"
    stray = "SELECT seq FROM evidence WHERE seq NOT IN (SELECT seq FROM event WHERE kind = 'evidence.added')"
    for row in conn.execute(stray):
        yield row["seq"], f"an evidence row was added beside entry {row['seq']}"


def _whole(root: Path, name: str) -> bool:
    try:
        return hashlib.sha256(load(root, name)).hexdigest() == name.partition(".")[0]
    except NotFound:
        return False

"""Evidence: images that are pinned to events. The name of an image file is the SHA-256 of its content. A row in the
database pins the image to an event.

A file is complete on the disk, under its final name, before its row is written. So a crash leaves at most a temporary
file or a complete file without a row. The next start removes the temporary file. The complete file is used if the same
image is uploaded again.
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

from cardapp import private_directories
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
    """A stored image. ``name`` is its SHA-256 in hex, followed by .png or .jpg. ``size`` is in bytes, width and height
    are in pixels."""

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
    """Check the image with ``images.inspect``, which raises an error if the image is invalid. Then write it durably.

    If the same image is stored already, nothing is written. The caller limits the size of ``data``.
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
            f"the image cannot be written to {root}: {error.strerror}; free disk space or make the directory writable",
            code=_CODES.get(error.errno or 0, "state_io_error"),
        ) from error
    return Stored(name, image.media_type, len(data), image.width, image.height)


def path(root: Path, name: str) -> Path:
    """The path of the image ``name``. :raises NotFound: the name is invalid, or there is no such regular file."""
    place = root / name
    if NAME.fullmatch(name) is None or root.is_symlink() or place.is_symlink() or not place.is_file():
        raise NotFound(f"there is no evidence {name[:80]!r}; GET /api/events lists the names")
    return place


def load(root: Path, name: str) -> bytes:
    """The bytes of the image ``name``. :raises NotFound: :func:`path` does not find it, or it cannot be read."""
    try:
        descriptor = os.open(path(root, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise NotFound(f"the evidence {name} cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def media_type(name: str) -> str:
    """``image/png`` or ``image/jpeg``, by the suffix of a valid name."""
    return _MEDIA_TYPES[name.rpartition(".")[2]]


def sweep(root: Path, conn: sqlite3.Connection) -> list[str]:
    """Remove temporary files and return the names of pinned images whose file is missing. Call it before any upload.

    A complete image without a row is kept: it may belong to another database.
    """
    _make_private(root)
    found = set(os.listdir(root))
    for name in filter(_TEMPORARY.fullmatch, found):
        (root / name).unlink()
    pinned = [row["name"] for row in conn.execute("SELECT DISTINCT name FROM evidence ORDER BY name")]
    return [name for name in pinned if name not in found]


def _make_private(root: Path) -> None:
    if private_directories.make_directory(root, "CARD_STATE_DIR"):
        _sync_directory(root.parent)


def _write(root: Path, target: Path, data: bytes) -> None:
    """Write and sync a temporary file, rename it, and sync the directory. Then the file and its name survive a power
    failure."""
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
    """Insert the row that pins an image to the event ``event_seq``. ``seq`` is the number of the ``evidence.added``
    event that records this.

    Callers use ``events.pin``, which also appends the ``evidence.added`` event.
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


_SHOWN = ("seq", "name", "media_type", "size", "width", "height", "caption", "at")


def for_events(conn: sqlite3.Connection, seqs: Sequence[int]) -> dict[int, list[dict[str, Any]]]:
    """The images ``{seq, name, media_type, size, width, height, caption, at}`` by the event to which they are pinned,
    in the order of pinning. ``seq`` is that of the ``evidence.added`` event."""
    pinned: dict[int, list[dict[str, Any]]] = {}
    rows = conn.execute(
        "SELECT * FROM evidence WHERE event_seq IN (SELECT value FROM json_each(?)) ORDER BY event_seq, seq",
        (json.dumps(list(seqs)),),
    )
    for row in rows:
        shown = {name: row[name] for name in _SHOWN}
        pinned.setdefault(row["event_seq"], []).append(shown)
    return pinned


def faults(conn: sqlite3.Connection, root: Path | None) -> Iterator[tuple[int, str]]:
    """Compare the rows with their ``evidence.added`` events, whose content is protected by the hashes. Yield the
    ``seq`` and a message for each row that differs. If ``root`` is given, also yield them for each row whose file is
    missing or does not match its name."""
    rows = conn.execute(
        "SELECT event.seq AS at_seq, event.data, evidence.* FROM event LEFT JOIN evidence ON evidence.seq = event.seq "
        "WHERE event.kind = 'evidence.added' ORDER BY event.seq"
    )
    for row in rows:
        data = json.loads(row["data"])
        if row["name"] is None:
            yield row["at_seq"], f"the evidence row of event {row['at_seq']} was removed"
        elif (row["name"], row["caption"], row["event_seq"]) != (
            data.get("name"),
            data.get("caption"),
            data.get("event_seq") or row["seq"],
        ):
            yield row["seq"], f"the evidence row of event {row['seq']} differs from the event"
        elif root is not None and not _is_intact(root, row["name"]):
            yield row["seq"], f"the image {row['name']} is missing or was changed"
    stray = "SELECT seq FROM evidence WHERE seq NOT IN (SELECT seq FROM event WHERE kind = 'evidence.added')"
    for row in conn.execute(stray):
        yield row["seq"], f"an evidence row was added for event {row['seq']}, which is not evidence.added"


def _is_intact(root: Path, name: str) -> bool:
    try:
        return hashlib.sha256(load(root, name)).hexdigest() == name.partition(".")[0]
    except NotFound:
        return False

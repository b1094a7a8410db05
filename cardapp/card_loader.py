"""Loads the served card, reloads it when its source file changes, and computes the revision of the card's files."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cardapp.card.catalog import Catalog
from cardapp.card.model import Card, Identity
from cardapp.card.source import LoadedCard, load_card, read_regular
from cardapp.errors import InvalidCard
from cardapp.settings import TEMPLATES

FileStatus = tuple[int, int, int, int, int]
"""(mtime_ns, ctime_ns, size, inode, device). A change of a file's content also changes at least one of these values."""


@dataclass(frozen=True)
class ServedCard:
    """A card with its catalog. ``path`` is its source file; ``files`` are the files that its revision covers."""

    card: Card
    catalog: Catalog
    identity: Identity
    path: Path
    files: tuple[Path, ...]

    def sources(self) -> dict[str, list[str]]:
        """The lines of the target's source files as they are now."""
        return LoadedCard(self.card, self.identity, self.path).sources()

    def macros(self) -> set[str]:
        """The function-like macros that the target's files define as they are now."""
        return LoadedCard(self.card, self.identity, self.path).macros()


class CardLoader:
    """The card of the service, for use by any thread. A file is read again only after its status changed.

    While the source file is invalid, for example because an author saved unfinished work, the last valid card stays in
    use and ``fault`` says what is wrong. Checkpoints are rejected meanwhile, because they compare the file's SHA-256.

    ``chosen`` returns the source file of the card to serve, if there is a series of cards (CARD_SERIES). If it returns
    None, the same card is served as before.
    """

    def __init__(self, source: Path, chosen: Callable[[], Path | None] = lambda: None) -> None:
        loaded = load_card(chosen() or source)
        self._path = loaded.path
        self._chosen = chosen
        self._lock = threading.Lock()
        self._seen = self._path, file_status(self._path)
        self._current = served(loaded)
        self._digests: dict[Path, tuple[FileStatus | None, str]] = {}
        self.fault: str | None = None

    @property
    def path(self) -> Path:
        return self._path

    def current(self) -> ServedCard:
        """The last valid version of the card, reloaded if its source file changed or another card was chosen."""
        path = self._chosen() or self._path
        seen = path, file_status(path)
        with self._lock:
            if seen != self._seen:
                self._seen = seen
                try:
                    self._current = served(load_card(path))
                    self._path = path
                    self.fault = None
                except InvalidCard as error:
                    self.fault = error.detail
            return self._current

    def source_sha256(self) -> str:
        """The SHA-256 of the source file in hex; "" if the file is missing. Each call reads the file. The checks of a
        checkpoint cannot rely on the file's time, because two quick writes may leave the same time."""
        return _sha256(self._path)

    def source_version(self) -> tuple[FileStatus | None, str]:
        """The status of the source file and its SHA-256. The status differs also after a change that was undone."""
        return file_status(self._path), self.source_sha256()

    def source_digest(self) -> str:
        """The same as ``source_sha256``, but the file is read only if its status has changed. Used for polling."""
        return self.digest(self._path)

    def digest(self, path: Path) -> str:
        """The SHA-256 of a file in hex; "" if it is missing. The file is read only if its status has changed."""
        return self._digest(path)[1]

    def revision(self) -> dict[str, str]:
        """``{revision, changed_at}`` of the card source, its layout file and the target's code files.

        The revision is a hash of the files' contents. It does not change if only the time of a file changes.
        ``changed_at`` is the newest of the files' times.
        """
        digests = [(path, *self._digest(path)) for path in self.current().files]
        combined = hashlib.sha256("\n".join(f"{path.name} {digest}" for path, _, digest in digests).encode())
        newest = max((status[0] for _, status, _ in digests if status is not None), default=0)
        changed_at = datetime.fromtimestamp(newest / 1e9, UTC).isoformat(timespec="milliseconds")
        return {"revision": combined.hexdigest()[:16], "changed_at": changed_at.replace("+00:00", "Z")}

    def _digest(self, path: Path) -> tuple[FileStatus | None, str]:
        status = file_status(path)
        with self._lock:
            cached = self._digests.get(path)
        if cached is not None and cached[0] == status:
            return cached
        digest = _sha256(path)
        with self._lock:
            self._digests[path] = (status, digest)
        return status, digest


def served(loaded: LoadedCard) -> ServedCard:
    """The card with its catalog and the files of its revision."""
    card = loaded.card
    layout = TEMPLATES / f"{card.layout}.json"  # even if it is missing: when it is made, the revision changes
    files = (loaded.path, layout, *(loaded.target_directory / name for name in card.target.sources))
    return ServedCard(card, Catalog(card), loaded.identity, loaded.path, files)


def _sha256(path: Path) -> str:
    raw = read_regular(path)
    return hashlib.sha256(raw).hexdigest() if raw is not None else ""


def file_status(path: Path) -> FileStatus | None:
    """The status of the file; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev

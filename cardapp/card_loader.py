"""The card that is served, read again when its file changes on the disk, and the revision of all its files."""

from __future__ import annotations

import hashlib
import os
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cardapp.card.catalog import Catalog
from cardapp.card.model import Card, Identity
from cardapp.card.source import LoadedCard, load_card, read_regular
from cardapp.errors import InvalidCard
from cardapp.settings import TEMPLATES

_Mark = tuple[int, int, int, int]


@dataclass(frozen=True)
class ServedCard:
    """A card with its catalog; ``path`` is its source file, ``files`` all whose change a page must know of."""

    card: Card
    catalog: Catalog
    identity: Identity
    path: Path
    files: tuple[Path, ...]


class CardLoader:
    """The one card of the service. Threads may ask at any time; a file is read only when its mark changed.

    While the file on the disk is not a valid card, the last valid one is served on (an author saves half-done work),
    and ``fault`` says what is wrong. Checkpoints compare the file's own SHA-256, so they are refused meanwhile.
    """

    def __init__(self, source: Path) -> None:
        loaded = load_card(source)
        self._path = loaded.path
        self._lock = threading.Lock()
        self._mark = _mark(self._path)
        self._current = _served(loaded)
        self._digests: dict[Path, tuple[_Mark | None, str]] = {}
        self.fault: str | None = None

    @property
    def path(self) -> Path:
        return self._path

    def current(self) -> ServedCard:
        """The card as the disk has it now."""
        mark = _mark(self._path)
        with self._lock:
            if mark != self._mark:
                self._mark = mark
                try:
                    self._current = _served(load_card(self._path))
                    self.fault = None
                except InvalidCard as error:
                    self.fault = error.detail
            return self._current

    def source_sha256(self) -> str:
        """The SHA-256 of the source file as it lies on the disk, read anew each time: a guard must not trust a file's
        times, whose grain is coarser than two quick writes. "" when the file is gone."""
        return _sha256(self._path)

    def source_digest(self) -> str:
        """The same, read again only when the file's times or size changed: for those who look all the time."""
        return self._digest(self._path)[1]

    def revision(self) -> dict[str, str]:
        """``{revision, changed_at}`` over the source, its layout file and the target's code files.

        The revision is made of the files' contents, so touching a file or checking it out again changes nothing.
        """
        marks = [(path, *self._digest(path)) for path in self.current().files]
        seal = hashlib.sha256("\n".join(f"{path.name} {digest}" for path, _, digest in marks).encode())
        newest = max((mark[0] for _, mark, _ in marks if mark is not None), default=0)
        changed_at = datetime.fromtimestamp(newest / 1e9, UTC).isoformat(timespec="milliseconds")
        return {"revision": seal.hexdigest()[:16], "changed_at": changed_at.replace("+00:00", "Z")}

    def _digest(self, path: Path) -> tuple[_Mark | None, str]:
        mark = _mark(path)
        with self._lock:
            known = self._digests.get(path)
        if known is not None and known[0] == mark:
            return known
        digest = _sha256(path)
        with self._lock:
            self._digests[path] = (mark, digest)
        return mark, digest


def _served(loaded: LoadedCard) -> ServedCard:
    card = loaded.card
    layout = TEMPLATES / f"{card.layout}.json"  # whether it is there or not: a page must know when it appears
    files = (loaded.path, layout, *(loaded.target_directory / name for name in card.target.sources))
    return ServedCard(card, Catalog(card), loaded.identity, loaded.path, files)


def _sha256(path: Path) -> str:
    raw = read_regular(path)
    return hashlib.sha256(raw).hexdigest() if raw is not None else ""


def _mark(path: Path) -> _Mark | None:
    """What changes whenever a file's content may have: (mtime, ctime, size, inode); None when there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino

"""Keeps the parsed content of a file, and reads the file again after it has changed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from marketdata.errors import MissingRequirement, StateError

Content = TypeVar("Content")


class ReloadingFile(Generic[Content]):
    """Calling the object returns the current content, parsed by ``load``, or raises the error of ``load``.
    Thread-safe."""

    def __init__(self, path: Path, load: Callable[[Path], Content]) -> None:
        self._path = path
        self._load = load
        self._lock = threading.Lock()
        self._held: tuple[tuple[int, ...], Content] | None = None

    def __call__(self) -> Content:
        try:
            status = self._path.stat()
        except FileNotFoundError as error:
            raise MissingRequirement(f"{self._path} does not exist") from error
        except OSError as error:
            raise StateError(f"{self._path} cannot be read: {error.strerror}") from error
        seen = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
        with self._lock:
            if self._held is None or self._held[0] != seen:
                self._held = None
                self._held = seen, self._load(self._path)
            return self._held[1]

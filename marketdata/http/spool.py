"""Keeps one large request body at a time in a file instead of in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

from marketdata import file_system
from marketdata.errors import DiskFull, MarketError, Saturated, StorageUnavailable


def _unnamed_file(folder: Path) -> BinaryIO:
    # Without a buffer each write reports a full disk at once.
    return TemporaryFile(dir=folder, buffering=0)


def _refusal(folder: Path, error: OSError) -> MarketError:
    if file_system.is_full(error):
        return DiskFull(f"{file_system.named(folder)} is full: the body cannot be kept in a file")
    return StorageUnavailable(f"the body cannot be kept in a file: {error.strerror or error}")


class Spool:
    """A body in a file without a name, so a killed process leaves nothing. waitress calls ``append``, ``getfile`` and
    ``close``. ``released`` is called when the spool is closed, which may be called repeatedly."""

    def __init__(self, folder: Path, file: BinaryIO, limit: int, released: Callable[[], None]) -> None:
        """``limit`` is the maximum size of the body in bytes, and ``folder`` that of the file."""
        self.limit = limit
        self._folder = folder
        self._file = file
        self._released = released
        self._size = 0
        self._is_closed = False

    def __len__(self) -> int:
        return self._size

    def append(self, data: bytes) -> None:
        """Raises OSError, for example when the disk is full."""
        self._size += len(data)
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]

    def refusal(self, error: OSError) -> MarketError:
        """The error for a client whose body could not be written."""
        return _refusal(self._folder, error)

    def getfile(self) -> Any:
        self._file.seek(0)
        return self._file

    def is_of(self, file: Any) -> bool:
        return file is self._file

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._file.close()
            self._released()


class Spools:
    """Hands out one spool at a time. ``folder`` is for the files, which ``open_file`` makes."""

    def __init__(self, folder: Path, open_file: Callable[[Path], BinaryIO] = _unnamed_file) -> None:
        self._folder = folder
        self._open_file = open_file
        self._turn = threading.Lock()
        self._spool: Spool | None = None
        self.is_ending = False
        """Whether the process is ending, and work on a large body should stop soon."""

    def take(self, limit: int) -> Spool:
        """Raises :class:`Saturated` while another body has the turn, and :class:`DiskFull` or
        :class:`StorageUnavailable` without a file."""
        self._take_turn()
        try:
            spool = Spool(self._folder, self._open_file(self._folder), limit, self._end_turn)
        except OSError as error:
            self._end_turn()
            raise _refusal(self._folder, error) from error
        self._spool = spool
        return spool

    @contextmanager
    def turn_of(self, body: Any) -> Iterator[None]:
        """Take the turn while ``body`` is read. If it is the file of the present spool, it has the turn already. The
        turn ends before the response, so that the client may send the next body at once."""
        spool = self._spool
        if spool is None or not spool.is_of(body):
            self._take_turn()
            spool = None
        try:
            yield
        finally:
            if spool is not None:
                spool.close()
            else:
                self._end_turn()

    def _take_turn(self) -> None:
        if not self._turn.acquire(blocking=False):
            raise Saturated("another large body is being received or stored; send this one when that has ended")

    def _end_turn(self) -> None:
        self._spool = None
        self._turn.release()

"""A folder tree that a session's programs may change while its files are written.

A program in a container could replace a folder or a file by a link, to make this process write elsewhere. So each path
is opened folder by folder from the tree's root, and no link is followed.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cardapp.source_tree import names_its_build

Stamp = list[Any]
"""The size, modification time and change time of a file, or the text of a link. If the stamp is the same, the file
counts as unchanged."""

PARTIAL = ".fetching"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a pipe must not wait for its writer.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20


def stamp_of(status: os.stat_result, text: str | None = None) -> Stamp:
    """The stamp of a file, or, if ``text`` is given, of a link to ``text``."""
    return [text] if text is not None else [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


class CopiedTree:
    """The tree at ``path``, which is created if it does not exist. Close it after use.

    Names are paths in the tree, with ``/``. Methods raise ``OSError``, also if a link has replaced a folder.
    """

    def __init__(self, path: Path) -> None:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._top = os.open(path, _FOLDER)
        self._last: tuple[str, int] | None = None

    def close(self) -> None:
        self._forget()
        os.close(self._top)

    # -- reading -----------------------------------------------------------------------------------------------------

    def stamp(self, name: str) -> Stamp | None:
        """The stamp of a file or a link; None if there is neither."""
        try:
            folder, base = self._place(name)
            status = os.stat(base, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                return [os.readlink(base, dir_fd=folder)]
        except OSError:
            return None
        return stamp_of(status) if stat.S_ISREG(status.st_mode) else None

    def read(self, name: str) -> Iterator[bytes]:
        """The content of a file in pieces of equal size, except the last piece."""
        folder, base = self._place(name)
        with open(os.open(base, _READ, dir_fd=folder), "rb", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(0, "it is no regular file")
            yield from pieces(file.fileno())

    # -- writing -----------------------------------------------------------------------------------------------------

    def copy(self, source: str, name: str, status: os.stat_result, *, new: bool, keep_time: bool) -> Stamp:
        """Copy the file ``source`` of this ``status``. A killed copy leaves no incomplete file, unless it is ``new``.

        With ``keep_time`` the copy has the time of ``source``. A compiled file gets an old time, so that make compiles
        it again.
        """
        mode = stat.S_IMODE(status.st_mode) & 0o755 | 0o600
        with open(os.open(source, _READ), "rb", buffering=0) as file, self._written(name, mode, new=new) as out:
            begin = b""
            for piece in pieces(file.fileno()):
                begin = begin or piece[:8]
                _write(out, piece)
            if names_its_build(name, begin):
                os.utime(out, (0, 0))
            elif keep_time:
                os.utime(out, ns=(status.st_mtime_ns, status.st_mtime_ns))
            if new:
                return stamp_of(os.fstat(out))
        return self.stamp(name) or [None]  # the renaming changed it

    def write(self, name: str, content: bytes) -> None:
        """Replace the file ``name``; a reader sees the old or the new content."""
        with self._written(name, 0o600, new=False) as out:
            _write(out, content)

    def link(self, text: str, name: str) -> None:
        folder, base = self._place(name, make=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(base + PARTIAL, dir_fd=folder)
        os.symlink(text, base + PARTIAL, dir_fd=folder)
        os.replace(base + PARTIAL, base, src_dir_fd=folder, dst_dir_fd=folder)

    def set_mode(self, name: str, mode: int) -> None:
        folder, base = self._place(name)
        file = os.open(base, _READ, dir_fd=folder)
        try:
            os.fchmod(file, mode & 0o755 | 0o600)
        finally:
            os.close(file)

    def rename(self, name: str, base: str) -> None:
        """Rename a file within its folder."""
        folder, old = self._place(name)
        os.replace(old, base, src_dir_fd=folder, dst_dir_fd=folder)

    def remove(self, name: str) -> None:
        folder, base = self._place(name)
        os.unlink(base, dir_fd=folder)

    @contextmanager
    def _written(self, name: str, mode: int, *, new: bool) -> Iterator[int]:
        """A descriptor to write the file with. Unless it is ``new``, the file gets its name when its content is
        complete."""
        folder, base = self._place(name, make=True)
        written = base if new else base + PARTIAL
        if not new:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(written, dir_fd=folder)
        out = os.open(written, _WRITE, mode, dir_fd=folder)
        try:
            yield out
        finally:
            os.close(out)
        if not new:
            os.replace(written, base, src_dir_fd=folder, dst_dir_fd=folder)

    # -- folders -----------------------------------------------------------------------------------------------------

    def _place(self, name: str, *, make: bool = False) -> tuple[int, str]:
        """The descriptor of the folder of ``name``, and the name within this folder. If names are used in sorted order,
        each folder is opened once."""
        folder, _, base = name.rpartition("/")
        if not folder:
            return self._top, base
        if self._last is None or self._last[0] != folder:
            opened = self._opened(folder, make=make)
            self._forget()
            self._last = (folder, opened)
        return self._last[1], base

    def _opened(self, folder: str, *, make: bool) -> int:
        at = self._top
        try:
            for part in folder.split("/"):
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, 0o700, dir_fd=at)
                below = os.open(part, _FOLDER, dir_fd=at)
                if at != self._top:
                    os.close(at)
                at = below
        except OSError:
            if at != self._top:
                os.close(at)
            raise
        return at

    def _forget(self) -> None:
        if self._last is not None:
            os.close(self._last[1])
            self._last = None


def pieces(file: int) -> Iterator[bytes]:
    while piece := os.read(file, _CHUNK):
        yield piece


def _write(file: int, content: bytes) -> None:
    while content:
        content = content[os.write(file, content) :]

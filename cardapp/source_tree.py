"""The files of a card's sources that a session copies: those that git tracks or does not ignore."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from cardapp.card.model import Target
from cardapp.card.source import LoadedCard

MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
"""The names of a makefile, in the order in which make looks for it."""
CMAKE_CACHE = "CMakeCache.txt"
"""CMake writes this file to a build tree and refuses the tree in any other place."""


def copied_files(loaded: LoadedCard, without: Sequence[Path] = ()) -> dict[str, os.stat_result]:
    """The files and links that a session copies: their paths relative to the card's root, sorted, and their status.

    In a git work tree these are the files that git tracks or does not ignore. Without git, or in a folder that git
    ignores, these are all files. The program and CMake's cache are left out, because the session builds its own; so are
    the folders ``without``, absolute paths.
    """
    program = PurePath(os.path.relpath(loaded.target_directory / loaded.card.target.program, loaded.root)).as_posix()
    skipped = tuple(f"{path.relative_to(loaded.root)}/" for path in without if path.is_relative_to(loaded.root))
    found = ((name, status) for name, status in files_of(loaded.root) if name != program)
    return dict(sorted((name, status) for name, status in found if not name.startswith(skipped)))


def files_of(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The paths of the files and links of ``root``, relative to it, with their status. CMake's cache is left out."""
    top = f"{root}{os.sep}"
    return ((name, status) for name, status in _files(top, "") if name.rpartition("/")[2] != CMAKE_CACHE)


def _files(top: str, below: str) -> Iterator[tuple[str, os.stat_result]]:
    """The files in the folder ``below`` of ``top``. Git names a submodule and a nested work tree as one entry."""
    listed = git(top + below, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if not listed or listed == b"./\0":  # git gives the second answer in a submodule that was not fetched
        yield from _walked(top, below)
        return
    for raw in set(listed.split(b"\0")) - {b""}:
        name = below + os.fsdecode(raw).rstrip("/")
        try:
            status = os.lstat(top + name)
        except OSError:  # git also names a tracked file that was removed
            continue
        if stat.S_ISDIR(status.st_mode):
            yield from _files(top, f"{name}/")
        else:
            yield name, status


def _walked(top: str, below: str) -> Iterator[tuple[str, os.stat_result]]:
    folders = [below]
    while folders:
        folder = folders.pop()
        with os.scandir(top + folder) as entries:
            for entry in entries:
                if entry.name == ".git":
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(f"{folder}{entry.name}/")
                else:
                    yield folder + entry.name, entry.stat(follow_symlinks=False)


def edited_files(target: Target) -> tuple[str, ...]:
    """The files that people edit, relative to the target's directory. A file that does not exist yet is made by the
    build."""
    return (*target.sources, *MAKEFILES)


def names_its_build(name: str, begin: bytes) -> bool:
    """Whether the file ``name``, which begins with ``begin``, was compiled. Its debug information names the folder of
    that build, so a copy must be compiled again."""
    return name.endswith((".lo", ".la", ".d")) or begin.startswith((b"\x7fELF", b"!<arch>", b"!<thin>"))


def root_fault(loaded: LoadedCard) -> str | None:
    """The fault of the card's root: it is not a folder, or it is above the git work tree of the card. None if there is
    no fault."""
    if not loaded.root.is_dir():
        field = "directory" if loaded.card.target.root is None else "root"
        return f"the folder {loaded.root} does not exist; target.{field} in the card's source names it"
    found = git(loaded.path.parent, "rev-parse", "--show-toplevel")
    top = None if found is None else Path(os.fsdecode(found).rstrip("\n"))
    if top is not None and top != loaded.root.resolve() and top.is_relative_to(loaded.root.resolve()):
        return f"target.root names {loaded.root}, which lies above the repository {top}: name that folder or one in it"
    return None


def git(folder: str | Path, *arguments: str) -> bytes | None:
    """The output of git in the work tree of ``folder``; None if it failed, or if it is not installed."""
    # A git hook sets variables that name another work tree. Without optional locks, git status writes nothing.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        ended = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            env=environment | {"GIT_OPTIONAL_LOCKS": "0"},
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    return ended.stdout if ended.returncode == 0 else None

"""Builds the program of an existing repository in a copy of the repository, to find out how to build it.

The repository itself is not changed. Like a session's copy, this copy has the files that git tracks or does not ignore
(without git: every file).
"""

from __future__ import annotations

import mmap
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cardapp.errors import CardAppError, MissingRequirement
from cardapp.source_tree import MAKEFILES, files_of, git, names_its_build

BUILD_SECONDS = 600.0
FLAGS = 'CFLAGS="-g -O0" CXXFLAGS="-g -O0"'
KEPT = "ACLOCAL=: AUTOCONF=: AUTOHEADER=: AUTOMAKE=: MAKEINFO=:"
"""These settings keep the files that the Autotools made. A copy has other times, so make would call the author's
version of each tool."""
_SHELL = frozenset("&|;<>$`*?(")
_NO_PROGRAMS = {"CMakeFiles", "deps", ".git"}
"""Folders in which build tools keep their own programs."""
_EXECUTABLE_TYPES = (2, 3)  # ET_EXEC and ET_DYN of ELF's e_type; a library is recognised by its name
_LAST_LINES = 12
_NOT_FOUND = re.compile(r"command not found|: not found$|^make.*: \S+: No such file or directory$")


class BuildAttemptFailed(CardAppError):
    """A build command failed; the text has the end of its output."""

    code = "build_failed"


@dataclass(frozen=True)
class Build:
    """A build command and the folder where it runs, relative to the repository's root."""

    folder: Path
    command: tuple[str, ...]

    def at_root(self) -> Build:
        """The same build, started in the root."""
        if self.folder == Path():
            return self
        if self.command[0] == "make":
            return Build(Path(), ("make", "-C", str(self.folder), *self.command[1:]))
        return Build(Path(), ("sh", "-c", f"cd {shlex.quote(str(self.folder))} && {script(self.command)}"))

    def __str__(self) -> str:
        return f"{script(self.command)} (in {self.folder})"


def script(command: Sequence[str]) -> str:
    """The command as it is typed into a shell."""
    return command[2] if tuple(command[:2]) == ("sh", "-c") and len(command) == 3 else shlex.join(command)


def command_of(typed: str) -> tuple[str, ...]:
    """The command that an author typed. If it needs a shell, a shell runs it."""
    return ("sh", "-c", typed) if _SHELL & set(typed) else tuple(shlex.split(typed))


# -- the repository --------------------------------------------------------------------------------------------------


def repository_root(file: Path) -> Path:
    """The work tree of git that contains ``file``. Without git: the current folder, or the file's own if it is
    elsewhere."""
    answer = git(file.parent, "rev-parse", "--show-toplevel")
    if answer is not None:
        return Path(os.fsdecode(answer).removesuffix("\n"))
    current = Path.cwd()  # the kernel's path, without links
    return current if file.is_relative_to(current) else file.parent


def copy_repository(root: Path, copy: Path) -> None:
    for name, status in files_of(root):
        source, target = root / name, copy / name
        if stat.S_ISLNK(status.st_mode) or stat.S_ISREG(status.st_mode):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode) and _was_compiled(target):
                os.utime(target, (0, 0))  # so that make compiles it again


def _was_compiled(path: Path) -> bool:
    with path.open("rb") as file:
        return names_its_build(path.name, file.read(8))


# -- how it is built -------------------------------------------------------------------------------------------------


def possible_builds(root: Path, file: Path) -> list[Build]:
    """The builds that the files above ``file`` suggest, the nearest folder first."""
    found: list[Build] = []
    folder = file.parent
    while folder.is_relative_to(root):
        found += [Build(folder.relative_to(root), command) for command in _commands(folder)]
        folder = folder.parent
    return found


def _commands(folder: Path) -> Iterator[tuple[str, ...]]:
    # configure has written a Makefile beside a Makefile.am. Another clone of the repository does not have it.
    if any((folder / name).is_file() for name in MAKEFILES) and not (folder / "Makefile.am").exists():
        yield ("make",)
        yield ("make", "CFLAGS=-g -O0", "CXXFLAGS=-g -O0")
    if (folder / "CMakeLists.txt").is_file():
        yield ("sh", "-c", "cmake -B build -DCMAKE_BUILD_TYPE=Debug && cmake --build build")
    if (folder / "configure").is_file():
        yield from _configured(folder)
    if (folder / "Cargo.toml").is_file():
        yield ("cargo", "build")


def _configured(folder: Path) -> Iterator[tuple[str, ...]]:
    # With a shared library libtool makes a script of each program, which sets the library's path.
    configure = "./configure --disable-shared" if (folder / "ltmain.sh").exists() else "./configure"
    if not (folder / "aclocal.m4").exists():
        yield ("sh", "-c", f"{FLAGS} {configure} && make")
        return
    build = f"{FLAGS} {configure} && make {KEPT}"
    yield ("sh", "-c", build)
    yield ("sh", "-c", f"{build} && make {KEPT} check TESTS=")  # a library's only programs are often its tests


def run_build(copy: Path, build: Build) -> float:
    """Run the build in a copy of the repository. Returns its duration in seconds.

    :raises BuildAttemptFailed: the command failed or took longer than :data:`BUILD_SECONDS`.
    :raises MissingRequirement: a program that the build runs is missing.
    """
    begun = time.monotonic()
    ended = run_bounded(build.command, copy / build.folder, os.environ, BUILD_SECONDS)
    if ended is None:
        raise BuildAttemptFailed(f"{build} took longer than {BUILD_SECONDS:.0f} s")
    code, output = ended
    if code != 0:
        lines = output.decode("utf-8", "replace").splitlines()[-_LAST_LINES:]
        missing = next((line for line in lines if _NOT_FOUND.search(line)), None)
        if missing is not None:
            raise MissingRequirement(f"{build} needs a program that is missing: {missing.strip()}")
        raise BuildAttemptFailed("\n    ".join([f"{build} failed with {code}:", *lines]))
    return time.monotonic() - begun


def run_bounded(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float
) -> tuple[int, bytes] | None:
    """Run ``command`` without input. Returns its exit code and its output; None if it was ended after ``seconds``.

    :raises MissingRequirement: there is no such command.
    """
    try:
        # A separate session, so that everything that the command started can be ended with it.
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise MissingRequirement(f"{command[0]} cannot be run: {error.strerror}") from error
    with process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode, output


# -- what was built --------------------------------------------------------------------------------------------------


def programs(copy: Path) -> list[Path]:
    """The paths of the programs in the copy, relative to the copy, the shortest first."""
    found = []
    for folder, folders, files in os.walk(copy):
        folders[:] = [name for name in folders if name not in _NO_PROGRAMS]
        found += [Path(folder, name).relative_to(copy) for name in files if _is_program(Path(folder, name))]
    return sorted(found, key=lambda path: (len(path.parts), str(path)))


def _is_program(path: Path) -> bool:
    if path.is_symlink() or ".so" in path.suffixes or not os.access(path, os.X_OK) or not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(20)
    byte_order = "big" if head[5:6] == b"\2" else "little"
    return head[:4] == b"\x7fELF" and int.from_bytes(head[16:18], byte_order) in _EXECUTABLE_TYPES  # type: ignore[arg-type]


def has_debug_information(program: Path) -> bool:
    """Whether the program was built with ``-g``: it then has a section of this name."""
    with program.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(b".debug_info\0") >= 0

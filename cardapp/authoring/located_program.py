"""Finds the program of a repository that calls a given function. It builds the repository as its files suggest, and
runs the programs."""

from __future__ import annotations

import difflib
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cardapp.authoring import builds
from cardapp.authoring.builds import Build, BuildAttemptFailed
from cardapp.authoring.function_lines import AMBIGUOUS, function_lines
from cardapp.authoring.probing import BUILT_ELSEWHERE, NO_DEBUG_INFORMATION, NOT_CALLED, Probe, Start, probe
from cardapp.errors import CardAppError, InvalidValue, MissingRequirement, UsageError

_SHORT_BUILD_SECONDS = 20.0
"""A build that takes longer gets its own time limit in the card, because another machine may be slower."""
_SLOWER_MACHINE = 6
_CALL = re.compile(r"([A-Za-z_]\w*)\s*\(")


class NotReached(CardAppError):
    """No program calls the function."""

    code = "not_reached"


@dataclass(frozen=True)
class Wish:
    """An author's request. ``at`` is ``FILE:FUNCTION``. All paths are relative to the current folder.

    ``build`` and ``program`` are None if they must be found.
    """

    at: str
    build: str | None = None
    program: str | None = None
    arguments: tuple[str, ...] = ()
    stdin: str | None = None


@dataclass(frozen=True)
class Located:
    """The program that calls ``function``. ``root`` is absolute; ``build.folder`` is relative to it; ``file``,
    ``program`` and ``stdin`` are relative to that folder."""

    root: Path
    file: Path
    function: str
    build: Build
    program: Path
    probe: Probe
    arguments: tuple[str, ...]
    stdin: str | None
    build_timeout: float | None


@dataclass(frozen=True)
class _Place:
    """A function's definition: its repository, its file (both absolute and real), and its first line."""

    root: Path
    file: Path
    function: str
    line: int


def locate(wish: Wish, report: Callable[[str], None] = lambda _doing: None) -> Located:
    """Build copies of the repository, until a program in one of them calls the function.

    ``report`` gets a line before each build, because a build may take long.

    :raises UsageError: there is no such file or function, or nothing says how the program is built.
    :raises BuildAttemptFailed: no build succeeded.
    :raises NotReached: no program that was built calls the function.
    :raises MissingRequirement: a program that a build needs is missing.
    """
    place = _place(wish.at)
    failures: list[CardAppError] = []
    probes: list[Probe] = []
    for build in _builds(wish, place.root, place.file):
        report(f"building a copy: {build}")
        with tempfile.TemporaryDirectory(prefix="card-new-", dir="/tmp") as copy:
            builds.copy_repository(place.root, Path(copy))
            try:
                seconds = builds.run_build(Path(copy), build)
            except (BuildAttemptFailed, MissingRequirement) as error:
                failures.append(error)
                continue
            tried = {found.program for found in probes if found.remedy == NOT_CALLED}
            for found in _probes(wish, Path(copy), build, place, tried):
                if found.function is not None:
                    return _located(wish, place, build, found, seconds)
                probes.append(found)
    raise _explained(place, failures, probes)


def _place(at: str) -> _Place:
    name, _, function = at.partition(":")
    if not name or not function:
        raise UsageError(f"--at {at}: name a file and a function of it, as in --at src/parse.c:parse_value")
    file = Path(name)
    if not file.is_file():
        raise UsageError(f"--at: there is no file {name} (relative to {Path.cwd()})")
    file = file.resolve()
    text = file.read_bytes().decode("utf-8", "replace")
    try:
        first, _ = function_lines(function, name, text.split("\n"))
    except InvalidValue as error:
        if error.code == AMBIGUOUS:
            message = f"{name} defines {function} more than once: name a function that it defines once"
            raise UsageError(f"--at: {message}") from error
        raise UsageError(f"--at: {error.detail}{_near(function, text)}") from error
    return _Place(builds.repository_root(file), file, function, first)


def _near(function: str, text: str) -> str:
    wanted = function.rpartition("::")[2]
    near = difflib.get_close_matches(wanted, sorted(set(_CALL.findall(text)) - {wanted}), 5)
    return f"; near names are {', '.join(near)}" if near else ""


def _builds(wish: Wish, root: Path, file: Path) -> list[Build]:
    if wish.build is not None:
        here = Path.cwd()
        if not here.is_relative_to(root):
            raise UsageError(f"--build runs in the current folder: change to a folder of {root} first")
        build = Build(here.relative_to(root), builds.command_of(wish.build))
        return [build if file.is_relative_to(here) else build.at_root()]
    found = builds.possible_builds(root, file)
    if not found:
        raise UsageError(
            f"no Makefile, configure, CMakeLists.txt or Cargo.toml is in {file.parent} or above it, up to {root}: "
            "name the command that builds the program with --build 'COMMAND'"
        )
    return found


def _probes(wish: Wish, copy: Path, build: Build, place: _Place, tried: set[Path]) -> Iterator[Probe]:
    """Run the programs that ``build`` made in the copy, except those that were ``tried``."""
    stdin = None if wish.stdin is None else str(copy / _inside(place.root, wish.stdin, "--stdin"))
    start = Start(copy / build.folder, wish.arguments, stdin)
    if wish.program is None:
        programs = builds.programs(copy)
    else:
        programs = [_inside(place.root, wish.program, "--program")]
        if not (copy / programs[0]).is_file():
            raise UsageError(f"--program {wish.program}: {build} does not make it")
    for program in programs:
        if program in tried:
            continue
        yield probe(copy, program, start, place.file.relative_to(place.root).as_posix(), place.function, place.line)


def _inside(folder: Path, name: str, option: str) -> Path:
    """The path ``name``, which is relative to the current folder, relative to ``folder``."""
    path = Path(os.path.realpath(name))
    if not path.is_relative_to(folder):
        raise UsageError(f"{option} {name} is not in {folder}, which a session copies")
    return path.relative_to(folder)


def _located(wish: Wish, place: _Place, build: Build, found: Probe, seconds: float) -> Located:
    if not found.program.is_relative_to(build.folder):
        build = build.at_root()
    folder = place.root / build.folder
    return Located(
        root=place.root,
        file=place.file.relative_to(folder),
        function=place.function,
        build=build,
        program=found.program.relative_to(build.folder),
        probe=found,
        arguments=wish.arguments,
        stdin=None if wish.stdin is None else _inside(folder, wish.stdin, "--stdin").as_posix(),
        build_timeout=None if seconds < _SHORT_BUILD_SECONDS else round(seconds * _SLOWER_MACHINE, -1),
    )


def _explained(place: _Place, failures: list[CardAppError], probes: list[Probe]) -> CardAppError:
    """The error if no program calls the function: what was tried, and which options the author can use."""
    if not probes and failures:
        others = [failure.detail.split("\n")[0].rstrip(":") for failure in failures[:-1]]
        remedy = "name a build that works with --build 'COMMAND'"
        return type(failures[-1])("\n".join([*others, failures[-1].detail, remedy]))
    if not probes:
        return NotReached("the build makes no program: name one that makes it with --build 'COMMAND'")
    tried = "".join(dict.fromkeys(f"\n    {found.program}: {found.detail}" for found in probes))
    remedies = {found.remedy for found in probes}
    remedy = next(each for each in (BUILT_ELSEWHERE, NOT_CALLED, NO_DEBUG_INFORMATION) if each in remedies)
    return NotReached(f"no program calls {place.function} of {place.file.name}; {remedy}. Tried were:{tried}")

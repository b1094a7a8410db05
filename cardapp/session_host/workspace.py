"""The session's workspace: its copy of a card's sources, and the program that is built there.

An edited file is never overwritten without a backup. A build runs commands of the card, so it must run where the card's
program runs. The local runtime builds in the calling process. The podman runtime runs
``python -m cardapp.session_host.workspace`` in the container.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from cardapp.card.model import Target
from cardapp.card.source import load_card
from cardapp.errors import CardAppError
from cardapp.session_host.directory import write_json
from cardapp.session_host.gdb_client import Cancellation
from cardapp.session_host.profile import load_profile

MANIFEST = ".fetched.json"
BUILT = {".o", ".d", ".a"}
MAX_FILES = 2000


class SourcesUnusable(CardAppError):
    """The card's sources cannot be copied."""

    code = "sources_unusable"


@dataclass
class Fetched:
    """The result of a fetch, as paths in the copy: updated files, kept edited files, and edited file -> its backup."""

    updated: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    backups: dict[str, str] = field(default_factory=dict)


def fetch(origin: Path, copy: Path, target: Target, *, replace_edits: bool) -> Fetched:
    """Bring ``copy`` up to date with ``origin``.

    A file that the learner has not edited is updated. An edited file stays unchanged; with ``replace_edits`` it is
    renamed to ``NAME.orig`` (``NAME.orig2``, …) and fetched again.
    """
    manifest = _manifest(copy)
    report = Fetched()
    digests: dict[str, str] = {}
    for name in _files(origin, target):
        source, copied = origin / name, copy / name
        wanted = _digest(source)
        digests[name] = wanted
        have = _digest(copied) if copied.is_file() else None
        if have == wanted:
            continue
        if have is not None and have != manifest.get(name):
            if not replace_edits:
                report.kept.append(name)
                digests[name] = manifest.get(name, wanted)
                continue
            report.backups[name] = _back_up(copied).name
        copied.parent.mkdir(parents=True, exist_ok=True)
        # Not copy2, which keeps the time: for make the copy must be newer than the files built from the old version.
        shutil.copyfile(source, copied)
        copied.chmod(source.stat().st_mode & 0o755 | 0o600)
        report.updated.append(name)
    write_json(copy / MANIFEST, digests)
    return report


def _manifest(copy: Path) -> dict[str, str]:
    """The digest of each file when it was last fetched."""
    copy.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        found = json.loads((copy / MANIFEST).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _files(origin: Path, target: Target) -> Iterator[str]:
    """The card's files below ``origin``, without hidden files and build products."""
    program = PurePosixPath(target.program)
    built = origin / program.parts[0]
    if not origin.is_dir():
        raise SourcesUnusable(
            f"the card's directory {origin} does not exist; target.directory in the card's source names it"
        )
    found = 0
    for path in sorted(origin.rglob("*")):
        relative = path.relative_to(origin)
        hidden = any(part.startswith(".") for part in relative.parts)
        if hidden or not path.is_file() or path.suffix in BUILT or path == built or built in path.parents:
            continue
        found += 1
        if found > MAX_FILES:
            raise SourcesUnusable(
                f"{origin} holds more than {MAX_FILES} files; check target.directory in the card's source"
            )
        yield relative.as_posix()


def _back_up(path: Path) -> Path:
    backup, number = path.with_name(path.name + ".orig"), 1
    while backup.exists():
        number += 1
        backup = path.with_name(f"{path.name}.orig{number}")
    path.replace(backup)
    return backup


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# -- building --------------------------------------------------------------------------------------------------------

MAX_OUTPUT = 64 * 1024  # bytes that are kept; the rest is read and dropped, because otherwise the build would block
CANCEL_POLL = 0.05  # seconds between two checks of the cancellation
MAKEFILES = ("Makefile", "makefile", "GNUmakefile")
UNFINISHED = ".unfinished-build"
"""This file exists while a build runs. A killed build leaves it behind, and may leave incomplete files."""


class BuildFailed(CardAppError):
    """The build failed. The text has the compiler's output."""

    code = "build_failed"


class BuildCancelled(CardAppError):
    """The caller cancelled the build."""

    code = "cancelled"


@dataclass(frozen=True)
class Workspace:
    """The directory where a target is built and run, as a real path."""

    directory: Path
    target: Target

    @property
    def program(self) -> Path:
        return self.directory / self.target.program

    def is_stale(self) -> bool:
        """Whether the program is missing, left by a killed build, older than a source, or dated in the future."""
        if self._unfinished.exists():
            return True
        try:
            built = self.program.stat().st_mtime_ns
        except OSError:
            return True
        changed = [path.stat().st_mtime_ns for path in self._sources() if path.exists()]
        return max(changed, default=0) > built or built > time.time_ns()

    @property
    def _unfinished(self) -> Path:
        return self.directory / UNFINISHED

    def _sources(self) -> list[Path]:
        """The files that people edit. The build makes the others."""
        return [self.directory / name for name in (*self.target.sources, *MAKEFILES)]

    def _age_future_files(self) -> None:
        """Give built files with a time in the future an old time.

        They occur after the clock was set back. To make they would look newer than every later edit.
        """
        sources, now = set(self._sources()), time.time_ns()
        for path in self.directory.rglob("*"):
            if path.is_file() and path not in sources and path.stat().st_mtime_ns > now:
                os.utime(path, (0, 0))

    def _age_unfinished_files(self) -> None:
        """Give the files of a killed build an old time, so that make builds them again."""
        if not self._unfinished.exists():
            return
        begun = self._unfinished.stat().st_mtime_ns
        for path in (self.program, *self.directory.rglob("*")):
            built = path == self.program or path.suffix in BUILT
            if built and path.is_file() and path.stat().st_mtime_ns >= begun:
                os.utime(path, (0, 0))

    def build(self, timeout: float, cancelled: Cancellation | None = None) -> str:
        """Run the target's build command and return its output.

        :raises BuildFailed: the build failed, made no program or took longer than ``timeout`` seconds.
        :raises BuildCancelled: ``cancelled`` was set.
        """
        self._age_unfinished_files()
        self._age_future_files()
        with contextlib.suppress(OSError):  # if the folder is not writable, the compiler reports it
            self._unfinished.touch()
        try:
            # A new process group, so that make can be killed together with its children.
            maker = subprocess.Popen(
                self.target.build,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            self._unfinished.unlink(missing_ok=True)
            raise BuildFailed(f"{self.target.build[0]} cannot be run: {error.strerror}") from error
        with maker:
            try:
                output = _read_output(maker, timeout, cancelled)
            except BaseException:  # also after Ctrl-C, which the terminal does not send to another process group
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(maker.pid, signal.SIGKILL)
                raise
        self._unfinished.unlink(missing_ok=True)
        if maker.returncode != 0:
            raise BuildFailed(f"{' '.join(self.target.build)} failed in {self.directory}:\n{output}")
        if not self.program.is_file():
            raise BuildFailed(f"{' '.join(self.target.build)} made no {self.target.program}\n{output}")
        return output


def _read_output(maker: subprocess.Popen[bytes], timeout: float, cancelled: Cancellation | None) -> str:
    """Read the whole output and return the first ``MAX_OUTPUT`` bytes.

    :raises BuildFailed: the build took longer than ``timeout`` seconds.
    :raises BuildCancelled: ``cancelled`` was set.
    """
    assert maker.stdout is not None
    deadline = time.monotonic() + timeout
    output = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(maker.stdout, selectors.EVENT_READ)
        while True:
            if cancelled is not None and cancelled.is_set():
                raise BuildCancelled("the build was cancelled")
            if time.monotonic() > deadline:
                raise BuildFailed(f"the build took longer than {timeout:.0f} s and was killed\n{_text(output)}")
            if selector.select(CANCEL_POLL):
                data = os.read(maker.stdout.fileno(), 1 << 16)
                if not data:
                    return _text(output)
                output += data[: MAX_OUTPUT - len(output)]


def _text(output: bytearray) -> str:
    return output.decode("utf-8", "replace")


# -- fetching and building as one command ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Preparation:
    """A fetch of the sources of the card in ``card_source`` into ``work`` (absolute paths), and their build.

    With ``refresh`` edited files are backed up and replaced, and the program is always built.
    """

    card_source: str
    work: str
    profile: str
    refresh: bool

    def run(self) -> Fetched | None:
        """Fetch and build. Returns the report of the fetch; None if the profile uses the card's sources in place.

        :raises CardAppError: the card cannot be read, its sources cannot be fetched, or its build fails.
        """
        loaded, profile = load_card(self.card_source), load_profile(self.profile)
        fetched = None
        if not profile.in_place:
            fetched = fetch(loaded.target_directory, Path(self.work), loaded.card.target, replace_edits=self.refresh)
        workspace = Workspace(Path(self.work), loaded.card.target)
        if self.refresh or workspace.is_stale():
            workspace.build(profile.build_timeout)
        return fetched


def preparation_command(preparation: Preparation) -> list[str]:
    """The arguments of Python that run ``preparation`` and print its result."""
    return ["-P", "-m", "cardapp.session_host.workspace", json.dumps(asdict(preparation))]


def preparation_result(output: str) -> Fetched | None:
    """The report in the ``output`` of the command.

    :raises CardAppError: the command failed; the error has the message and the code of that failure.
    """
    try:
        found = json.loads(output)
    except ValueError as error:
        raise CardAppError(f"the preparation of the sources ended without a report: {output[-500:]}") from error
    if "error" in found:
        raise CardAppError(found["error"]["detail"], code=found["error"]["code"])
    return Fetched(**found["fetched"]) if found["fetched"] is not None else None


def main(argv: list[str]) -> int:
    """Print ``{"fetched": …}`` or ``{"error": {"code", "detail"}}``; returns 0 for both."""
    try:
        fetched = Preparation(**json.loads(argv[0])).run()
    except CardAppError as error:
        return _report({"error": {"code": error.code, "detail": error.detail}})
    return _report({"fetched": asdict(fetched) if fetched is not None else None})


def _report(document: dict[str, Any]) -> int:
    json.dump(document, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

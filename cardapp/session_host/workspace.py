"""The session's workspace, in which the card's program is built.

A build runs commands of the card, so it must run where the card's program runs. The local runtime builds in the calling
process. The podman runtime runs ``python -m cardapp.session_host.workspace`` in the container.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import selectors
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cardapp.card.model import Target
from cardapp.card.source import LoadedCard, load_card
from cardapp.errors import CardAppError
from cardapp.session_choice import write_json
from cardapp.session_host.copied_tree import CopiedTree, Stamp, stamp_of
from cardapp.session_host.gdb_client import Cancellation
from cardapp.session_host.manifest import MANIFEST, read_manifest, write_manifest
from cardapp.session_host.process import end_processes
from cardapp.session_host.profile import load_profile
from cardapp.source_tree import edited_files

MAX_OUTPUT = 64 * 1024  # bytes that are kept; the rest is read and dropped, because otherwise the build would block
CANCEL_POLL = 0.05  # seconds between two checks of the cancellation
END_TIMEOUT = 5.0  # seconds for the end of the processes that a killed build left running
BUILT = {".o", ".d", ".a"}
FILE_TIME_LAG = 10_000_000  # ns; the kernel's file times are behind the clock by at most this time
BUILD_VARIABLE = "CARDAPP_BUILD"
"""Marks the processes of a build with the folder that they build in."""


class BuildFailed(CardAppError):
    """The build failed. ``what`` is the first line of the text; the compiler's ``output`` follows it."""

    code = "build_failed"

    def __init__(self, what: str, output: str = "") -> None:
        super().__init__(f"{what}\n{output}" if output else what)
        self.what = what
        self.output = output


class BuildCancelled(CardAppError):
    """The caller cancelled the build."""

    code = "cancelled"


@dataclass(frozen=True)
class Workspace:
    """The directory where a target is built and run, and the copied ``root`` that contains it, as real paths.

    The file ``record`` has the stamps of the sources from which the program was built. While a build runs, it has only
    the time at which the build began, so a killed build does not count as complete.
    """

    directory: Path
    root: Path
    record: Path
    target: Target

    @classmethod
    def of(cls, loaded: LoadedCard, directory: Path, record: Path) -> Workspace:
        """The workspace of a card whose target's directory is, or is copied to, ``directory``."""
        depth = len(loaded.target_directory.relative_to(loaded.root).parts)
        root = directory.parents[depth - 1] if depth else directory
        return cls(directory, root, record, loaded.card.target)

    @property
    def program(self) -> Path:
        return self.directory / self.target.program

    # -- what was built ----------------------------------------------------------------------------------------------

    def is_stale(self) -> bool:
        """Whether the program, or a file that people edit, has changed since the last complete build."""
        built = self._read_record()
        return built is None or "inputs" not in built or built != self._state(built["begun"])

    def mark_changed(self) -> None:
        """Make the workspace stale until a build succeeds."""
        if self._half_built_since() is None:
            self.record.unlink(missing_ok=True)

    def mark_edited(self, stamp: Stamp) -> None:
        """Make the workspace stale if a file with this stamp was edited after the last build began."""
        built = self._read_record()
        if built is not None and len(stamp) > 1 and stamp[2] >= built["begun"]:
            self.mark_changed()

    def is_half_built(self, name: str, stamp: Stamp) -> bool:
        """Whether a killed build, and not a person, may have written the file ``name`` below the root."""
        begun = self._half_built_since()
        return begun is not None and len(stamp) > 1 and stamp[2] >= begun and self.root / name not in self._edited()

    def _half_built_since(self) -> int | None:
        """The time at which an unfinished build began, in nanoseconds, as file times are; None if there is none."""
        built = self._read_record()
        return built["begun"] if built is not None and "inputs" not in built else None

    def _state(self, begun: int) -> dict[str, Any]:
        """The record of a build that began at ``begun`` and is complete now."""
        inputs = {str(path): stamp for path in self._edited() if (stamp := _stamp(path)) is not None}
        return {"begun": begun, "build": list(self.target.build), "inputs": inputs, "program": _stamp(self.program)}

    def _edited(self) -> list[Path]:
        return [self.directory / name for name in edited_files(self.target)]

    def _read_record(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads(self.record.read_bytes())
        except (OSError, ValueError):
            return None
        return found

    # -- a copy in which nobody edits --------------------------------------------------------------------------------

    def note_tree(self) -> None:
        """Record the state of all files after the build, for :meth:`is_as_built`."""
        write_json(self._tree_record, self._tree())

    def is_as_built(self) -> bool:
        """Whether all files are in the recorded state. Files that were created later, for example by the program, are
        removed."""
        try:
            noted, present = json.loads(self._tree_record.read_bytes()), self._tree()
        except (OSError, ValueError):
            return False
        for path in present.keys() - noted.keys():
            os.unlink(path)
        return all(present.get(path) == stamp for path, stamp in noted.items())

    def clear(self) -> None:
        """Remove the copy."""
        with self._alone(_Limit(END_TIMEOUT, None)):
            self.record.unlink(missing_ok=True)
            self._tree_record.unlink(missing_ok=True)
            shutil.rmtree(self.root, ignore_errors=True)

    @property
    def _tree_record(self) -> Path:
        return self.record.with_suffix(".tree")

    def _tree(self) -> dict[str, Stamp | None]:
        """The stamps of all files below the root, except the manifest, by their paths."""
        found = (os.path.join(folder, name) for folder, _, names in os.walk(self.root) for name in names)
        return {path: _stamp(path) for path in found if not path.endswith(f"{os.sep}{MANIFEST}")}

    # -- building ----------------------------------------------------------------------------------------------------

    def build(self, timeout: float, cancelled: Cancellation | None = None) -> str:
        """Run the target's build command and return its output.

        :raises BuildFailed: the build failed, made no program or took longer than ``timeout`` seconds.
        :raises BuildCancelled: ``cancelled`` was set.
        """
        limit = _Limit(timeout, cancelled)
        with self._alone(limit):
            fetched = _Fetched(self)
            self._age_files(fetched.names)
            edited = {str(path): _stamp(path) for path in self._edited() if fetched.is_source(path)}
            begun = time.time_ns() - FILE_TIME_LAG
            write_json(self.record, {"begun": begun})
            output = self._run(limit)
            fetched.adopt()
            # A source that a person edited meanwhile keeps its old stamp, so the next build has the edit.
            state = self._state(begun)
            write_json(self.record, state | {"inputs": state["inputs"] | edited})
        return output

    @contextmanager
    def _alone(self, limit: _Limit) -> Iterator[None]:
        """Wait until no other process builds here, and end what a killed one left running."""
        self.record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self.record.with_suffix(".lock").open("w") as file:
            pause = threading.Event()
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    limit.check()
                    pause.wait(CANCEL_POLL)
            if self._half_built_since() is not None:
                end_processes(str(self.root), END_TIMEOUT, BUILD_VARIABLE)
            yield

    def _run(self, limit: _Limit) -> str:
        command = " ".join(self.target.build)
        try:
            # A new process group, so that make can be killed together with its children.
            maker = subprocess.Popen(
                self.target.build,
                cwd=self.directory,
                env=os.environ | {BUILD_VARIABLE: str(self.root)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            self.record.unlink(missing_ok=True)
            raise BuildFailed(f"target.build: {self.target.build[0]} cannot be run: {error.strerror}") from error
        with maker:
            try:
                output = _read_output(maker, limit)
            except BaseException:  # also after Ctrl-C, which the terminal does not send to another process group
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(maker.pid, signal.SIGKILL)
                end_processes(str(self.root), END_TIMEOUT, BUILD_VARIABLE)  # the processes that have left the group
                raise
        if maker.returncode != 0:
            self.record.unlink(missing_ok=True)
            raise BuildFailed(f"{command} failed in {self.directory}", output)
        if not self.program.is_file():
            self.record.unlink(missing_ok=True)
            raise BuildFailed(f"{command} made no {self.target.program}, which target.program names", output)
        return output

    def _age_files(self, fetched: Collection[str]) -> None:
        """Give the files of a killed build, and built files with a time in the future, an old time.

        So make builds them again. Files with a time in the future exist after the clock was set back. They would look
        newer than every later edit.
        """
        begun, now, edited = self._half_built_since(), time.time_ns(), {str(path) for path in self._edited()}
        top = f"{self.root}{os.sep}"
        for folder, _, names in os.walk(self.root):
            for path in (os.path.join(folder, name) for name in names):
                stamp = _stamp(path)
                if stamp is None or path in edited or path.removeprefix(top) in fetched:
                    continue
                made = bool(fetched) or path == str(self.program) or os.path.splitext(path)[1] in BUILT
                if stamp[1] > now or (begun is not None and made and stamp[1] >= begun):
                    os.utime(path, (0, 0))


class _Fetched:
    """The fetched files of a workspace when a build begins; none if the sources are used in place."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        with contextlib.closing(CopiedTree(workspace.root)) as copy:
            self._before = read_manifest(copy)
            self._unedited = [name for name, (_, copied) in self._before.items() if copy.stamp(name) == copied]

    @property
    def names(self) -> Collection[str]:
        return self._before

    def is_source(self, path: Path) -> bool:
        """Whether people edit the file, so that a change during the build is their own."""
        workspace = self._workspace
        named = path in [workspace.directory / name for name in workspace.target.sources]
        return named and (not self._before or str(path.relative_to(workspace.root)) in self._before)

    def adopt(self) -> None:
        """Record which fetched files the build has changed or removed, so that they do not count as edited."""
        after = dict(self._before)
        with contextlib.closing(CopiedTree(self._workspace.root)) as copy:
            for name in self._unedited:
                original, copied = self._before[name]
                now = copy.stamp(name)
                if now != copied and not self.is_source(self._workspace.root / name):
                    after[name] = (original, now)
            if after != self._before:
                write_manifest(copy, after)


def _stamp(path: str | Path) -> Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return stamp_of(found) if stat.S_ISREG(found.st_mode) else None


class _Limit:
    """The time that a build may take, and its cancellation."""

    def __init__(self, timeout: float, cancelled: Cancellation | None) -> None:
        self._timeout, self._cancelled = timeout, cancelled
        self._deadline = time.monotonic() + timeout

    def check(self, output: bytes | bytearray = b"") -> None:
        """:raises BuildFailed: the time is over. :raises BuildCancelled: the caller cancelled the build."""
        if self._cancelled is not None and self._cancelled.is_set():
            raise BuildCancelled("the build was cancelled")
        if time.monotonic() > self._deadline:
            limit = f"{self._timeout:g} s (target.build_timeout_s)"
            raise BuildFailed(f"the build took longer than {limit} and was killed", _text(output))


def _read_output(maker: subprocess.Popen[bytes], limit: _Limit) -> str:
    """Read the whole output and return the first ``MAX_OUTPUT`` bytes. Raises the errors of ``limit``."""
    assert maker.stdout is not None
    output = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(maker.stdout, selectors.EVENT_READ)
        while True:
            limit.check(output)
            if selector.select(CANCEL_POLL):
                data = os.read(maker.stdout.fileno(), 1 << 16)
                if not data:
                    return _text(output)
                output += data[: MAX_OUTPUT - len(output)]


def _text(output: bytes | bytearray) -> str:
    return output.decode("utf-8", "replace")


# -- the build as a command ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Preparation:
    """Builds the card in ``card_source`` in the folder ``work``, if the program is stale or ``always`` is true.

    ``record`` is the workspace's record of its build. The paths are absolute.
    """

    card_source: str
    work: str
    record: str
    profile: str
    always: bool

    def run(self) -> None:
        """:raises CardAppError: the card cannot be read, or its build fails."""
        loaded = load_card(self.card_source)
        workspace = Workspace.of(loaded, Path(self.work), Path(self.record))
        if self.always or workspace.is_stale():
            workspace.build(loaded.card.target.build_timeout or load_profile(self.profile).build_timeout)


def preparation_command(preparation: Preparation) -> list[str]:
    """The arguments of Python that run ``preparation`` and print its result."""
    return ["-P", "-m", "cardapp.session_host.workspace", json.dumps(asdict(preparation))]


def check_preparation(output: str) -> None:
    """Read the ``output`` of the command.

    :raises CardAppError: the command failed; the error has the message and the code of that failure.
    """
    try:
        found = json.loads(output)
    except ValueError as error:
        raise CardAppError(f"the build ended without a report: {output[-500:]}") from error
    if "error" in found:
        raise CardAppError(found["error"]["detail"], code=found["error"]["code"])


def main(argv: list[str]) -> int:
    """Print ``{}`` or ``{"error": {"code", "detail"}}``; returns 0 for both."""
    try:
        Preparation(**json.loads(argv[0])).run()
    except CardAppError as error:
        return _report({"error": {"code": error.code, "detail": error.detail}})
    return _report({})


def _report(document: dict[str, Any]) -> int:
    json.dump(document, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Starts, restarts and ends sessions: the commands of ``card-session``."""

from __future__ import annotations

import contextlib
import datetime
import os
import threading
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from cardapp import settings
from cardapp.card.source import LoadedCard, load_card
from cardapp.errors import CardAppError, SessionUnavailable, StateError, UsageError
from cardapp.session_host.directory import Record, SessionDirectory, State
from cardapp.session_host.mcp_client import call
from cardapp.session_host.podman_runtime import PodmanRuntime
from cardapp.session_host.profile import Profile, load_profile
from cardapp.session_host.runtime import LocalRuntime, Runtime
from cardapp.session_host.sources import Fetched, fetch
from cardapp.session_host.workspace import Workspace

START_TIMEOUT = 40.0
LOG_LINES = 12


@dataclass(frozen=True)
class Started:
    """The result of a start. ``fetched`` is None if the profile uses the card's sources in place.

    ``shortcoming`` names what the profile requires and this machine cannot provide, like a memory limit.
    """

    record: Record
    mcp_socket: str
    already_running: bool
    selected: bool
    fetched: Fetched | None
    shortcoming: str | None = None


@dataclass(frozen=True)
class Stopped:
    """The result of a stop: the number of processes that were ended, and the folder of the learner's sources."""

    name: str
    processes: int
    sources: Path


@dataclass(frozen=True)
class ListedSession:
    """A row of ``card-session list``. ``state`` is ``running``, or why the session does not answer."""

    name: str
    chosen: bool
    card: str
    profile: str
    state: str
    editor: str
    debugger: str
    place: str


class Sessions:
    """All sessions of one state directory."""

    def __init__(self, state: State) -> None:
        self._state = state

    # -- finding -----------------------------------------------------------------------------------------------------

    @staticmethod
    def runtime(directory: SessionDirectory, name: str) -> Runtime:
        return PodmanRuntime(directory) if name == "podman" else LocalRuntime(directory)

    def find(self, name: str | None) -> tuple[SessionDirectory, Record]:
        """Find the session ``name``; without a name, the chosen session.

        :raises UsageError: there is no such session; the message lists the known sessions.
        :raises StateError: the session's record cannot be read.
        """
        directory = self._locate(name)
        record = directory.read()
        if record is None:
            raise StateError(
                f"{directory.record} is damaged: stop the session with bin/card-session stop {directory.name}, then "
                "start it again; its sources stay"
            )
        return directory, record

    def _locate(self, name: str | None) -> SessionDirectory:
        known = self._state.names()
        wanted = name or self._state.chosen()
        if not known:
            raise UsageError("there is no session: start one with bin/card-session start CARD")
        if wanted is None:
            raise UsageError(
                "no session is chosen: name one, or choose one with bin/card-session select NAME; "
                f"known: {', '.join(known)}"
            )
        directory = self._state.session(wanted)
        if wanted not in known:
            raise UsageError(f"there is no session {wanted!r}; known: {', '.join(known)}")
        return directory

    def binding(self, directory: SessionDirectory, timeout: float = 5.0) -> dict[str, Any] | None:
        """Ask for the session's binding. Returns None if its MCP server does not answer."""
        try:
            return call(directory, "session_binding", timeout=timeout)
        except SessionUnavailable:
            return None

    # -- start -------------------------------------------------------------------------------------------------------

    def start(
        self, card: str, name: str | None, profile_name: str, *, select: bool = False, work: Path | None = None
    ) -> Started:
        """Start a session on ``card``, unless this session already runs on this card.

        The session becomes the chosen one if no other running session is chosen. With ``select`` it always does. If
        ``work`` is given, a local session keeps its copy of the sources in that folder.
        """
        loaded = load_card(card)
        profile = load_profile(profile_name)
        self._state.create()
        directory = self._state.session(name or loaded.card.id[:32].rstrip("-"))
        directory.create()
        with directory.locked():
            record = directory.read()
            if record is not None and self.binding(directory) is not None:
                self._check_same(record, loaded, profile)
                return Started(record, str(directory.mcp_socket), True, self._select(directory, select), None)
            self.runtime(directory, profile.runtime).require()
            self._end(directory, record)  # ends leftover processes of a killed session
            directory.clear()
            if work is not None:
                directory.keep_work_in(work)
            return self._start_new(directory, loaded, profile, select)

    def _end(self, directory: SessionDirectory, record: Record | None) -> int:
        """End all processes of a session. Returns their number."""
        if record is not None:
            return self.runtime(directory, record.runtime).stop(record)
        ended = self.runtime(directory, "local").stop(None)
        if directory.record.exists() and PodmanRuntime.installed():  # a damaged record does not name the runtime
            ended += self.runtime(directory, "podman").stop(None)
        return ended

    @staticmethod
    def _check_same(record: Record, loaded: LoadedCard, profile: Profile) -> None:
        if (record.card_source, record.profile) != (str(loaded.path.resolve()), profile.name):
            raise CardAppError(
                f"session {record.name} already runs, on {record.card_source} with profile {record.profile}: stop it "
                f"with bin/card-session stop {record.name}, or start this one under another name with --name"
            )

    def _start_new(self, directory: SessionDirectory, loaded: LoadedCard, profile: Profile, select: bool) -> Started:
        work = str(loaded.target_directory.resolve())
        if not profile.in_place:
            work = _source_directory(directory, profile.runtime, loaded)
        record = Record(
            name=directory.name,
            container_id="",
            card_source=str(loaded.path.resolve()),
            card_id=loaded.card.id,
            profile=profile.name,
            target=loaded.card.target.name,
            source_directory=work,
            created_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            runtime=profile.runtime,
        )
        runtime = self.runtime(directory, profile.runtime)
        try:
            record = replace(record, container_id=runtime.create(record))
            fetched = self._prepare(directory, record, refresh=False)
            record = self._launch(directory, record)
            selected = self._select(directory, select)
        except BaseException:
            # Report the original failure; ignore errors of the clean-up.
            with contextlib.suppress(CardAppError):
                runtime.stop(record)
            directory.clear()
            raise
        return Started(record, str(directory.mcp_socket), False, selected, fetched, runtime.shortcoming())

    def _prepare(self, directory: SessionDirectory, record: Record, *, refresh: bool) -> Fetched | None:
        """Fetch the card's sources, and build them if something changed. Returns None if they are used in place.

        With ``refresh`` edited files are backed up and replaced. In a folder that the caller gave (``--work``) nothing
        is edited: the earlier files are removed before a build.
        """
        loaded, work = load_card(record.card_source), directory.work(record.runtime)
        runtime = self.runtime(directory, record.runtime)
        if load_profile(record.profile).in_place:
            runtime.build(record, always=refresh)
            return None
        built = directory.build_record(record.runtime, record.card_id)
        workspace = Workspace.of(loaded, Path(record.source_directory), built)
        if record.source_directory != _source_directory(directory, record.runtime, loaded):
            raise UsageError(
                f"target.root or target.directory was changed: stop session {record.name}, then start it again"
            )
        limit = settings.load(os.environ).sources_max_bytes
        without = (self._state.directory.resolve(), work.resolve().parent)
        take = partial(fetch, loaded, workspace, max_bytes=limit, without=without)
        if not work.is_symlink():
            fetched = take(replace_edits=refresh)
            runtime.build(record, always=False)
            return fetched
        as_built = workspace.is_as_built()
        fetched = take(replace_edits=True)
        if not as_built or workspace.is_stale():
            workspace.clear()
            fetched = take(replace_edits=True)
            runtime.build(record, always=False)
        workspace.note_tree()
        return fetched

    def _launch(self, directory: SessionDirectory, record: Record) -> Record:
        """Start the MCP server and wait until it answers."""
        directory.write(record)
        written = directory.log.stat().st_size if directory.log.exists() else 0
        runtime = self.runtime(directory, record.runtime)
        record = replace(record, host=runtime.start(record))
        directory.write(record)
        deadline = time.monotonic() + START_TIMEOUT
        pause = threading.Event()
        # Checking for the socket file is not enough: the server may not listen yet.
        while self.binding(directory) is None:
            if not runtime.alive(record):
                raise SessionUnavailable(f"the session ended while it started:\n{_tail(directory.log, written)}")
            if time.monotonic() > deadline:
                raise SessionUnavailable(
                    f"the session did not answer within {START_TIMEOUT:.0f} s:\n{_tail(directory.log, written)}"
                )
            pause.wait(0.01)
        return record

    def _select(self, directory: SessionDirectory, always: bool) -> bool:
        """Choose the session if ``always``, or if no other running session is chosen. Returns whether it was chosen."""
        chosen = self._state.chosen()
        if not always and chosen is not None and chosen != directory.name:
            try:
                other = self._locate(chosen)
            except UsageError:
                pass
            else:
                if self.binding(other) is not None:
                    return False
        self._state.choose(directory)
        return True

    # -- other commands ----------------------------------------------------------------------------------------------

    def select(self, name: str) -> Record:
        directory, record = self.find(name)
        if self.binding(directory) is None:
            raise SessionUnavailable(f"session {name} does not answer; restore it with bin/card-session reset {name}")
        self._state.choose(directory)
        return record

    def reset(self, name: str | None) -> tuple[Record, list[str], dict[str, Any]]:
        """End the program and start the parts that have ended.

        Returns three values: the record; the names of the parts that were started (container, MCP server); the result
        of ``target_reset``.
        """
        directory, record = self.find(name)
        self.runtime(directory, record.runtime).require()
        with directory.locked():
            started: list[str] = []
            if self.binding(directory) is None:
                record, started = self._start_server(directory, record)
            return record, started, call(directory, "target_reset")

    def _start_server(self, directory: SessionDirectory, record: Record) -> tuple[Record, list[str]]:
        """Start the container again if it does not run, then the MCP server. A running Neovim and gdb keep running.

        Returns the new record, and the names of the parts that were started.
        """
        runtime = self.runtime(directory, record.runtime)
        revived = runtime.revive(record)
        container = ["container"] if revived is not None else []
        if revived == record.container_id and self.binding(directory) is not None:
            return record, container  # the container was only paused
        if record.host is not None:
            record.host.end(5.0)
        directory.mcp_socket.unlink(missing_ok=True)
        record = replace(record, container_id=revived or record.container_id)
        self._prepare(directory, record, refresh=False)
        return self._launch(directory, record), [*container, "MCP server"]

    def refresh(self, name: str | None) -> tuple[Record, Fetched | None]:
        """Fetch the card's sources again, build them, and reset. Edited files are kept as backups."""
        directory, record = self.find(name)
        runtime = self.runtime(directory, record.runtime)
        runtime.require()
        with directory.locked():
            revived = runtime.revive(record)
            if revived is not None:
                record = replace(record, container_id=revived)
                directory.write(record)
            fetched = self._prepare(directory, record, refresh=True)
        self.reset(record.name)
        return record, fetched

    def stop(self, name: str | None) -> Stopped:
        """End all processes of a session and remove its record. The learner's sources stay for the next start."""
        directory = self._locate(name)
        with directory.locked():
            record = directory.read()
            ended = self._end(directory, record)
            directory.clear()
            self._state.forget_choice(directory.name)
        return Stopped(directory.name, ended, Path(record.source_directory) if record else directory.work("local"))

    def list_all(self) -> list[ListedSession]:
        chosen = self._state.chosen()
        return [self._listed(name, name == chosen) for name in self._state.names()]

    def _listed(self, name: str, chosen: bool) -> ListedSession:
        directory = self._state.session(name)
        record = directory.read()
        if record is None:
            return ListedSession(name, chosen, "?", "?", "record damaged", "-", "-", "-")
        binding = self.binding(directory, 2.0)
        if binding is None:
            why = self.runtime(directory, record.runtime).condition(record)
            return ListedSession(name, chosen, record.card_id, record.profile, why, "-", "-", "-")
        state = call(directory, "debugger_state", timeout=5.0)
        place = f"{state['file']}:{state['line']}" if state["file"] else state["state"]
        words = {True: "up", False: "down"}
        editor, debugger = words[binding["editor"]["available"]], words[binding["debugger"]["available"]]
        return ListedSession(name, chosen, record.card_id, record.profile, "running", editor, debugger, place)


def _source_directory(directory: SessionDirectory, runtime: str, loaded: LoadedCard) -> str:
    """The target's directory in the session's copy of the card's root."""
    place = loaded.target_directory.relative_to(loaded.root)
    return str(directory.work(runtime).resolve() / loaded.card.id / place)


def _tail(log: Path, start: int) -> str:
    """The last lines of ``log`` after byte ``start``."""
    # A program in a container may have replaced the log with a link or a pipe. O_NOFOLLOW refuses a link, and
    # O_NONBLOCK prevents waiting for a pipe.
    descriptor = os.open(log, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        file.seek(start)
        lines = file.read().decode("utf-8", "replace").splitlines()
    return "\n".join(lines[-LOG_LINES:]) or f"(nothing in {log})"

"""Replays the snapshots of a card in a temporary session, and compares the observed values with the card."""

from __future__ import annotations

import difflib
import fcntl
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from cardapp import settings
from cardapp.authoring.fault import RECORD_HINT, Fault, pointers
from cardapp.authoring.shortened import shortened
from cardapp.card import proof
from cardapp.card.catalog import Catalog
from cardapp.card.compared import NOTHING, Compared, count, value_checks
from cardapp.card.model import Snapshot, Stop
from cardapp.card.proof import Check
from cardapp.card.source import LoadedCard, pointer_token
from cardapp.errors import CardAppError, MissingRequirement, SessionUnavailable, StateError, UsageError
from cardapp.private_directories import make_directory
from cardapp.session_client import session_tools
from cardapp.session_client.link import SessionLink
from cardapp.session_client.session_tools import Binding

Reading = dict[str, Any]
"""The result of ``checkpoint_replay``: ``file, line, function, values, allocator, …``."""

HIDDEN_TEXT = "hidden_text"
"""The code of the warning of a value that was compared only partly."""
_BUILD_SECONDS = 120.0
"""The time limit of a build if the card names none. It is the limit of the profiles in ``etc/card-session.ini``."""
_MARGIN_SECONDS = 5.0
_CALLABLE = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
"""A name before a parenthesis: a function, or a keyword of the language, which is similar to no function's name."""


@dataclass(frozen=True)
class Proof:
    """The result of ``replays`` replays of one snapshot. ``duration_ms`` is the duration of the slowest replay. If the
    proof failed, the last replay failed. ``compared`` counts the values of one replay; the ``warnings`` name those that
    were compared only partly."""

    key: str
    state: Literal["ready", "failed"]
    duration_ms: int
    faults: tuple[Fault, ...]
    replays: int = 1
    compared: Compared = NOTHING
    warnings: tuple[Fault, ...] = ()


class TemporarySession:
    """A session that replays snapshots of ``loaded``. Make one with :func:`temporary_session`."""

    def __init__(self, loaded: LoadedCard, link: SessionLink, replay_seconds: float, work: Path) -> None:
        self.loaded = loaded
        self._work = work
        self.catalog = Catalog(loaded.card)
        self._link = link
        self._binding = Binding.of(link.binding())
        self._generation = 0
        self._replay_seconds = replay_seconds
        self._pointers = pointers(self.catalog)

    @property
    def folder(self) -> Path:
        """The copy of the card's sources, in which the program is built."""
        return self._work / self.loaded.card.id

    def replay(self, key: str, snapshot: Snapshot | None = None, *, varied: bool = False) -> Reading:
        """Start the program again and bring it to the snapshot ``key``, or to ``snapshot`` instead of the card's.

        In a ``varied`` replay the address layout, the order of threads and the content of memory that was not
        initialised differ from an ordinary one.

        :raises CardAppError: the program does not reach the stop, or the session failed; ``code`` says why.
        """
        self._generation += 1
        arguments = session_tools.replay_arguments(
            self._binding,
            self._generation,
            key,
            snapshot or self.catalog.snapshots[key],
            self.loaded.card.allocator,
            seconds=self._replay_seconds,
            fresh=True,
            varied=varied,
        )
        build_seconds = self.loaded.card.target.build_timeout or _BUILD_SECONDS
        limit = self._replay_seconds + build_seconds + _MARGIN_SECONDS
        return self._link.call(session_tools.REPLAY, arguments, seconds=limit)

    def prove(self, key: str, snapshot: Snapshot | None = None) -> Proof:
        """Replay a snapshot and compare everything that the card says about it.

        :raises CardAppError: the session cannot be used any more, or the build failed.
        """
        begun = time.monotonic()
        wanted = snapshot or self.catalog.snapshots[key]
        at = self._pointers[key]
        compared, warnings = NOTHING, tuple[Fault, ...]()
        try:
            reading = self.replay(key, snapshot)
            found = proof.checks(wanted, reading)
            faults = list(reading_faults(key, at, wanted, reading, found))
            compared, warnings = count(wanted, found), tuple(hidden_values(key, at, wanted, found))
        except CardAppError as error:
            if isinstance(error, SessionUnavailable) or error.code == "build_failed":
                raise
            detail = _in_original(error.detail, self.loaded, self._work)
            advice = tuple(self._advice(error.code, wanted.stop))
            faults = [Fault(key, f"{at}/stop", None, error.code, detail, causes=advice)]
        duration = round((time.monotonic() - begun) * 1000)
        state: Literal["ready", "failed"] = "failed" if faults else "ready"
        return Proof(key, state, duration, tuple(faults), compared=compared, warnings=warnings)

    def _advice(self, code: str, stop: Stop) -> Iterator[str]:
        """Sentences that complete the error: what the stop waits for, or what to change."""
        if code == "replay_timeout":
            yield "if it needs longer, raise timeout_s of its run, or CARD_REPLAY_TIMEOUT"
        if code == "target_exited" and (awaited := stop.condition or stop.signal) is not None:
            yield f"the stop waits for {awaited}"
        if code == "stop_not_reached" and stop.function is not None:
            yield from similar_function(stop.function, self.loaded)


def similar_function(function: str, loaded: LoadedCard) -> list[str]:
    """A question that names the most similar function of the sources; nothing if none is similar."""
    lines = (line for lines in loaded.sources().values() for line in lines)
    names = {name for line in lines for name in _CALLABLE.findall(line)} - {function}
    return [f"did you mean {near}?" for near in difflib.get_close_matches(function, sorted(names), n=1)]


def codeless_line(stop: Stop, reading: Reading) -> str | None:
    """What to do about a stop at a line without code: gdb stops at the next line that has code."""
    if stop.line is None or reading["file"] != stop.file or reading["line"] == stop.line:
        return None
    return f"line {stop.line} has no code: choose line {reading['line']}, the next one that has"


def hidden_values(key: str, pointer: str, snapshot: Snapshot, found: Sequence[Check]) -> Iterator[Fault]:
    """The values that were compared only partly, among ``found``, all comparisons of the snapshot at ``pointer``."""
    expected = {each.expression: each for each in snapshot.expect}
    for check in value_checks(snapshot, found):
        if check.partly:
            place = f"{pointer}/expect/{pointer_token(check.name)}"
            seen = proof.recordable(check.actual or "")
            detail = f"{check.name} {proof.uncompared(expected[check.name], check.actual or '')}: expect its parts"
            if proof.hides(expected[check.name], check.actual or ""):
                detail = f"a * of {check.name} hides a part of {shortened(seen)}: {RECORD_HINT}, which writes it"
            yield Fault(key, place, None, HIDDEN_TEXT, detail, check.name, check.expected, seen)


def reading_faults(
    key: str, pointer: str, snapshot: Snapshot, reading: Reading, checks: Sequence[Check]
) -> Iterator[Fault]:
    """The differences between the snapshot, which is at ``pointer`` in the source file, and the observed state.
    ``checks`` are all its comparisons."""
    places = len(checks) - len(snapshot.expect)  # the first checks prove the place
    causes = tuple(reading.get("causes", ()))
    for number, check in enumerate(checks):
        if check.match is False:
            at = f"stop/{check.name}" if number < places else f"expect/{pointer_token(check.name)}"
            seen = proof.recordable(check.actual) if check.actual is not None else "nothing"
            detail = f"{check.name} is {seen}, but the card expects {check.expected}"
            found = (*causes, *filter(None, [codeless_line(snapshot.stop, reading)])) if number < places else causes
            yield Fault(
                key, f"{pointer}/{at}", None, "snapshot_drift", detail, check.name, check.expected, seen, causes=found
            )
    for place, name in _uncompared(snapshot):
        value = reading["values"].get(name, {"value": None, "error": "the session did not report it"})
        if value["value"] is None:
            detail = f"{name} cannot be read: {value['error']}"
            code = "unreadable_watch" if place.startswith("watch/") else "unreadable_value"
            yield Fault(key, f"{pointer}/{place}", None, code, detail, expression=name, causes=causes)
    if reading.get("allocator_error"):
        detail = f"the memory cannot be read: {reading['allocator_error']}"
        yield Fault(key, "/allocator", None, "bad_recipe", detail)


def _uncompared(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """The expressions that are read at the stop and not compared, each with its place in the snapshot."""
    for expected in snapshot.expect:
        if expected.undefined:
            yield f"expect/{pointer_token(expected.expression)}", expected.expression
    known = {expected.expression for expected in snapshot.expect}
    for name, expressions in (("watch", snapshot.watch), ("ask", snapshot.ask)):
        for number, expression in enumerate(expressions):
            if expression not in known:
                known.add(expression)
                yield f"{name}/{number}", expression


def prove(
    loaded: LoadedCard,
    catalog: Catalog,
    keys: Iterable[str],
    *,
    profile: str | None = None,
    repeat: int = 1,
    fail_fast: bool = False,
    examine: Callable[[TemporarySession, Proof], Proof] = lambda _session, proof: proof,
    report: Callable[[Proof], None] = lambda _proof: None,
) -> list[Proof]:
    """Replay the snapshots ``keys`` in a temporary session, each ``repeat`` times, and call ``report`` after each.

    A failed proof is replaced by the result of ``examine``. With ``fail_fast`` the replays end after the first failed
    snapshot.

    :raises CardAppError: the session cannot be started or used; ``build_failed`` with the compiler's output.
    """
    found: list[Proof] = []
    chosen = set(keys)
    wanted = [key for key in catalog.snapshots if key in chosen]
    if not wanted:
        return found
    with temporary_session(loaded, profile) as session:
        for key in wanted:
            proof = _repeated(session, key, repeat)
            found.append(examine(session, proof) if proof.faults else proof)
            report(found[-1])
            if fail_fast and proof.faults:
                break
    return found


def _repeated(session: TemporarySession, key: str, repeat: int) -> Proof:
    """The first proof that failed, or else the slowest."""
    proofs = []
    for _ in range(repeat):
        proofs.append(session.prove(key))
        if proofs[-1].faults:
            return replace(proofs[-1], replays=len(proofs))
    return replace(max(proofs, key=lambda each: each.duration_ms), replays=repeat)


# -- the session ---------------------------------------------------------------------------------------------------


@contextmanager
def temporary_session(loaded: LoadedCard, profile: str | None = None) -> Iterator[TemporarySession]:
    """Start a session of ``profile`` (None: the default one) in a temporary state directory. Both are removed at the
    end, also after an error. The copy of the sources remains, so that the next session of the card rebuilds only what
    changed.

    :raises CardAppError: the session did not start; ``build_failed`` has the compiler's output.
    :raises MissingRequirement: a program that a session needs is missing.
    :raises UsageError: there is no such profile, or a setting is wrong.
    """
    given = settings.load(os.environ)
    with tempfile.TemporaryDirectory(prefix="card-check-", dir="/tmp") as folder, _work(loaded, given, folder) as work:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CARD_")}
        environment |= {"CARD_STATE_DIR": folder, "CARD_SOURCES_MAX_BYTES": str(given.sources_max_bytes)}
        link = SessionLink(Path(folder) / "mcp-choice.json")
        try:
            options = ["--profile", profile] if profile is not None else []
            options += ["--work", str(work), "--name", "check"]
            started = _card_session(environment, "start", "--json", *options, str(loaded.path))
            if started.returncode != 0:
                raise _start_failure(started, loaded, work)
            yield TemporarySession(loaded, link, given.replay_timeout, work)
        finally:
            link.close()
            _card_session(environment, "stop", "check")


def kept_folder(loaded: LoadedCard, given: settings.Settings) -> Path:
    """The folder for the copy of a card's sources. The copy itself has the name of the card's id."""
    name = f"{loaded.card.id}-{hashlib.sha256(os.fsencode(loaded.path)).hexdigest()[:8]}"
    return given.state_dir / "checks" / name


@contextmanager
def _work(loaded: LoadedCard, given: settings.Settings, folder: str) -> Iterator[Path]:
    """The folder for the copy of the card's sources: one for each card in the state directory. If this folder cannot be
    written, or another process uses it, a folder in the temporary ``folder`` is used."""
    kept = kept_folder(loaded, given)
    with ExitStack() as held:
        try:
            make_directory(given.state_dir, "CARD_STATE_DIR")
            kept.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = held.enter_context((kept / "lock").open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (OSError, StateError):
            kept = Path(folder) / "work"
        yield kept.resolve()


def _card_session(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the session control tool as a subprocess, because no other part of the application may import its code."""
    command = [sys.executable, "-P", "-m", "cardapp.session_host", *arguments]
    pipe = subprocess.PIPE
    # In a separate process group the tool gets Ctrl-C only from here, once, and has time to end the build.
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, process_group=0
    ) as tool:
        try:
            output, errors = tool.communicate()
        except BaseException:
            tool.send_signal(signal.SIGINT)
            tool.wait()
            raise
    return subprocess.CompletedProcess(command, tool.returncode, output, errors)


def _start_failure(ended: subprocess.CompletedProcess[str], loaded: LoadedCard, work: Path) -> CardAppError:
    try:
        error = json.loads(ended.stdout)["error"]
    except (ValueError, LookupError, TypeError):
        return CardAppError(f"card-session start failed: {(ended.stderr or ended.stdout).strip()}")
    detail = _in_original(error["detail"], loaded, work)
    if ended.returncode == 3:
        return MissingRequirement(detail, code=error["code"])
    return (UsageError if ended.returncode == 2 else CardAppError)(detail, code=error["code"])


def _in_original(message: str, loaded: LoadedCard, work: Path) -> str:
    """The message with the names of the card's own files instead of those of their copies."""
    return message.replace(str(work / loaded.card.id), str(loaded.root))

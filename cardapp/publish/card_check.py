"""Checks a card: its layout, its references to the C files, and on request each snapshot by a replay."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cardapp.card import proof
from cardapp.card.catalog import Catalog
from cardapp.card.model import CodeRange, Stop
from cardapp.card.source import LoadedCard
from cardapp.errors import CardAppError, InvalidLayout, MissingRequirement, SessionUnavailable, UsageError
from cardapp.layout.compose import compose
from cardapp.publish import layouts
from cardapp.session_client import session_tools
from cardapp.session_client.link import SessionLink
from cardapp.session_client.session_tools import Binding

_REPLAY_SECONDS = 30.0


@dataclass(frozen=True)
class Finding:
    """A fault of the card: the key of its position ("" for the card itself), a stable code, and a message."""

    key: str
    code: str
    message: str


def layout_faults(loaded: LoadedCard) -> list[Finding]:
    """Return the fault that prevents the card from having sheets: its layout is missing or invalid, or a part fits no
    sheet."""
    try:
        layout = layouts.find(loaded.card.layout)
        for arranged in (layout.arranged("html"), layout.arranged("latex")):
            compose(loaded.card, loaded.identity, arranged, loaded.sources())
    except InvalidLayout as error:
        return [Finding("", error.code, error.detail)]
    return []


def source_drift(catalog: Catalog, files: Mapping[str, list[str]]) -> Iterator[Finding]:
    """Yield a finding for each code range and stop of a card that does not match its C file. ``files`` maps the name of
    each readable source file to its lines."""
    for key, step in catalog.steps.items():
        fault = _range_fault(step.code, files) if step.code is not None else None
        if fault is not None:
            yield Finding(key, "source_drift", fault)
    for key, snapshot in catalog.snapshots.items():
        fault = _stop_fault(snapshot.stop, files)
        if fault is not None:
            yield Finding(key, "source_drift", fault)


def _range_fault(code: CodeRange, files: Mapping[str, list[str]]) -> str | None:
    lines = files.get(code.file)
    if lines is None:
        return f"{code.file} cannot be read"
    if code.last > len(lines):
        return f"the code range ends at line {code.last}, but {code.file} has only {len(lines)} lines"
    return None


def _stop_fault(stop: Stop, files: Mapping[str, list[str]]) -> str | None:
    if stop.file is None or stop.line is None or stop.text is None:
        return None
    lines = files.get(stop.file)
    if lines is None:
        return f"{stop.file} cannot be read"
    if stop.line > len(lines) or stop.text not in lines[stop.line - 1]:
        return f"{stop.file}:{stop.line} does not contain {stop.text!r}{_where(stop.text, lines)}"
    return None


def _where(text: str, lines: list[str]) -> str:
    """Say which lines contain the text now, so that the author can correct the stop."""
    found = [str(number) for number, line in enumerate(lines, 1) if text in line]
    if not found:
        return "; no line of the file contains it"
    return f"; it is now in line{'s' if len(found) > 1 else ''} {', '.join(found[:5])}"


def replay_all(
    loaded: LoadedCard, catalog: Catalog, profile: str | None, report: Callable[[str, Finding | None], None]
) -> list[Finding]:
    """Replay every snapshot in a temporary session of ``profile``, and return the faults.

    If ``profile`` is None, the default profile is used. After each snapshot, ``report`` is called with its key and its
    fault, or with None if the snapshot matches the card.
    """
    findings = []
    with _session(loaded, profile) as link:
        binding = Binding.of(link.binding())
        for number, key in enumerate(catalog.snapshots, 1):
            finding = _replay(link, binding, loaded, catalog, key, number)
            if finding is not None:
                findings.append(finding)
            report(key, finding)
    return findings


def _replay(
    link: SessionLink, binding: Binding, loaded: LoadedCard, catalog: Catalog, key: str, generation: int
) -> Finding | None:
    snapshot = catalog.snapshots[key]
    arguments = session_tools.replay_arguments(
        binding, generation, key, snapshot, loaded.card.allocator, seconds=_REPLAY_SECONDS, fresh=True
    )
    try:
        reading = link.call(session_tools.REPLAY, arguments, seconds=_REPLAY_SECONDS + 5)
    except SessionUnavailable:
        raise
    except CardAppError as error:
        return Finding(key, error.code, error.detail)
    reason = proof.drift_reason(proof.checks(snapshot, reading))
    if reason is not None:
        return Finding(key, "snapshot_drift", reason)
    unread = [name for name in snapshot.watch if reading["values"][name]["value"] is None]
    if unread:
        return Finding(key, "unreadable_watch", f"{unread[0]}: {reading['values'][unread[0]]['error']}")
    return None


@contextmanager
def _session(loaded: LoadedCard, profile: str | None) -> Iterator[SessionLink]:
    """Start a session in a temporary state directory. Both are removed at the end, also after an error."""
    with tempfile.TemporaryDirectory(prefix="card-check-", dir="/tmp") as folder:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CARD_")}
        environment["CARD_STATE_DIR"] = folder
        link = SessionLink(Path(folder) / "mcp-choice.json")
        try:
            options = ["--profile", profile] if profile is not None else []
            _card_session(environment, "start", "--name", "check", *options, str(loaded.path))
            yield link
        finally:
            link.close()
            _card_session(environment, "stop", "check", check=False)


def _card_session(environment: dict[str, str], *arguments: str, check: bool = True) -> None:
    """Run the session control tool as a subprocess, because no other part of the application may import its code."""
    command = [sys.executable, "-P", "-m", "cardapp.session_host", *arguments]
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    if check and ended.returncode != 0:
        message = (ended.stderr or ended.stdout).strip()
        if ended.returncode == 3:
            raise MissingRequirement(message)
        if ended.returncode == 2:
            raise UsageError(message)
        raise CardAppError(message, code="session_failed")

"""The failures of a replay: a sentence for the learner, and the same facts as data."""

from __future__ import annotations

import contextlib
import re
import shlex
import threading
from typing import Any

from cardapp.errors import EditorUnavailable, TooSlow
from cardapp.mcp.tool import ToolFailure
from cardapp.session_host import build_output
from cardapp.session_host.gdb_client import ChannelError
from cardapp.session_host.session import Session
from cardapp.session_host.workspace import BuildFailed, Workspace

LAST_LINES = 5  # lines of the program's output in a message
MAX_PRINTED = 20  # lines of the program's output in the data
MAX_READS_OF_OUTPUT, READ_OUTPUT_AGAIN = 6, 0.02  # times, seconds

_MISSING_LIBRARY = re.compile(r"error while loading shared libraries: ([^:\s]+):")


def build_failure(error: BuildFailed, workspace: Workspace) -> ToolFailure:
    """The failure of a build: its first error as the reason, and its output as ``build``."""
    messages = build_output.messages(error.output, workspace.directory)
    first = build_output.headline(error.output, messages)
    build = {
        "command": shlex.join(workspace.target.build),
        "directory": str(workspace.directory),
        "output": build_output.lines(error.output),
        "messages": messages,
    }
    return ToolFailure(error.code, error.what if first is None else f"{error.what}: {first}", build=build)


class StopFailures:
    """The failures of a replay that did not reach its ``stop``. ``hits`` is how often the program should reach it."""

    def __init__(self, session: Session, stop: dict[str, Any]) -> None:
        self._session = session
        self._hits: int = stop.get("hits", 1)

    def late(self, known: dict[str, Any], seconds: float) -> ToolFailure:
        """The failure of a program that still ran after ``seconds``. ``known`` is gdb's ``{reached, place}``, or
        empty."""
        place, reached = known.get("place"), known.get("reached", 0)
        return ToolFailure(
            "replay_timeout",
            f"the program did not reach the stop within {seconds:g} s: it was at the stop {reached} of "
            f"{self._hits} times, and was last {self._position(place)}",
            **self._progress(reached, place, self._last_lines()),
        )

    def of(self, error: ChannelError) -> ToolFailure:
        """The failure that gdb has reported."""
        extra, place = dict(error.extra), error.extra.get("place")
        placed = extra.pop("placed", None)
        if error.code == "target_crashed":
            reason = f"the program crashed with {extra['signal']} before the stop: it was {self._position(place)}"
        elif error.code == "target_exited":
            reason = f"the program exited with code {extra['exit_code']}; "
            reason += f"it was at the stop {extra['reached']} of {self._hits} times"
        elif error.code == "stop_not_reached" and "exit_code" in extra:
            reason = error.detail
        else:
            return ToolFailure(error.code, error.detail, **extra)
        lines = self._last_lines()
        progress = self._progress(extra["reached"], place, lines)
        reason += f"; {placed}" if placed is not None else ""
        return ToolFailure(error.code, reason + _causes(extra, lines), **extra | progress)

    def _progress(self, reached: int, place: dict[str, Any] | None, lines: list[str]) -> dict[str, Any]:
        """The members of every failure of a program that was started."""
        return {
            "reached": reached,
            "hits": self._hits,
            "place": place and self._session.relative(place),
            "printed": lines[-MAX_PRINTED:],
        }

    def _last_lines(self) -> list[str]:
        """The last output of the program, on standard error and standard output. Neovim may not have read all of it
        yet."""
        lines: list[str] = []
        pause = threading.Event()
        with contextlib.suppress(EditorUnavailable, TooSlow):
            for _ in range(MAX_READS_OF_OUTPUT):
                before, lines = lines, [line for line in self._session.editor.call("printed") if line.strip()]
                if lines and lines == before:
                    break
                pause.wait(READ_OUTPUT_AGAIN)
        return lines

    def _position(self, place: dict[str, Any] | None) -> str:
        if place is None or place["function"] is None:
            return "at a place unknown to gdb"
        inside = f", inside {place['inside']}" if place.get("inside") else ""
        at = f" at {self._session.relative(place)['file']}:{place['line']}" if place["file"] else ""
        return f"in {place['function']}{at}{inside}"


def _causes(extra: dict[str, Any], lines: list[str]) -> str:
    """The end of a message about a program that ended before the stop: possible causes."""
    found = [f"its library {missing[1]} was not found" for missing in map(_MISSING_LIBRARY.search, lines) if missing]
    if extra.get("forked"):
        found.append("it forked, and gdb follows only the first process")
    if lines:
        found.append(f"the last that it printed is {' / '.join(lines[-LAST_LINES:])}")
    return "".join(f"; {each}" for each in found)


def drift_failure(stop: dict[str, Any], lines: list[str] | None) -> ToolFailure | None:
    """The failure of a stop whose line no longer contains the card's text; None if it contains the text.

    ``lines`` are the lines of the stop's file; None if the file cannot be read.
    """
    name, number, text = stop["file"], stop["line"], stop["text"]
    found = lines[number - 1] if lines is not None and number <= len(lines) else None
    if found is not None and text in found:
        return None
    if lines is None:
        reason = f"{name} cannot be read"
    else:
        now = "the file is shorter" if found is None else f"it now reads {found.strip()!r}"
        reason = (
            f"line {number} of {name} should hold {text!r}, but {now}; undo the edit, or fetch the card's sources "
            "again with bin/card-session refresh"
        )
    return ToolFailure("source_drift", reason, file=name, line=number, expected=text, found=found)

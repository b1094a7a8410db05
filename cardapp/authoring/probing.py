"""Runs a program under gdb to see whether it reaches a function, and which arguments the function has there."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cardapp.authoring.builds import has_debug_information, run_bounded

PROBE_SECONDS = 20.0
LATE = f"it did not call it within {PROBE_SECONDS:.0f} s"
_HIT = re.compile(r"^(?:Thread .* hit )?Breakpoint 1, (?:0x[0-9a-f]+ in )?(.+?) \(", re.MULTILINE)
_SIGNAL = re.compile(r"received signal (SIG\w+)")
_EXIT = re.compile(r"^@exited (\d+)", re.MULTILINE)
_SOURCE = re.compile(r"^Located in (/.*)$", re.MULTILINE)
_ARGUMENT = re.compile(r"^([A-Za-z_]\w*) = (.*)$")


NOT_CALLED = "name the program with --program, its arguments with --args, its input with --stdin"
NO_DEBUG_INFORMATION = "name a build with debug information, for example --build \"make CFLAGS='-g -O0'\""
BUILT_ELSEWHERE = "remove the object files that are in the repository (make clean), so that the copy builds its own"


@dataclass(frozen=True)
class Probe:
    """The result of running ``program``, a path in the copy.

    ``function`` is gdb's name of the function. It is None if the program cannot be used; then ``detail`` says why, and
    ``remedy`` is one of the constants above. ``arguments`` maps the names of the function's parameters to the values
    that gdb printed.
    """

    program: Path
    function: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    detail: str = ""
    remedy: str = NOT_CALLED


@dataclass(frozen=True)
class Start:
    """How a program is started: its folder, its arguments, and the absolute path of its standard input."""

    folder: Path
    arguments: tuple[str, ...] = ()
    stdin: str | None = None


def probe(copy: Path, program: Path, start: Start, file: str, function: str, line: int) -> Probe:
    """Run ``program`` of the ``copy`` until it calls the function, which ``file`` defines from ``line`` on."""
    if not has_debug_information(copy / program):
        return Probe(program, detail="it was built without -g", remedy=NO_DEBUG_INFORMATION)
    if file.endswith(".rs"):  # gdb knows a function of Rust by a name that begins with the crate's
        return _run(copy, program, start, f"-source {file} -line {line}")
    found = _run(copy, program, start, f"-source {file} -function {function}")
    if found.function is None and found.detail != LATE:
        # gdb may have placed the breakpoint behind a jump, where no call comes by.
        at_entry = _run(copy, program, start, f"*'{file}'::{function}")
        return at_entry if at_entry.function is not None else found
    return found


def _run(copy: Path, program: Path, start: Start, place: str) -> Probe:
    """Run ``program`` until it comes to the breakpoint at ``place``."""
    with tempfile.TemporaryDirectory(prefix="card-new-", dir="/tmp") as folder:
        errors = Path(folder) / "stderr"
        stdin = shlex.quote(start.stdin or os.devnull)
        commands = [
            "set breakpoint pending on",
            "set print elements 1000",
            "handle SIGINT nostop noprint pass",
            "unset environment LINES",
            "unset environment COLUMNS",
            f"break {place}",
            f"run {shlex.join(start.arguments)} < {stdin} > {os.devnull} 2> {shlex.quote(str(errors))}",
            'printf "@exited %d\\n", $_exitcode',
            'printf "@arguments\\n"',
            "info args",
            "info source",
        ]
        options = ["-nx", "-batch", "-iex", "set debuginfod enabled off", "-iex", "set auto-load off"]
        for command in commands:
            options += ["-ex", command]
        ended = run_bounded(["gdb", *options, str(copy / program)], start.folder, _environment(), PROBE_SECONDS)
        last = errors.read_text("utf-8", "replace").splitlines()[-1:] if errors.exists() else []
    if ended is None:
        return Probe(program, detail=LATE)
    return _understood(copy, program, ended[1].decode("utf-8", "replace"), last)


def _environment() -> dict[str, str]:
    """The environment of a session's program."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, "LANG": "C.UTF-8", "TERM": "xterm"}


def _understood(copy: Path, program: Path, output: str, last_error: list[str]) -> Probe:
    hit = _HIT.search(output)
    if hit is not None:
        listed = output.partition("@arguments\n")[2].splitlines()
        arguments = {found[1]: found[2] for line in listed if (found := _ARGUMENT.match(line))}
        source = _SOURCE.search(output)
        if source is not None and not Path(source[1]).is_relative_to(copy):
            return Probe(program, detail=f"it was built from {source[1]}", remedy=BUILT_ELSEWHERE)
        return Probe(program, hit[1], arguments)
    signal, exited = _SIGNAL.search(output), _EXIT.search(output)
    if signal is not None:
        detail = f"it received {signal[1]}"
    elif exited is not None:
        detail = f"it exited with code {exited[1]}"
    else:
        detail = f"gdb said: {' '.join(output.split())[-200:]}"
    said = f"; its last line of stderr: {last_error[0]}" if last_error else ""
    return Probe(program, detail=detail + said)

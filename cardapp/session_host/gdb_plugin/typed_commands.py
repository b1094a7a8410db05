"""Runs the commands of a strategy one after the other, as if the learner had typed them in gdb's window.

They leave no breakpoints, displays or selected frame behind. The caller has checked that they are allowed. gdb calls no
function of the program meanwhile, and writes its memory only for the breakpoints of a command that moves the program.

gdb prints a new stop or a selected frame to its window only. So for commands that change them, the reported output is
that of the command ``frame``, and for ``finish`` also the value that gdb has recorded. A value has its
canonical text.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import gdb

from cardapp.session_host.gdb_plugin import rendering
from cardapp.session_host.gdb_plugin.evaluation import evaluate
from cardapp.session_host.gdb_plugin.frames import frame_with_source
from cardapp.session_host.gdb_plugin.program import Program
from cardapp.session_host.gdb_plugin.stops import Failure
from cardapp.session_host.gdb_plugin.values import read_only, setting

MAX_OUTPUT = 4000
"""The maximum number of characters of one command's output. The rest is dropped."""

_SELECT_FRAME = ("frame", "up", "down")
_VALUE = re.compile(
    r"(?P<name>print|output|display)(?:/(?P<letter>[acdfotuxz]))?\s+(?P<expression>[^-/\s].*)", re.DOTALL
)
"""A command that shows one value. Those with another format or with options show something else."""
_SETTINGS = {"may-call-functions": "off", "style enabled": "off", "width": "unlimited"}


class TypedCommands:
    """One run. ``done`` is called once, with :meth:`Program.state` and ``outputs``, or with an exception.

    A command is ``{name, text}``; those with a name in ``moves`` move the program. No further command begins when
    ``seconds`` have passed; then ``outputs`` is shorter than ``commands``.
    """

    def __init__(
        self,
        program: Program,
        done: Callable[[dict[str, Any] | Exception], None],
        *,
        stop_id: str,
        commands: Sequence[dict[str, str]],
        moves: Sequence[str],
        seconds: float,
    ) -> None:
        state = program.state()
        if state["state"] != "stopped" or state["stop_id"] != stop_id:
            raise Failure("program_not_stopped", "the program has left the snapshot: run the strategy again")
        self._program = program
        self._done = done
        self._commands = list(commands)
        self._moves = frozenset(moves)
        self._deadline = time.monotonic() + seconds
        self._outputs: list[str] = []
        self._breakpoints = {each.number for each in gdb.breakpoints()}
        self._displays: list[re.Match[str]] = []
        self._settings = contextlib.ExitStack()

    def start(self) -> None:
        for name, value in _SETTINGS.items():
            self._settings.enter_context(setting(name, value))
        self._go_on()

    def _go_on(self) -> None:
        """Run commands up to one that moves the program, or to the end."""
        while len(self._outputs) < len(self._commands) and time.monotonic() < self._deadline:
            command = self._commands[len(self._outputs)]
            if command["name"] in self._moves:
                self._move(command["text"])
                return
            self._outputs.append(_bounded(self._look(command["name"], command["text"])))
        self._clean_up()
        self._done(self._program.state() | {"outputs": self._outputs})

    def _move(self, command: str) -> None:
        last = _last_value()

        def moved(outcome: dict[str, Any] | Exception) -> None:
            try:
                told = _told(outcome, last) + self._displayed(outcome)
            except gdb.error as error:  # the program was killed
                told = str(error)
            self._outputs.append(_bounded(told))
            gdb.post_event(self._go_on)

        try:
            self._program.move(moved, command)
        except Failure as error:  # the program has ended
            moved(error)

    def _look(self, name: str, command: str) -> str:
        """Run a command that does not move the program. Returns its output, or gdb's error message."""
        gdb.write(f"{command}\n")
        try:
            with read_only():
                shown = _VALUE.fullmatch(command.strip())
                output = self._shown(shown) if shown is not None else str(gdb.execute(command, to_string=True))
            gdb.write(output)
            if name in _SELECT_FRAME:
                output = gdb.execute("frame", to_string=True)
        except (gdb.error, gdb.MemoryError) as error:
            gdb.write(f"{error}\n")
            output = str(error)
        gdb.write(gdb.parameter("prompt"))
        gdb.flush()
        return output

    def _shown(self, command: re.Match[str]) -> str:
        value = evaluate(command["expression"])
        text = rendering.text(value, command["letter"])
        if command["name"] == "print":
            return f"${gdb.add_history(value)} = {text}\n"
        if command["name"] == "output":
            return text
        self._displays.append(command)
        return f"{len(self._displays)}: {command['expression']} = {text}\n"

    def _displayed(self, outcome: dict[str, Any] | Exception) -> str:
        """The displayed values where the program has stopped."""
        if isinstance(outcome, Exception) or outcome["state"] != "stopped":
            return ""
        lines = []
        for number, command in enumerate(self._displays, 1):
            with read_only(), contextlib.suppress(gdb.error):  # gdb's display, too, leaves out what is out of scope
                text = rendering.text(evaluate(command["expression"]), command["letter"])
                lines.append(f"{number}: {command['expression']} = {text}\n")
        return "".join(lines)

    def _clean_up(self) -> None:
        self._settings.close()
        for each in gdb.breakpoints():
            if each.number not in self._breakpoints:
                each.delete()
        with contextlib.suppress(gdb.error):  # the program may have ended
            frame = frame_with_source()
            if frame is not None:
                frame.select()


def _told(outcome: dict[str, Any] | Exception, last_value: str) -> str:
    """The reported output of a command that has moved the program."""
    if isinstance(outcome, Exception):
        return str(outcome)
    if outcome["state"] != "stopped":
        return f"The program has ended: {outcome['reason']}"
    signal = f"The program received {outcome['reason']}\n" if outcome["reason"] is not None else ""
    value = _last_value()
    returned = f"Value returned is {value}\n" if value != last_value else ""
    return signal + str(gdb.execute("frame", to_string=True)) + returned


def _last_value() -> str:
    """The newest entry of gdb's value history, like ``$3 = 48``; "" if there is none."""
    lines = gdb.execute("show values", to_string=True).rstrip("\n").split("\n$")
    return lines[-1] if len(lines) == 1 else f"${lines[-1]}"


def _bounded(output: str) -> str:
    text = output.rstrip("\n")
    return text if len(text) <= MAX_OUTPUT else f"{text[: MAX_OUTPUT - 1]}…"

"""The program of the chosen session: moves it, and reads where it is, its call stack and its locals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cardapp.card.literal import Constants
from cardapp.errors import ProgramNotStopped
from cardapp.session_client import constants
from cardapp.session_client.link import SessionLink
from cardapp.session_client.session_tools import RUN_COMMANDS

PLACE = ("state", "reason", "file", "line", "function")
ATTEMPTS = 3
COMMANDS_SECONDS = 20.0
"""The session takes at most 14 s: it interrupts a running program, and kills one that ignores this."""


class Program:
    """Methods raise the errors of :meth:`SessionLink.call`."""

    def __init__(self, link: SessionLink) -> None:
        self._link = link

    def move(self, command: str) -> str:
        """Execute ``step``, ``next``, ``finish``, ``continue`` or ``interrupt``, and wait a moment for the next stop.

        Returns the state: stopped, exited or running. Raises :class:`ProgramNotStopped`, and ``Conflict`` with the
        code ``command_refused``, for example when the program is to return from its outermost function. If there is
        nothing to interrupt, the code is ``program_not_running``.
        """
        return str(self._link.call(command, {})["state"])

    def run(self, commands: list[str], stop_id: str) -> dict[str, Any]:
        """Run gdb commands at the stop ``stop_id``.

        Returns ``{state, stop_id, outputs, …}``: where the program is then, and what each command printed. The outputs
        of commands that were not run are missing.

        Raises :class:`ProgramNotStopped` if the program has left the stop, :class:`CommandNotAllowed` otherwise.
        """
        arguments = {"commands": commands, "stop_id": stop_id}
        return self._link.call(RUN_COMMANDS, arguments, seconds=COMMANDS_SECONDS)

    def constants(self, texts: Sequence[str]) -> Constants:
        """What gdb makes of texts with names of the program's constants and types; nothing without a session."""
        return constants.read(self._link.call, texts)

    def read(self) -> dict[str, Any]:
        """``{state, reason, file, line, function, frames, locals}``, all of one moment.

        ``state`` is stopped, running, exited or none. ``frames`` and ``locals`` are empty unless it is stopped.
        Raises :class:`ProgramNotStopped` if the program moves again and again while it is read.
        """
        for _ in range(ATTEMPTS):
            stack, variables = self._link.call("backtrace", {}), self._link.call("locals", {})
            place = {name: variables[name] for name in PLACE}
            if variables["state"] != "stopped":
                return place | {"frames": [], "locals": []}
            if stack["stop_id"] == variables["stop_id"]:
                return place | {"frames": stack["frames"], "locals": variables["locals"]}
        raise ProgramNotStopped("the program moved while it was read: ask again")

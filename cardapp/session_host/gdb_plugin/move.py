"""Moves the program by one of gdb's commands, as if the learner had typed it in gdb's window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gdb

from cardapp.session_host.gdb_plugin.rerun import Ended
from cardapp.session_host.gdb_plugin.stops import Failure


class Move:
    """One command: step, next, finish or continue.

    ``done`` is called once, when the program has stopped or ended, with ``outcome()`` or an exception. gdb runs the
    command in the background, so it can handle other requests meanwhile. Use it in gdb's main thread only.
    """

    def __init__(
        self, command: str, outcome: Callable[[], dict[str, Any]], done: Callable[[dict[str, Any] | Exception], None]
    ) -> None:
        self._command = command
        self._outcome = outcome
        self._done = done
        self.interrupted = False
        self.over = False

    def start(self) -> None:
        gdb.write(f"{self._command}\n")
        try:
            gdb.execute(f"{self._command} &")
        except gdb.error as error:
            gdb.write(f"{error}\n")
            self.finish(Failure("command_refused", f"gdb refuses {self._command}: {error}"))

    def advance(self, _event: gdb.Event | Ended) -> None:
        """Handle a stop or the end of the program."""
        self.finish(self._outcome())

    def finish(self, outcome: dict[str, Any] | Exception) -> None:
        if self.over:
            return
        self.over = True
        # gdb prints no prompt after a command that ran in the background.
        gdb.write(gdb.parameter("prompt"))
        gdb.flush()
        self._done(outcome)

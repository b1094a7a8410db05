"""Used by both command lines: a parser, a progress bar, and output to a pipe whose reader may close it early."""

from __future__ import annotations

import argparse
import os
import select
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, NoReturn

_MISSING = "the following arguments are required"
READER_CLOSED = 128 + signal.SIGPIPE
"""The exit code that a shell reports for a command that SIGPIPE ended."""


class ArgumentParser(argparse.ArgumentParser):
    """A parser that reports a mistyped option even if required arguments are missing. argparse itself reports only the
    missing arguments in this case."""

    _given: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse ``args``. The parser of a subcommand refuses an unknown option itself, so that the usage of this
        subcommand is shown."""
        self._given = list(sys.argv[1:] if args is None else args)
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        unknown = [each for each in takewhile(lambda each: each != "--", self._given) if self._is_unknown(each)]
        if unknown and message.startswith(_MISSING):
            message = f"unrecognized arguments: {' '.join(unknown)}"
        super().error(message)

    def _is_unknown(self, argument: str) -> bool:
        """Whether ``argument`` is an unknown option. argparse also accepts the beginning of an option."""
        name = argument.partition("=")[0]
        return name.startswith("--") and not any(each.startswith(name) for each in self._option_string_actions)


def run_printing(command: Callable[[], int]) -> int:
    """Run ``command`` and return its exit code, or :data:`READER_CLOSED` when the reader of its output closed the pipe.

    :raises BrokenPipeError: another pipe than standard output or standard error was closed.
    """
    try:
        code = command()
        if sys.stdout is not None:  # None if the shell closed standard output (``>&-``)
            sys.stdout.flush()  # raises here instead of during interpreter shutdown
    except BrokenPipeError:
        streams = [stream.fileno() for stream in (sys.stdout, sys.stderr) if stream is not None]
        if not any(map(_is_closed, streams)):
            raise
        # When the interpreter ends, it flushes the buffers again. With /dev/null this causes no further error.
        null = os.open(os.devnull, os.O_WRONLY)
        for stream in streams:
            os.dup2(null, stream)
        return READER_CLOSED
    return code


def _is_closed(pipe: int) -> bool:
    """Whether no process has the pipe's reading end open."""
    poll = select.poll()
    poll.register(pipe, 0)
    return any(event & select.POLLERR for _pipe, event in poll.poll(0))


def end_as_after_ctrl_c() -> None:
    """Let SIGTERM and SIGHUP end this command as Ctrl-C does, so that it stops and removes what it started."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, signal.default_int_handler)


class ProgressBar:
    """A progress bar. It prints nothing if ``shown`` is false or standard output is not a terminal."""

    _WIDTH = 30

    def __init__(self, *, shown: bool = True) -> None:
        self._done = 0
        self._shown = shown and sys.stdout.isatty()

    def note(self, text: str) -> None:
        """Show ``text`` in place of the bar."""
        if self._shown:
            width = shutil.get_terminal_size().columns - 1  # a longer line could not be removed again
            print(f"\r\033[K{text[:width]}", end="", flush=True)

    def advance(self, label: str, total: int) -> None:
        """Count one more of ``total`` items as done. ``label`` names the item. After the last item the count begins
        again."""
        self._done = self._done % total + 1
        full = self._WIDTH * self._done // total
        self.note(f"[{'#' * full:<{self._WIDTH}}] {self._done}/{total} {label}")

    def wipe(self) -> None:
        """Remove the bar, so that a line can be printed in its place."""
        self.note("")

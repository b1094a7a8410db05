"""For both command lines: a parser, a progress bar, and output to a pipe that its reader may close early."""

from __future__ import annotations

import argparse
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, NoReturn

_MISSING = "the following arguments are required"
READER_CLOSED = 128 + signal.SIGPIPE
"""The exit code that a shell reports for a command that SIGPIPE ended."""


class ArgumentParser(argparse.ArgumentParser):
    """A parser that names a mistyped option also when arguments are missing. argparse then names only the latter."""

    _given: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._given = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        unknown = " ".join(each for each in takewhile(lambda each: each != "--", self._given) if self._is_unknown(each))
        super().error(f"unrecognized arguments: {unknown}" if unknown and message.startswith(_MISSING) else message)

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
        # At its end the interpreter flushes the buffers again. /dev/null accepts that without another error.
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


class ProgressBar:
    """A progress bar. It prints nothing if standard output is not a terminal."""

    _WIDTH = 30

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._shown = sys.stdout.isatty()

    def advance(self, label: str) -> None:
        """Count one more item as done. ``label`` names the item."""
        self._done += 1
        if self._shown:
            full = self._WIDTH * self._done // self._total
            text = f"[{'#' * full:<{self._WIDTH}}] {self._done}/{self._total} {label}"[:100]
            print(f"\r\033[K{text}", end="", flush=True)

    def wipe(self) -> None:
        """Remove the bar, so that a line can be printed in its place."""
        if self._shown:
            print("\r\033[K", end="", flush=True)

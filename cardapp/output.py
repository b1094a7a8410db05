"""Standard output of a command, whose reader may go away before its end, as ``head`` does."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

UNREAD = 128 + signal.SIGPIPE
"""The exit code that a shell has for a command whose reader went away."""


def read_to_its_end(command: Callable[[], int]) -> int:
    """The exit code of ``command``, or :data:`UNREAD` where what it prints is not read to its end."""
    try:
        code = command()
        sys.stdout.flush()  # a reader that is gone is met here, and not at the interpreter's end
    except BrokenPipeError:
        # What is still to be printed has to go somewhere.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
        return UNREAD
    return code

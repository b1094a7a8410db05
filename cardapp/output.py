"""What a command prints, whose reader may go away before its end, as ``head`` does."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable

UNREAD = 128 + signal.SIGPIPE
"""The exit code that a shell has for a command whose reader went away."""


def read_to_its_end(command: Callable[[], int]) -> int:
    """The exit code of ``command``, or :data:`UNREAD` where what it prints is not read to its end."""
    try:
        code = command()
        if sys.stdout is not None:  # it is None where a shell closed it (``>&-``)
            sys.stdout.flush()  # a reader that is gone is met here, and not at the interpreter's end
    except BrokenPipeError:
        streams = [stream.fileno() for stream in (sys.stdout, sys.stderr) if stream is not None]
        if not any(map(_is_unread, streams)):
            raise
        # What is still to be printed has to go somewhere.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in streams:
            os.dup2(nowhere, stream)
        return UNREAD
    return code


def _is_unread(pipe: int) -> bool:
    """Whether nobody holds the other end."""
    poll = select.poll()
    poll.register(pipe, 0)
    return any(event & select.POLLERR for _pipe, event in poll.poll(0))

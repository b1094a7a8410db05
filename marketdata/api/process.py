"""The code that is shared by a process that serves the API and by the supervisor of several such processes."""

from __future__ import annotations

import ctypes
import logging
import signal
import sys

from marketdata.http import request_log
from marketdata.settings import Settings

STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})

_M_ARENA_MAX = -8  # malloc.h of glibc
_ARENAS = 2


def prepare_process(settings: Settings) -> None:
    """Set up the log, block the signals that end the process, and limit its memory. Call this before the first thread
    starts."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    request_log.configure(settings.log)
    # The health checks say once that a database does not answer. The pool would repeat it for each of its connections.
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)
    # sigwait is used because a handler could interrupt any step of this code. The signals are blocked before the first
    # thread starts, because threads inherit the mask. They stay blocked, so a second signal has no effect.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    _limit_malloc_arenas()


def print_address(settings: Settings, port: int) -> None:
    """Print where the service answers."""
    host = f"[{settings.api_host}]" if ":" in settings.api_host else settings.api_host
    print(f"http://{host}:{port}", flush=True)  # noqa: T201


def _limit_malloc_arenas() -> None:
    """Limit glibc to two malloc arenas. By default it creates more arenas for more threads, and every arena keeps the
    memory of the largest batch that was handled in it. Other C libraries have no such option."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _ARENAS)

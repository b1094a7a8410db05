"""``card-session start --foreground``: a session that ends with the command that started it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Callable
from types import FrameType

from cardapp.errors import CardAppError, StateError, UsageError
from cardapp.session_host.directory import Record
from cardapp.session_host.lifecycle import Sessions, Started

ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
LOOK_SECONDS = 1.0
"""The interval at which the session's record is checked."""


class _EndRequested(BaseException):
    """One of ``ENDINGS`` arrived. No ``Exception``, so that no handler of errors takes it for one."""


def run(
    sessions: Sessions,
    name: str,
    start: Callable[[], Started],
    announce: Callable[[Started], None],
    report_stop: Callable[[Record], None],
) -> None:
    """``start`` the session ``name``, ``announce`` it, wait for SIGTERM, SIGINT or SIGHUP, and stop it.

    A signal also interrupts the start. A session that ran before is left running. ``report_stop`` is called when
    another command has stopped the session.
    """
    ours = not _runs(sessions, name)
    # The number of a signal is written to this pipe, so one that arrives just before the select ends it as well.
    arrived, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer)
    for number in ENDINGS:
        signal.signal(number, _request_end)
    try:
        started = start()
        ours = not started.already_running
        announce(started)
        while not _is_stopped(sessions, started.record):
            select.select([arrived], [], [], LOOK_SECONDS)
        ours = False  # a session of this name is another one now
        report_stop(started.record)
        while True:
            select.select([arrived], [], [])
    except _EndRequested:
        pass
    finally:
        _ignore_endings()
        if ours:
            # There is none when the start was interrupted early, or when another command has just stopped it.
            with contextlib.suppress(UsageError):
                sessions.stop(name)


def _request_end(_number: int, _frame: FrameType | None) -> None:
    _ignore_endings()  # a second signal would interrupt the stop
    raise _EndRequested


def _ignore_endings() -> None:
    for number in ENDINGS:
        signal.signal(number, signal.SIG_IGN)


def _is_stopped(sessions: Sessions, record: Record) -> bool:
    try:
        # Not the container_id: a reset makes a new container where the former one was removed.
        return sessions.find(record.name)[1].created_at != record.created_at
    except UsageError:
        return True
    except StateError:  # the record is damaged, which a stop does not do
        return False


def _runs(sessions: Sessions, name: str) -> bool:
    try:
        directory, _record = sessions.find(name)
    except CardAppError:
        return False
    return sessions.binding(directory) is not None

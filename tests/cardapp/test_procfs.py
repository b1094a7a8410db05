"""What is read of other processes, on processes of the test's own."""

from __future__ import annotations

import os
import subprocess

from cardapp import procfs


def test_a_process_has_ended_from_its_end_on() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        started = procfs.start_time(process.pid)
        assert started is not None
        assert not procfs.has_ended(process.pid, started, 0.05)
        assert procfs.has_ended(process.pid, started - 1, 0)  # the pid is another process's now
        process.kill()
        assert procfs.has_ended(process.pid, started, 10)  # a zombie, which nobody has waited for yet
    assert procfs.has_ended(process.pid, started, 0)


def test_a_process_of_no_frozen_group_is_not_frozen() -> None:
    assert not procfs.is_frozen(os.getpid())

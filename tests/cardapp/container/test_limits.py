"""The limits of a container: its counters in both versions of control groups, and the end of a program at a limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cardapp.container import limits
from cardapp.container.limits import LimitWatch, Reached
from cardapp.container.profile import Limits
from cardapp.procfs import state
from tests.functional.session_process import eventually

LIMITS = Limits(memory=1024, processes=256, program_seconds=600)
# The files of a container as kernels have them: Linux 6.1 with version 2, and Linux 6.18 with version 1.
FILES = {
    "version 2": {
        "memory.events": "low 0\nhigh 0\nmax 311\noom 4\noom_kill {memory}\noom_group_kill 0\n",
        "pids.events": "max {processes}\n",
    },
    "version 1": {
        "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill {memory}\n",
        "pids/pids.events": "max {processes}\n",
    },
}


@pytest.fixture(params=list(FILES))
def groups(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    write(tmp_path, request.param, Reached(0, 0))
    return tmp_path


def write(groups: Path, version: str, reached: Reached) -> None:
    for name, text in FILES[version].items():
        (groups / name).parent.mkdir(exist_ok=True)
        (groups / name).write_text(text.format(memory=reached.memory, processes=reached.processes))


def rewrite(groups: Path, reached: Reached) -> None:
    write(groups, "version 2" if (groups / "pids.events").exists() else "version 1", reached)


def test_the_counters_are_read(groups: Path) -> None:
    rewrite(groups, Reached(memory=3, processes=14))
    assert Reached.now(groups) == Reached(memory=3, processes=14)


def test_without_counters_no_limit_is_ever_reached(tmp_path: Path) -> None:
    """A normal user's container has none with version 1."""
    assert Reached.now(tmp_path) == Reached(0, 0)
    assert Reached.now(tmp_path).since(Reached.now(tmp_path), LIMITS) is None


@pytest.mark.parametrize(
    ("reached", "words", "key"),
    [
        (Reached(2, 5), "1024 MiB of memory", "(memory)"),
        (Reached(1, 6), "256 processes", "(processes)"),
        (Reached(2, 9), "1024 MiB of memory", "(memory)"),
    ],
)
def test_a_limit_that_was_reached_is_named_with_its_key(reached: Reached, words: str, key: str) -> None:
    reason = reached.since(Reached(1, 5), LIMITS)
    assert reason is not None
    assert words in reason
    assert key in reason


def test_a_limit_that_was_reached_before_is_not_named() -> None:
    assert Reached(1, 5).since(Reached(1, 5), LIMITS) is None


# -- the end of the program --------------------------------------------------------------------------------------------

# Starts processes one after the other, each of which ignores what it can, until there are twelve, and replaces each
# that ends.
FORKING = """
import os, resource, signal, time
resource.setrlimit(resource.RLIMIT_CPU, (60, 65))
os.environ.clear()
children = set()
print("ready", flush=True)
while True:
    while len(children) < 12:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.setsid()
            time.sleep(60)
            os._exit(0)
        children.add(pid)
    try:
        children.discard(os.wait()[0])
    except ChildProcessError:
        children.clear()
"""


@pytest.fixture
def program() -> Iterator[subprocess.Popen[str]]:
    """A program with a limit of CPU time, which starts processes without end."""
    with subprocess.Popen([sys.executable, "-c", FORKING], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        yield started
        limits.kill_program(lambda: family(started))
        started.kill()


def family(program: subprocess.Popen[str]) -> set[int]:
    """Of the processes with a limit of CPU time the program and its children: on this machine there may be others."""
    try:
        children = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
    except OSError:
        return set()  # the program has ended
    return limits.program_processes() & {program.pid, *map(int, children)}


def test_a_program_that_starts_processes_without_end_is_killed_with_them(program: subprocess.Popen[str]) -> None:
    found = family(program)
    assert program.pid in found
    assert limits.kill_program(lambda: family(program)) >= len(found)
    assert program.wait(10) == -signal.SIGKILL
    eventually(lambda: all(state(pid) in (None, "Z") for pid in found))


def test_other_processes_are_not_of_the_program(program: subprocess.Popen[str]) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        found = limits.program_processes()
        other.kill()
    assert program.pid in found
    assert not {os.getpid(), other.pid} & found


def test_a_process_that_a_debugger_has_stopped_stays(program: subprocess.Popen[str]) -> None:
    """It does not run. gdb keeps its checkpoints so, and misses the program's end if they end too."""
    wait = "python print('held', flush=True); import time; time.sleep(60)"
    command = ["gdb", "-nx", "-batch", "-p", str(program.pid), "-ex", wait]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as debugger:
        assert debugger.stdout is not None
        assert "held\n" in debugger.stdout
        limits.kill_program(lambda: family(program))
        held = state(program.pid)
        debugger.kill()
    assert held == "t"


def test_the_watch_kills_at_the_limit_of_processes_and_reports_each_limit(
    groups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[str] = []
    reports: list[str] = []
    reported = threading.Event()
    monkeypatch.setattr(limits, "PERIOD", 0.01)
    monkeypatch.setattr(limits, "kill_program", lambda: len(killed.append("the program") or killed))

    def report(reason: str) -> None:
        reports.append(reason)
        reported.set()

    watch = LimitWatch(LIMITS, report, groups)
    watch.start()
    try:
        for reached in (Reached(1, 0), Reached(1, 7)):
            reported.clear()
            rewrite(groups, reached)
            assert reported.wait(10)
    finally:
        watch.stop(5.0)
    assert ["memory" in reason for reason in reports] == [True, False]
    assert killed == ["the program"]

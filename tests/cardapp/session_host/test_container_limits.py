"""The limits of a container: its counters in both versions of control groups, and the end of a program at a limit."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cardapp.procfs import state
from cardapp.session_host import container_limits
from cardapp.session_host.container_limits import LIMITED_VARIABLE, LimitWatch, Reached
from cardapp.session_host.profile import Limits
from tests.functional.session_process import eventually

LIMITS = Limits(memory=1024, processes=256, program_seconds=600)
# The control group files of a container, as in Linux 6.1 with version 2 and in Linux 6.18 with version 1.
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
def groups(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(LIMITED_VARIABLE, "1")
    write(tmp_path, request.param, Reached(0, 0))
    return tmp_path


def write(groups: Path, version: str, reached: Reached) -> None:
    for name, text in FILES[version].items():
        (groups / name).parent.mkdir(exist_ok=True)
        (groups / name).write_text(text.format(memory=reached.memory, processes=reached.processes))


def rewrite(groups: Path, reached: Reached) -> None:
    write(groups, "version 2" if (groups / "pids.events").exists() else "version 1", reached)


def watch_of(groups: Path, report: Callable[[str], None] = print) -> LimitWatch:
    return LimitWatch(LIMITS, report, groups)


def test_the_counters_of_both_control_group_versions_are_read(groups: Path) -> None:
    rewrite(groups, Reached(memory=3, processes=14))
    assert Reached.now(groups) == Reached(memory=3, processes=14)


def test_without_counters_no_limit_is_ever_reached(tmp_path: Path) -> None:
    assert Reached.now(tmp_path) == Reached(0, 0)
    assert watch_of(tmp_path).reason(Reached(0, 0)) is None


def test_without_limits_the_machines_counters_are_ignored(groups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With version 1, a container without limits sees these values."""
    monkeypatch.delenv(LIMITED_VARIABLE)
    rewrite(groups, Reached(memory=3, processes=14))
    assert Reached.now(groups) == Reached(0, 0)


@pytest.mark.parametrize(
    ("reached", "signal_name", "words", "key"),
    [
        (Reached(2, 5), "SIGKILL", "1024 MiB of memory", "(memory)"),
        (Reached(1, 6), "SIGKILL", "256 processes", "(processes)"),
        (Reached(2, 9), None, "1024 MiB of memory", "(memory)"),
        (Reached(1, 5), "SIGXCPU", "600 s of CPU time", "(program_seconds)"),
    ],
)
def test_a_limit_that_was_reached_is_named_with_its_key(
    groups: Path, reached: Reached, signal_name: str | None, words: str, key: str
) -> None:
    rewrite(groups, reached)
    reason = watch_of(groups).reason(Reached(1, 5), signal_name)
    assert reason is not None
    assert words in reason
    assert key in reason


def test_a_limit_that_was_reached_before_is_not_named(groups: Path) -> None:
    rewrite(groups, Reached(1, 5))
    assert watch_of(groups).reason(Reached(1, 5), "SIGSEGV") is None


# -- the end of the program --------------------------------------------------------------------------------------------

# Starts processes one after the other, until there are twelve. Each ignores all signals that it can ignore. A process
# that ends is replaced.
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
        container_limits.kill_program(lambda: family(started))
        started.kill()


def family(program: subprocess.Popen[str]) -> set[int]:
    """The program and its children, of all processes with a limit of CPU time. This machine may have other such
    processes."""
    try:
        children = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
    except OSError:
        return set()  # the program has ended
    return container_limits.program_processes() & {program.pid, *map(int, children)}


def test_a_program_that_starts_processes_without_end_is_killed_with_them(program: subprocess.Popen[str]) -> None:
    found = family(program)
    assert program.pid in found
    assert container_limits.kill_program(lambda: family(program)) >= len(found)
    assert program.wait(10) == -signal.SIGKILL
    eventually(lambda: all(state(pid) in (None, "Z") for pid in found))


def test_a_process_with_the_sessions_cpu_limit_does_not_belong_to_the_program(program: subprocess.Popen[str]) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        found = container_limits.program_processes()
        other.kill()
    assert program.pid in found
    assert not {os.getpid(), other.pid} & found


def test_a_process_that_a_debugger_has_stopped_is_not_killed(program: subprocess.Popen[str]) -> None:
    """gdb's checkpoints are stopped processes. If they were killed too, gdb would miss the program's end."""
    wait = "python print('held', flush=True); import time; time.sleep(60)"
    command = ["gdb", "-nx", "-batch", "-p", str(program.pid), "-ex", wait]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as debugger:
        assert debugger.stdout is not None
        assert "held\n" in debugger.stdout
        container_limits.kill_program(lambda: family(program))
        held = state(program.pid)
        debugger.kill()
    assert held == "t"


class Watched:
    """A watch with a short period, the exhaustion of processes that a test simulates, and the watch's actions."""

    def __init__(self, groups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reports: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.killed = 0
        self.exhausted = threading.Event()
        monkeypatch.setattr(container_limits, "PERIOD", 0.01)
        monkeypatch.setattr(container_limits, "_can_start_thread", lambda: not self.exhausted.is_set())
        monkeypatch.setattr(container_limits, "kill_program", self.kill)
        self.watch = watch_of(groups, self.reports.put)

    def kill(self) -> int:
        self.killed += 1
        self.exhausted.clear()
        return 1


@pytest.fixture
def watched(groups: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    found = Watched(groups, monkeypatch)
    found.watch.start()
    yield found
    found.watch.stop(5.0)


def test_the_program_is_killed_when_no_process_is_left(watched: Watched) -> None:
    before = watched.watch.reached()
    for _ in range(2):
        watched.exhausted.set()
        assert "(processes)" in watched.reports.get(timeout=10)
    assert watched.killed == 2
    assert "(processes)" in (watched.watch.reason(before) or "")


def test_each_lack_of_memory_is_reported_once(watched: Watched, groups: Path) -> None:
    rewrite(groups, Reached(1, 0))
    assert "(memory)" in watched.reports.get(timeout=10)
    threading.Event().wait(0.1)
    assert watched.reports.empty()
    assert watched.killed == 0


def test_a_refused_process_alone_ends_no_program(watched: Watched, groups: Path) -> None:
    """The program may have handled the refusal. The counter only explains a failed replay."""
    before = watched.watch.reached()
    rewrite(groups, Reached(0, 7))
    threading.Event().wait(0.1)
    assert watched.killed == 0
    assert "(processes)" in (watched.watch.reason(before) or "")

"""The limits of a container: its counters in both versions of control groups, and the end of a program at a limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
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


def test_the_counters_of_both_control_group_versions_are_read(groups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite(groups, Reached(memory=3, processes=14))
    assert Reached.now(groups) == Reached(memory=3, processes=14)
    monkeypatch.delenv(LIMITED_VARIABLE)  # then the counters of version 1 are those of the whole machine
    assert Reached.now(groups) == Reached(0, 0)


def test_without_counters_no_limit_is_ever_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMITED_VARIABLE, "1")
    assert Reached.now(tmp_path) == Reached(0, 0)
    assert LimitWatch(LIMITS, print, tmp_path).reason(Reached(0, 0)) is None


def test_a_limit_that_was_reached_is_named_with_its_key(groups: Path) -> None:
    watch = LimitWatch(LIMITS, print, groups)
    for reached, signal_name, expected in (
        (Reached(2, 5), "SIGKILL", "1024 MiB of memory that the profile allows (memory)"),
        (Reached(1, 6), "SIGKILL", "256 processes that the profile allows (processes)"),
        (Reached(2, 9), None, "1024 MiB of memory that the profile allows (memory)"),
        (Reached(1, 5), "SIGXCPU", "600 s of CPU time that the profile allows (program_seconds)"),
        (Reached(1, 5), "SIGSEGV", None),
    ):
        rewrite(groups, reached)
        assert watch.reason(Reached(1, 5), signal_name) == (expected and f"it used up the {expected}")


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
    with subprocess.Popen(["sleep", "60"]) as other:  # it has the CPU limit of this process
        assert not {os.getpid(), other.pid} & container_limits.program_processes()
        other.kill()
    found = family(program)
    assert program.pid in found
    assert container_limits.kill_program(lambda: family(program)) >= len(found)
    assert program.wait(30) == -signal.SIGKILL
    eventually(lambda: all(state(pid) in (None, "Z") for pid in found))

"""The limits of a container: its counters in both versions of control groups, and the limit that explains a failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from cardapp.session_host.container_limits import LIMITED_VARIABLE, LimitWatch, Reached
from cardapp.session_host.profile import Limits

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

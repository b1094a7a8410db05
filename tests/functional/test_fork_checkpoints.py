"""Replays from fork checkpoints, which are used only if a fork behaves like the program."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.functional.session_process import RunningSession, at, eventually, small_session
from tests.functional.test_session_replay import shown

pytestmark = [pytest.mark.functional]

FIRST = at("mark(1); /* before */")
LATER = at("/* after */")
MARKED = at("/* marked */", 4)


@pytest.fixture(scope="module")
def shared() -> Iterator[RunningSession]:
    with small_session() as running:
        yield running


@pytest.fixture
def session(shared: RunningSession) -> RunningSession:
    """The shared session without a program, without checkpoints, and without processes that an earlier test left."""
    shared.card.behave()
    shared.ask("target_reset")
    for pid in programs(shared):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return shared


def programs(session: RunningSession) -> list[int]:
    """The processes of the target: the program and its checkpoints."""
    return [pid for pid, command in session.processes().items() if command == "target"]


def handles(session: RunningSession) -> set[int]:
    """The processes for which gdb holds a pidfd."""
    held = set()
    for link in Path("/proc", str(session.pid("gdb")), "fdinfo").iterdir():
        with contextlib.suppress(FileNotFoundError):  # gdb has closed it meanwhile
            pid = re.search(r"^Pid:\s*(-?\d+)$", link.read_text(), re.MULTILINE)
            held |= {int(pid[1])} if pid is not None else set()
    return held


def replayed(session: RunningSession, stop: dict[str, Any], **changes: Any) -> tuple[str, dict[str, Any]]:
    """The method of a replay, and everything that it reports about the program."""
    result = session.replay(stop, "count", "letters", "arena", "&arena", "word", **changes)
    return result["method"], {key: result[key] for key in ("file", "line", "function", "values", "allocator")}


def settled(session: RunningSession, count: int, before: list[int] | None = None) -> list[int]:
    """Wait until the target has ``count`` processes, and others than ``before``: checkpoints are taken and deleted
    after the reply."""
    return eventually(lambda: len(found := sorted(programs(session))) == count and found != before and found)


def answered(session: RunningSession, number: int) -> None:
    """Wait until gdb has run the commands that were typed before, and then prints ``number`` twice."""
    session.gdb(f'printf "%d-%d\\n", {number}, {number}')
    eventually(lambda: f"{number}-{number}" in session.screen())


# -- replays from a checkpoint ---------------------------------------------------------------------------------------


def test_a_restarted_stop_has_its_values_and_its_mark(session: RunningSession) -> None:
    ways = [replayed(session, stop) for stop in (FIRST, LATER, MARKED, FIRST, LATER, MARKED, MARKED, FIRST)]
    assert [method for method, _ in ways] == ["rerun"] * 3 + ["fork"] * 5
    assert [reported for _, reported in ways[3:]] == [ways[index][1] for index in (0, 1, 2, 2, 0)]
    assert shown(session) == ("target.c", FIRST["line"], [FIRST["line"]])


def test_the_program_continues_from_a_checkpoint_and_the_checkpoint_is_taken_again(session: RunningSession) -> None:
    _, before = replayed(session, MARKED)
    replayed(session, FIRST)
    # The original process, the program, and the checkpoints of main and of both stops.
    processes = settled(session, 5)
    for _ in range(3):
        assert replayed(session, MARKED) == ("fork", before)
        processes = settled(session, 5, processes)
        session.gdb("finish")
        eventually(lambda: session.state()["function"] == "main")
        stop_id = session.state()["stop_id"]
        session.gdb("set var count = 99")
        eventually(lambda before=stop_id: session.state()["stop_id"] != before)
        line = session.state()["line"]
        session.gdb("next")
        eventually(lambda before=line: session.state()["line"] not in (None, before))


def test_a_fresh_replay_uses_no_checkpoint(session: RunningSession) -> None:
    method, reported = replayed(session, LATER)
    assert replayed(session, LATER) == ("fork", reported)
    assert (method, replayed(session, LATER, fresh=True)) == ("rerun", ("rerun", reported))


def test_a_program_continues_from_a_checkpoint_without_traces_of_the_fork(session: RunningSession) -> None:
    """glibc 2.41 blocks all signals and locks the action of SIGABRT while it forks; older versions cannot fail here."""
    session.card.behave("handler")
    replayed(session, FIRST)
    assert replayed(session, LATER)[0] == "rerun"  # from the checkpoint of main
    assert replayed(session, FIRST)[0] == "fork"
    replayed(session, MARKED)
    # The original process, the program, and the checkpoints of main and of three stops.
    seen = [Path("/proc", str(pid), "status").read_text() for pid in settled(session, 6)]
    assert all(re.search(r"^SigBlk:\s*0+$", status, re.MULTILINE) for status in seen)


# -- where a fork would differ ----------------------------------------------------------------------------------------


def test_a_program_with_shared_files_memory_threads_children_or_timers_is_not_forked(session: RunningSession) -> None:
    for how in ("file", "pipe", "shared", "thread", "daemon", "timer", "alarm"):
        session.card.behave(how)
        ways = [replayed(session, stop)[0] for stop in (LATER, FIRST, LATER)]
        assert ways[::2] == ["rerun"] * 2, how
        replayed(session, FIRST)
        assert replayed(session, FIRST)[0] == "fork", how  # nothing was opened yet


def test_a_rebuilt_program_or_other_arguments_lead_to_a_rerun(session: RunningSession) -> None:
    replayed(session, LATER)
    source = session.work / "probe" / "target.c"
    source.write_text(source.read_text() + "\n")
    assert replayed(session, LATER)[0] == "rerun"
    assert replayed(session, LATER)[0] == "fork"
    session.card.behave("anything")
    assert replayed(session, LATER)[0] == "rerun"


def test_any_command_of_the_learner_leads_to_a_rerun(session: RunningSession) -> None:
    for number, command in enumerate(("checkpoint", "run", "restart 0", "watch count", "kill", "detach"), 10):
        session.gdb("delete")  # with a watchpoint no checkpoint is taken
        answered(session, number + 90)
        _, reported = replayed(session, LATER)
        replayed(session, FIRST)
        # The original process, the program, and the checkpoints of main and of both stops. The last one is taken after
        # the reply. It has to be there before the command, or it would contain what the command did.
        settled(session, 5)
        session.gdb(command)
        answered(session, number)
        assert replayed(session, LATER) == ("rerun", reported), command


def test_a_checkpoint_that_something_else_killed_leads_to_a_rerun(session: RunningSession, rng: random.Random) -> None:
    stops = [LATER, MARKED, FIRST]
    before = [replayed(session, stop)[1] for stop in stops]
    for index in rng.sample(range(6), 3):
        # The original process, the program, and the checkpoints of main and of the three stops.
        os.kill(settled(session, 6)[index], signal.SIGKILL)
        for methods in (["rerun"] * 3, ["fork"] * 3):
            expected = list(zip(methods, before, strict=True))
            assert [replayed(session, stop) for stop in stops] == expected, index


def test_the_checkpoints_end_with_the_program(session: RunningSession) -> None:
    _, reported = replayed(session, LATER)
    replayed(session, FIRST)
    assert replayed(session, LATER)[0] == "fork"
    session.gdb("continue")
    eventually(lambda: session.state()["state"] == "exited")
    assert session.state()["reason"] == "exit code 0"
    eventually(lambda: not programs(session))
    assert replayed(session, LATER) == ("rerun", reported)


def test_only_a_run_from_the_start_decides_that_a_stop_is_not_reached(session: RunningSession) -> None:
    replayed(session, FIRST)
    refusal = session.refusal({"function": "twice", "hits": 5})
    assert (refusal["code"], refusal["reached"]) == ("target_exited", 1)
    method, reported = replayed(session, LATER)
    assert method == "rerun"
    assert replayed(session, FIRST)[0] == "rerun"
    assert replayed(session, LATER) == ("fork", reported)


# -- their number ----------------------------------------------------------------------------------------------------


def test_the_number_of_checkpoints_is_limited_and_a_reset_ends_all(session: RunningSession) -> None:
    stops = [{"function": "mark", "hits": hits} for hits in range(1, 7)]
    stops += [at(text, hits) for text in ("/* marked */", "/* in the loop */") for hits in range(1, 6)]
    twice = ("a->used += size;", "a->count++;", "].offset =", "].size =", "].label =")
    stops += [at(text, hits) for text in twice for hits in (1, 2)]
    stops += [at(text) for text in ("arena.base =", "arena.size =", '"first"', "misbehave(argc", "return 2 * n;")]
    stops += [FIRST, LATER, at("return 0;")]
    assert len(stops) > 33
    assert {replayed(session, stop)[0] for stop in stops} == {"rerun"}
    assert replayed(session, stops[-1])[0] == "fork"
    assert replayed(session, stops[0])[0] == "rerun"  # the oldest was deleted
    # The original process, the program, the checkpoints of main and of 32 stops, and one that is about to be taken.
    eventually(lambda: handles(session) == set(found := programs(session)) and len(found) in (35, 36))
    session.ask("target_reset")
    eventually(lambda: not programs(session) and not handles(session))


# -- whole cards -----------------------------------------------------------------------------------------------------

"""Replays from fork checkpoints, which are used only if a fork behaves like the program."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cardapp.card.catalog import Catalog
from cardapp.card.model import Card
from tests.functional.card_proofs import CARDS, card_session
from tests.functional.card_proofs import replayed as card_replay
from tests.functional.session_process import RunningSession, SessionTool, TestCard, at, eventually, processes_of
from tests.functional.test_session_replay import shown

pytestmark = [pytest.mark.functional, pytest.mark.each_runtime]

FIRST = at("mark(1); /* before */")
LATER = at("/* after */")
MARKED = at("/* marked */", 4)


@pytest.fixture(scope="module")
def tool(runtime: str) -> Iterator[SessionTool]:
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp", ignore_cleanup_errors=True) as state:
        made = SessionTool(Path(state), runtime)
        yield made
        made.stop_all()


@pytest.fixture(scope="module")
def shared(tool: SessionTool, tmp_path_factory: pytest.TempPathFactory) -> RunningSession:
    return RunningSession(tool, TestCard(tmp_path_factory.mktemp("card") / "card"))


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


def parent(pid: int) -> int:
    return int(Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[1])


def handles(session: RunningSession) -> set[int]:
    """The processes for which gdb holds a pidfd."""
    held = set()
    for link in Path("/proc", str(session.pid("gdb")), "fdinfo").iterdir():
        with contextlib.suppress(FileNotFoundError):  # gdb has closed it meanwhile
            pid = re.search(r"^Pid:\s*(-?\d+)$", link.read_text(), re.MULTILINE)
            held |= {int(pid[1])} if pid is not None else set()
    return held


def within(session: RunningSession, expression: str) -> str:
    """The value of a Python expression inside gdb. The name ``replays`` is the plugin's object."""
    output = session.path / "run" / "expression-value"
    output.unlink(missing_ok=True)
    found = "replays = next(each for each in gc.get_objects() if type(each).__name__ == 'Replays')"
    session.gdb(f"python import gc; {found}; print({expression}, file=open('{output}', 'w'), flush=True)")
    return eventually(lambda: output.exists() and output.read_text().strip())


def remove_other_inferiors(session: RunningSession) -> None:
    session.gdb("inferior 1")
    session.gdb("python [gdb.execute(f'remove-inferiors {each.num}') for each in gdb.inferiors() if each.num != 1]")
    eventually(lambda: within(session, "len(gdb.inferiors())") == "1")


def descriptors(session: RunningSession) -> int:
    return len(list(Path("/proc", str(session.pid("gdb")), "fd").iterdir()))


def replayed(session: RunningSession, stop: dict[str, Any], **changes: Any) -> tuple[str, dict[str, Any]]:
    """The method of a replay, and everything that it reports about the program."""
    result = session.replay(stop, "count", "letters", "arena", "&arena", "word", **changes)
    return result["method"], {key: result[key] for key in ("file", "line", "function", "values", "allocator")}


def replayed_after_a_kill(session: RunningSession, stop: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
    """Replay ``stop`` after a process was killed: whether gdb had crashed, and the values at the stop.

    gdb crashes if the process is killed while gdb works on it. Then one replay fails, and the next starts gdb again.
    """
    found = session.call("checkpoint_replay", session.request(stop, "count", "letters", "arena", "&arena", "word"))
    if found.is_error:
        assert found.structured["code"] == "debugger_dead"
        return True, replayed(session, stop)[1]["values"]
    return False, found.structured["values"]


# -- replays from a checkpoint ---------------------------------------------------------------------------------------


def test_a_restarted_stop_has_its_values_and_its_mark(session: RunningSession) -> None:
    ways = [replayed(session, stop) for stop in (FIRST, LATER, MARKED, FIRST, LATER, MARKED, MARKED, FIRST)]
    assert [method for method, _ in ways] == ["rerun"] * 3 + ["fork"] * 5
    assert [reported for _, reported in ways[3:]] == [ways[index][1] for index in (0, 1, 2, 2, 0)]
    assert shown(session) == ("target.c", FIRST["line"], [FIRST["line"]])


def test_the_mark_of_a_restarted_stop_is_removed_when_the_program_continues(session: RunningSession) -> None:
    """The plugin sets this mark, because gdb reports no stop to termdebug. termdebug must find the mark to remove
    it."""
    for stop in (FIRST, LATER, FIRST):
        replayed(session, stop)
    session.gdb("next")
    eventually(lambda: session.state()["line"] not in (None, FIRST["line"]))
    line = session.state()["line"]
    eventually(lambda: shown(session) == ("target.c", line, [line]))


def test_the_program_continues_from_a_checkpoint_and_the_checkpoint_is_taken_again(session: RunningSession) -> None:
    _, before = replayed(session, MARKED)
    replayed(session, FIRST)
    for _ in range(3):
        assert replayed(session, MARKED) == ("fork", before)
        # The checkpoint is taken after the reply. If the program has moved by then, no checkpoint is taken.
        eventually(lambda: within(session, "replays._last_stop[0] in replays._checkpoints") == "True")
        session.gdb("finish")
        eventually(lambda: session.state()["function"] == "main")
        stop_id = session.state()["stop_id"]
        session.gdb("set var count = 99")
        eventually(lambda: session.state()["stop_id"] != stop_id)  # noqa: B023
        line = session.state()["line"]
        session.gdb("next")
        eventually(lambda: session.state()["line"] not in (None, line))  # noqa: B023


def test_output_of_the_program_is_shown_as_it_was(session: RunningSession) -> None:
    session.card.behave("greet")
    replayed(session, LATER)
    eventually(lambda: "hello from the target" in session.screen())
    replayed(session, FIRST)
    eventually(lambda: "hello from the target" not in session.screen())
    assert replayed(session, LATER)[0] == "fork"
    eventually(lambda: "hello from the target" in session.screen())


def test_a_fresh_replay_uses_no_checkpoint(session: RunningSession) -> None:
    method, reported = replayed(session, LATER)
    assert replayed(session, LATER) == ("fork", reported)
    assert (method, replayed(session, LATER, fresh=True)) == ("rerun", ("rerun", reported))


def test_the_state_of_a_restarted_program_is_its_stop_until_it_moves(session: RunningSession) -> None:
    replayed(session, LATER)
    replayed(session, FIRST)
    result = session.replay(LATER, "count")
    state = session.state()
    assert (state["state"], state["line"], state["stop_id"]) == ("stopped", LATER["line"], result["stop_id"])
    session.gdb("next")
    eventually(lambda: session.state()["stop_id"] != result["stop_id"])


def test_a_program_continues_from_a_checkpoint_without_traces_of_the_fork(session: RunningSession) -> None:
    """glibc 2.41 blocks all signals and locks the action of SIGABRT while it forks; older versions cannot fail here."""
    session.card.behave("handler")
    replayed(session, FIRST)
    assert replayed(session, LATER)[0] == "rerun"  # from the checkpoint of main
    assert replayed(session, FIRST)[0] == "fork"
    replayed(session, MARKED)
    # The checkpoint of the last stop is taken after the reply.
    eventually(lambda: within(session, "replays._last_stop[0] in replays._checkpoints") == "True")
    seen = [Path("/proc", str(pid), "status").read_text() for pid in programs(session)]
    assert len(seen) > 3
    assert all(re.search(r"^SigBlk:\s*0+$", status, re.MULTILINE) for status in seen)


# -- where a fork would differ ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how",
    [
        "file",
        "thread",
        *(pytest.param(each, marks=pytest.mark.full) for each in ("pipe", "shared", "daemon", "timer", "alarm")),
    ],
)
def test_a_program_with_shared_files_memory_threads_children_or_timers_is_not_forked(
    session: RunningSession, how: str
) -> None:
    session.card.behave(how)
    ways = [replayed(session, stop)[0] for stop in (LATER, FIRST, LATER, FIRST, LATER)]
    assert ways[::2] == ["rerun"] * 3
    replayed(session, FIRST)
    assert replayed(session, FIRST)[0] == "fork"  # nothing was opened yet


def test_a_rebuilt_program_or_other_arguments_lead_to_a_rerun(session: RunningSession) -> None:
    replayed(session, LATER)
    source = session.work / "probe" / "target.c"
    source.write_text(source.read_text() + "\n")
    assert replayed(session, LATER)[0] == "rerun"
    assert replayed(session, LATER)[0] == "fork"
    session.card.behave("anything")
    assert replayed(session, LATER)[0] == "rerun"


@pytest.mark.parametrize(
    "command",
    [
        "checkpoint",
        "run",
        *(
            pytest.param(each, marks=pytest.mark.full)
            for each in ("restart 0", "watch count", "kill", "detach", "inferior 1\radd-inferior\rinferior 2")
        ),
    ],
)
def test_any_command_of_the_learner_leads_to_a_rerun(session: RunningSession, command: str) -> None:
    _, reported = replayed(session, LATER)
    replayed(session, FIRST)
    session.gdb(command)
    session.gdb('printf "%d-%d\\n", 12, 34')
    eventually(lambda: "12-34" in session.screen())
    again = [replayed(session, stop) for stop in (LATER, FIRST, LATER)]
    assert again[0][1] == again[2][1] == reported
    session.gdb("delete")
    remove_other_inferiors(session)


@pytest.mark.full
def test_with_a_second_inferior_no_checkpoint_is_used(session: RunningSession) -> None:
    _, reported = replayed(session, LATER)
    replayed(session, FIRST)
    session.gdb("add-inferior")
    eventually(lambda: within(session, "len(gdb.inferiors())") == "2")
    assert replayed(session, LATER) == ("rerun", reported)  # though there is a checkpoint of it
    for _ in range(3):
        session.ask("target_reset")
        # If a checkpoint had been taken, a breakpoint left in it would change the program's behaviour.
        assert [replayed(session, stop)[0] for stop in (FIRST, MARKED)] == ["rerun"] * 2
        assert replayed(session, LATER) == ("rerun", reported)
    remove_other_inferiors(session)
    replayed(session, FIRST)
    assert replayed(session, LATER) == ("rerun", reported)
    assert replayed(session, LATER) == ("fork", reported)


@pytest.mark.parametrize("index", [0, *(pytest.param(each, marks=pytest.mark.full) for each in range(1, 6))])
def test_a_checkpoint_that_something_else_killed_leads_to_a_rerun(session: RunningSession, index: int) -> None:
    before = [replayed(session, stop)[1] for stop in (LATER, MARKED, FIRST)]
    # The original process, the program, and the checkpoints of main and of the three stops. The remains of a restart
    # are deleted after the reply.
    eventually(lambda: within(session, "len(replays._checkpoints._numbers), replays._checkpoints._obsolete") == "4 []")
    eventually(lambda: len(programs(session)) == 6)
    os.kill(sorted(programs(session))[index], signal.SIGKILL)
    for methods in (["rerun"] * 3, ["fork"] * 3):
        assert [replayed(session, stop) for stop in (LATER, MARKED, FIRST)] == list(zip(methods, before, strict=True))
    eventually(lambda: len(programs(session)) == 6)


@pytest.mark.full
def test_replays_succeed_after_any_process_is_killed_while_checkpoints_are_taken(
    session: RunningSession, loops: Callable[..., int]
) -> None:
    chosen = random.Random(5)
    values = {stop["line"]: replayed(session, stop)[1]["values"] for stop in (LATER, MARKED, FIRST)}
    laps = loops(quick=15, full=400)
    deaths = 0
    for _ in range(laps):
        replayed_after_a_kill(session, chosen.choice([LATER, MARKED, FIRST]))
        running = programs(session)  # none, if the previous kill hit the shown program
        with contextlib.suppress(ProcessLookupError):
            if running:
                os.kill(chosen.choice(running), signal.SIGKILL)
        for stop in chosen.sample([LATER, MARKED, FIRST], 3):
            died, seen = replayed_after_a_kill(session, stop)
            deaths += died
            assert seen == values[stop["line"]]
    assert deaths <= laps // 15
    session.ask("target_reset")
    eventually(lambda: not programs(session))


def test_a_program_that_is_killed_during_a_fork_leaves_no_process(session: RunningSession) -> None:
    """The kernel has made the child, but gdb does not learn of it, because its parent is dead by then."""
    _, reported = replayed(session, LATER)
    session.card.behave("stop gdb at fork")
    replayed(session, LATER)
    gdb = session.pid("gdb")
    eventually(lambda: len(programs(session)) == 3)  # the program, the checkpoint of main, the new child
    (original,) = (pid for pid in programs(session) if parent(pid) == gdb)
    os.kill(original, signal.SIGKILL)
    os.kill(gdb, signal.SIGCONT)
    session.card.behave()
    assert replayed(session, LATER) == ("rerun", reported)
    session.ask("target_reset")
    eventually(lambda: not programs(session))


def test_gdb_notices_a_stop_after_an_error_that_left_sigchld_blocked(session: RunningSession) -> None:
    _, reported = replayed(session, LATER)
    session.gdb("python import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})")
    assert replayed(session, LATER, fresh=True) == ("rerun", reported)


def test_the_checkpoints_end_with_the_program(session: RunningSession) -> None:
    _, reported = replayed(session, LATER)
    replayed(session, FIRST)
    assert replayed(session, LATER)[0] == "fork"
    session.gdb("continue")
    eventually(lambda: session.state()["state"] == "exited")
    assert session.state()["reason"] == "exit code 0"
    eventually(lambda: not programs(session))
    assert replayed(session, LATER) == ("rerun", reported)


def test_an_exit_before_the_stop_is_reported_from_a_checkpoint_too(session: RunningSession) -> None:
    session.card.behave("exit")
    replayed(session, FIRST)
    refusal = session.refusal(LATER)
    assert (refusal["code"], refusal["exit_code"], refusal["reached"]) == ("target_exited", 7, 0)
    eventually(lambda: not programs(session))


def test_only_a_run_from_the_start_decides_that_a_stop_is_not_reached(session: RunningSession) -> None:
    replayed(session, FIRST)
    refusal = session.refusal({"function": "twice", "hits": 5})
    assert (refusal["code"], refusal["reached"]) == ("target_exited", 1)
    method, reported = replayed(session, LATER)
    assert method == "rerun"
    assert replayed(session, FIRST)[0] == "rerun"
    assert replayed(session, LATER) == ("fork", reported)


# -- their number ----------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_the_number_of_checkpoints_is_limited_and_a_reset_ends_all(session: RunningSession) -> None:
    stops = [{"function": "mark", "hits": hits} for hits in (1, 2, 3, 4, 5, 6)]
    stops += [at(text, hits) for text in ("/* marked */", "/* in the loop */") for hits in range(1, 6)]
    stops += [at("a->used += size;", hits) for hits in (1, 2)] + [at("a->count++;", hits) for hits in (1, 2)]
    stops += [at("a->blocks[a->count].offset", hits) for hits in (1, 2)] + [FIRST, LATER, at("return 2 * n;")]
    stops += [at("arena.base =", 1), at("arena.size =", 1), at('"first"', 1), at('"%d\\n"', 1), at("return 0;", 1)]
    stops += [at("a->blocks[a->count].size", hits) for hits in (1, 2)]
    stops += [at("a->blocks[a->count].label", hits) for hits in (1, 2)] + [at("misbehave(argc", 1)]
    assert len(stops) > 33
    assert {replayed(session, stop)[0] for stop in stops} == {"rerun"}
    assert replayed(session, stops[-1])[0] == "fork"
    assert replayed(session, stops[0])[0] == "rerun"  # the oldest was deleted
    eventually(lambda: len(programs(session)) <= 36)
    eventually(lambda: handles(session) == set(programs(session)))
    # Every checkpoint has a screen, except the one at the current stop.
    assert within(session, "len(replays._screens)") == "31"
    session.ask("target_reset")
    eventually(lambda: not programs(session))
    assert handles(session) == set()


@pytest.mark.full
def test_gdb_holds_no_more_files_after_many_replays(session: RunningSession, loops: Callable[..., int]) -> None:
    held = []
    for _ in range(2):
        for _ in range(loops(quick=10, full=200)):
            replayed(session, LATER)
            replayed(session, FIRST)
        eventually(lambda: within(session, "replays._checkpoints._obsolete") == "[]")
        held.append(descriptors(session))
    assert held[1] <= held[0] + 5  # a connection or a checkpoint under way


@pytest.mark.full
def test_no_checkpoint_outlives_its_session(tool: SessionTool, tmp_path: Path) -> None:
    own = RunningSession(tool, TestCard(tmp_path / "card", "other"), "own")
    for stop in (FIRST, LATER, FIRST):
        replayed(own, stop)
    container = own.ask("session_binding")["container_id"]
    assert len(programs(own)) >= 3
    own.stop()
    eventually(lambda: not processes_of(container, own.path))


# -- whole cards -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [CARDS[0], *(pytest.param(each, marks=pytest.mark.full) for each in CARDS[1:])])
def test_rerun_and_fork_prove_the_same_values(tool: SessionTool, name: str, loops: Callable[..., int]) -> None:
    with card_session(tool, name) as (session, card):
        _prove(session, card, loops(quick=1, full=10), seed=len(name))


def _prove(session: RunningSession, card: Card, laps: int, seed: int) -> None:
    """Each round starts the program again. Then it replays ten snapshots twice and four others once, in random
    order."""
    chosen = random.Random(seed)
    snapshots = Catalog(card).snapshots
    few = chosen.sample(sorted(snapshots), 10)
    proofs: dict[str, dict[str, list[dict[str, Any]]]] = {key: {} for key in snapshots}
    for _ in range(laps):
        first, *others = chosen.sample(sorted(snapshots.keys() - set(few)), 5)
        order = few * 2 + others
        chosen.shuffle(order)
        for key in [first, *order]:
            result, proved = card_replay(session, card, key, snapshots[key], fresh=key == first)
            proofs[key].setdefault(result["method"], []).append(proved)
    for seen in proofs.values():
        reported = [each for method in seen.values() for each in method]
        assert all(each == reported[0] for each in reported)
    assert [sorted(proofs[key]) for key in few] == [["fork", "rerun"]] * len(few)

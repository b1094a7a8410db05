"""Long runs in which parts of a session are killed at random moments."""

from __future__ import annotations

import contextlib
import os
import random
import signal

import pytest

from tests.functional.session_process import RunningSession, eventually
from tests.functional.test_fork_checkpoints import FIRST, LATER, MARKED, programs
from tests.functional.test_session_recovery import NEOVIM, killed_during_a_replay

pytestmark = pytest.mark.functional
KILLS = 30
LAPS = 100


@pytest.mark.parametrize("program", ["gdb", *NEOVIM])
def test_a_session_survives_many_kills(session: RunningSession, program: str, rng: random.Random) -> None:
    for _ in range(KILLS):
        killed_during_a_replay(session, program, rng)


def test_replays_succeed_after_any_process_is_killed_while_checkpoints_are_taken(
    session: RunningSession, rng: random.Random
) -> None:
    """gdb crashes if the process is killed while gdb works on it. Then one replay fails, and the next starts gdb."""
    stops = [LATER, MARKED, FIRST]
    values = {stop["line"]: session.replay(stop, "count", "arena")["values"] for stop in stops}
    deaths = 0
    for _ in range(LAPS):
        session.call("checkpoint_replay", session.request(rng.choice(stops)))
        with contextlib.suppress(ProcessLookupError):
            if running := programs(session):  # none, if the previous kill hit the shown program
                os.kill(rng.choice(running), signal.SIGKILL)
        for stop in rng.sample(stops, 3):
            found = session.call("checkpoint_replay", session.request(stop, "count", "arena"))
            if found.is_error:
                assert found.structured["code"] == "debugger_dead"
                deaths += 1
            else:
                assert found.structured["values"] == values[stop["line"]]
    assert deaths <= LAPS // 10
    session.ask("target_reset")
    eventually(lambda: not programs(session))

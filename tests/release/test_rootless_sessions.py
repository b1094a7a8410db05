"""Sessions in containers of an unprivileged account."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.session_process import RunningSession, TestCard, eventually
from tests.release import small_profile
from tests.release.podman_account import Account, AccountTool, account_with_podman

pytestmark = pytest.mark.functional

HOSTILE = Path(__file__).with_name("hostile.c")
AFTER = {"function": "mark", "hits": 2}
UNIFIED = Path("/sys/fs/cgroup/cgroup.controllers").exists()


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    with account_with_podman() as account:
        yield account


@pytest.fixture(scope="module")
def session(account: Account) -> Iterator[RunningSession]:
    card = TestCard(account.folder / "card")
    shutil.copy(HOSTILE, card.sources / "target.c")
    tool = AccountTool(account)
    yield RunningSession(tool, card, "s", "--profile", small_profile.NAME)
    tool.stop_all()


def replayed(session: RunningSession) -> str:
    session.card.behave()
    value: str = session.replay(AFTER, "n")["values"]["n"]["value"]
    return value


def test_a_replay_runs_as_the_account_and_without_rights(session: RunningSession, account: Account) -> None:
    session.card.behave("run", "cat /proc/self/status >report")
    session.replay(AFTER)
    report = session.work / "probe" / "report"
    assert report.stat().st_uid == account.uid
    assert "CapEff:\t0000000000000000\n" in report.read_text()
    outside = Path(f"/proc/{session.host_pid()}/status").read_text()
    assert f"Uid:\t{account.uid}\t{account.uid}\t" in outside
    assert "CapEff:\t0000000000000000\n" in outside
    assert replayed(session) == "2"


def test_an_ended_server_and_a_killed_container_are_restored(session: RunningSession, account: Account) -> None:
    os.kill(session.host_pid(), signal.SIGKILL)
    eventually(lambda: "no answer" in session.tool.must("list"))
    session.close()
    assert "MCP server" in session.tool.must("reset", "s")
    assert replayed(session) == "2"
    listed = account.podman("ps", "--quiet").stdout.split()
    assert account.podman("kill", *listed).returncode == 0
    eventually(lambda: "exited" in session.tool.must("list"))
    session.close()
    session.tool.must("reset", "s")
    assert replayed(session) == "2"


def test_a_program_that_forks_without_end_is_ended(session: RunningSession) -> None:
    """This also holds with control groups of version 1, where podman cannot set limits for this account."""
    session.card.behave("fork")
    refused = session.refusal(AFTER)
    assert refused["reason"].endswith("(processes)")
    eventually(lambda: not session.call("session_binding").is_error)
    assert replayed(session) == "2"


def test_a_start_says_what_is_not_limited_and_a_stop_leaves_no_process(
    session: RunningSession, account: Account
) -> None:
    session.close()
    session.tool.must("stop", "s")
    start = ("start", "--name", "s", "--profile", small_profile.NAME, str(session.card.folder))
    # With control groups of version 2 podman can limit memory.
    assert ("attention:  memory is not limited" in session.tool.must(*start)) != UNIFIED
    assert "attention:" not in session.tool.must(*start)  # the session is already running
    session.tool.must("stop", "s")
    # Only podman's own process remains, which keeps the account's user namespace open.
    eventually(lambda: set(account.processes().values()) <= {"podman pause"}, 60)

"""A card's program attacks its session, which runs in a container. The damage stays inside, the user is told, and the
session continues."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cardapp.session_host.process import DIRECTORY_VARIABLE, pids_with
from tests.functional.session_process import RunningSession, SessionTool, TestCard, alive, eventually
from tests.release import small_profile

pytestmark = pytest.mark.functional

HOSTILE = Path(__file__).with_name("hostile.c")
BEFORE, AFTER = ({"function": "mark", "hits": hits} for hits in (1, 2))
PROGRAM = "target"
PROCESSES = (small_profile.PROCESSES, "processes")
MEMORY = (f"{small_profile.MEMORY} MiB", "memory")
SECONDS = (f"{small_profile.SECONDS} s of CPU time", "program_seconds")


@pytest.fixture(scope="module")
def place(session_image: None) -> Iterator[Path]:
    """A folder with a short path, for the sockets below it."""
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def shared(place: Path) -> Iterator[RunningSession]:
    (place / "state").mkdir(mode=0o700)
    tool = SessionTool(place / "state")
    tool.environment["PYTHONPATH"] = str(small_profile.repository(place / "repository"))
    card = TestCard(place / "card")
    shutil.copy(HOSTILE, card.sources / "target.c")
    yield RunningSession(tool, card, "s", "--profile", small_profile.NAME)
    tool.stop_all()


@pytest.fixture
def session(shared: RunningSession) -> Iterator[RunningSession]:
    """The session of all these tests. After each it must be usable, with the parts that it had before."""
    check_usable(shared)
    yield shared
    check_usable(shared)


def check_usable(session: RunningSession) -> None:
    session.card.behave()
    eventually(lambda: not session.call("session_binding").is_error)
    assert session.replay(AFTER, "n", fresh=True)["values"]["n"]["value"] == "2"


def parts(session: RunningSession) -> set[int]:
    """The processes of the session itself."""
    return {pid for pid, name in session.processes().items() if name != PROGRAM}


def names_limit(text: str, limit: tuple[Any, str]) -> bool:
    """Whether the text names the limit that was reached, and the key of the profile that sets it."""
    return f"it used up the {limit[0]} " in text and text.endswith(f"that the profile allows ({limit[1]})")


def message(session: RunningSession) -> str:
    """The first line of Neovim's message area."""
    row = "&lines - &cmdheight + 1"
    return session.editor(f"join(map(range(1, &columns), {{_, column -> screenstring({row}, column)}}), '')").strip()


def report_of(session: RunningSession, command: str) -> str:
    """The output of a program that runs the shell command ``command``."""
    script = session.card.folder / "script"
    script.write_text(command)
    session.card.behave("run", f"sh {script} >report 2>&1")
    session.replay(AFTER, fresh=True)
    return (session.work / session.card.document["id"] / "report").read_text()


def assert_ended(session: RunningSession, signal: str, limit: tuple[Any, str], *behaviour: str) -> None:
    """The program is ended at the limit, and nothing else."""
    before = parts(session)
    session.card.behave(*behaviour)
    refused = session.refusal(AFTER, timeout_ms=60_000)
    assert (refused["code"], refused["signal"]) == ("target_crashed", signal), behaviour
    assert names_limit(refused["reason"], limit), refused
    assert parts(session) == before


# -- memory, processes and time --------------------------------------------------------------------------------------


def test_a_program_is_ended_at_each_limit_and_nothing_else(session: RunningSession) -> None:
    assert_ended(session, "SIGKILL", MEMORY, "eat")
    assert not Path("oom").exists()  # podman's monitor writes one into the folder where the session was started
    for how in ("fork", "deaf-fork"):
        assert_ended(session, "SIGKILL", PROCESSES, how)
        check_usable(session)
    assert_ended(session, "SIGXCPU", SECONDS, "burn")
    session.card.behave("deaf-burn")
    assert session.refusal(AFTER, timeout_ms=60_000)["signal"] == "SIGKILL"


def test_a_process_that_hides_and_forks_without_end_is_ended(session: RunningSession) -> None:
    """The process has left the program's environment, its parent and its terminal."""
    session.card.behave("deaf-fork", "leave")
    session.call("checkpoint_replay", session.request(AFTER))
    eventually(lambda: names_limit(message(session), PROCESSES), 60)
    eventually(lambda: not hidden_processes(session), 60)


def test_a_program_that_the_learner_continues_into_a_limit_is_ended(session: RunningSession) -> None:
    for how, limit in (("deaf-fork", PROCESSES), ("eat", MEMORY)):
        before = parts(session)
        session.card.behave(how, "later")
        session.replay(AFTER)
        session.gdb("continue")
        eventually(lambda: names_limit(message(session), limit), 60)  # noqa: B023
        # While no further process can be started, a call is refused as busy.
        eventually(lambda: session.call("debugger_state").structured.get("reason") == "killed by SIGKILL", 60)
        assert parts(session) == before
        check_usable(session)


def hidden_processes(session: RunningSession) -> list[int]:
    """The processes of the container that were started from ``/proc/self/exe``, as the hidden process is."""
    space = os.readlink(f"/proc/{session.host_pid()}/ns/pid")
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            if entry.name.isdigit() and (entry / "comm").read_text().strip() == "exe":
                found += [int(entry.name)] if os.readlink(entry / "ns" / "pid") == space else []
    return [pid for pid in found if alive(pid)]


# -- files -----------------------------------------------------------------------------------------------------------


def test_the_program_writes_to_run_work_and_tmp_only(session: RunningSession) -> None:
    """So it changes nothing of the repository, the card, the database and other sessions."""
    find = r"find / \( -path /proc -o -path /sys -o -path /dev \) -prune -o ! -type l -writable -print 2>/dev/null"
    kernel = "sh -c 'echo x >/proc/sys/kernel/core_pattern' 2>/dev/null && echo /proc/sys/kernel/core_pattern"
    written = {Path(path) for path in report_of(session, f"{find}\n{kernel}").splitlines()}
    allowed = (session.path / "run", session.work, Path("/tmp"))
    assert [path for path in written if not any(path.is_relative_to(each) for each in allowed)] == []
    assert written >= set(allowed)


def test_a_file_has_a_limit_and_so_has_tmp(session: RunningSession) -> None:
    script = "dd if=/dev/zero of=big bs=1 count=1 seek=1G; ls big; head -c 100M /dev/zero >/tmp/full; rm -f /tmp/full"
    found = report_of(session, script)
    assert "File size limit exceeded" in found or "File too large" in found
    assert "No space left on device" in found


def test_a_program_that_wrecks_the_folder_of_the_sockets_does_not_keep_the_session_from_starting(
    session: RunningSession,
) -> None:
    run = session.path / "run"
    wreck = "rm -rf * && mkdir mcp.sock nvim.sock tmux.sock && mkfifo host.log gdb.sock && chmod 0 ."
    session.card.behave("run", f"cd {run} && {wreck}")
    session.call("checkpoint_replay", session.request(AFTER))
    session.close()
    session.tool.must("stop", session.name)
    session.card.behave()
    session.tool.must("start", "--name", session.name, "--profile", small_profile.NAME, str(session.card.folder))


# -- rights, network -------------------------------------------------------------------------------------------------


def test_the_program_has_no_rights_and_no_network(session: RunningSession) -> None:
    found = report_of(session, "cat /proc/self/status; setpriv --reuid=1 true || echo refused; mount -t tmpfs x /mnt")
    status = dict(line.split(":\t", 1) for line in found.splitlines() if ":\t" in line)
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert "refused" in found
    assert "permission denied" in found
    # It has the lowest priority, so the session can end a program that starts processes without end.
    nice, *network = report_of(session, "nice; ls /sys/class/net; tail -n +2 /proc/net/route").split()
    assert (nice, network) == ("19", ["lo"])


def test_addresses_are_the_same_in_each_run(session: RunningSession) -> None:
    first, second = (session.replay(BEFORE, "&n", fresh=True)["values"]["&n"] for _ in range(2))
    assert first == second
    assert first["error"] is None


# -- signals and processes -------------------------------------------------------------------------------------------


def test_a_program_that_kills_or_stops_all_processes_is_undone_by_a_reset(session: RunningSession) -> None:
    session.card.behave("kill-all")
    with pytest.raises(Exception, match="gone"):
        session.refusal(AFTER)
    eventually(lambda: "exited" in session.tool.must("list"))
    session.close()
    session.tool.must("reset", session.name)
    check_usable(session)
    session.card.behave("stop-all")
    request = session.request(AFTER)
    with pytest.raises(Exception, match="not answered"):
        session.client.call_tool("checkpoint_replay", request, timeout=3, maximum=3)
    session.close()
    session.tool.must("reset", session.name)


def test_a_process_that_has_left_the_program_is_reaped_and_ends_with_the_session(
    session: RunningSession, place: Path
) -> None:
    session.card.behave("sleep", "leave")
    session.replay(AFTER)
    hidden = eventually(lambda: hidden_processes(session))
    zombies = "sh -c 'true &'; i=0; while grep -l '^State:.Z' /proc/[0-9]*/status && [ $i -lt 100 ]; do "
    zombies += "sleep 0.1; i=$((i + 1)); done >/dev/null; grep -l '^State:.Z' /proc/[0-9]*/status"
    assert report_of(session, zombies) == ""
    session.close()
    session.tool.must("stop", session.name)
    assert list(pids_with(str(session.path), DIRECTORY_VARIABLE)) == []
    assert not any(alive(pid) for pid in hidden)
    session.card.behave()
    session.tool.must("start", "--name", session.name, "--profile", small_profile.NAME, str(place / "card"))

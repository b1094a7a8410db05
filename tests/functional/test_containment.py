"""A card's program attacks its session, which runs in a container. The damage stays inside, the user is told, and the
session continues."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cardapp.session_host.process import DIRECTORY_VARIABLE, pids_with
from tests.functional import small_profile
from tests.functional.runtimes import image_or_skip
from tests.functional.session_process import RunningSession, SessionTool, TestCard, alive, eventually

pytestmark = [pytest.mark.functional, pytest.mark.full, pytest.mark.podman]

HOSTILE = Path(__file__).with_name("hostile.c")
BEFORE, AFTER = ({"function": "mark", "hits": hits} for hits in (1, 2))
PROGRAM = "target"
PROCESSES = (small_profile.PROCESSES, "processes")
MEMORY = (f"{small_profile.MEMORY} MiB", "memory")
SECONDS = (f"{small_profile.SECONDS} s of CPU time", "program_seconds")


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder with a short path, for the sockets below it."""
    image_or_skip()
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def tool(place: Path) -> Iterator[SessionTool]:
    (place / "state").mkdir(mode=0o700)
    found = small_profile.tool_of(small_profile.repository(place / "repository"), place / "state")
    yield found
    found.stop_all()


@pytest.fixture(scope="module")
def shared(place: Path, tool: SessionTool) -> RunningSession:
    card = TestCard(place / "card")
    shutil.copy(HOSTILE, card.sources / "target.c")
    return RunningSession(tool, card, "s", "--profile", small_profile.NAME)


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


# -- memory and processes --------------------------------------------------------------------------------------------


def test_the_kernel_ends_a_program_that_uses_up_the_memory_and_nothing_else(session: RunningSession) -> None:
    before = parts(session)
    session.card.behave("eat")
    refused = session.refusal(AFTER)
    assert (refused["code"], refused["signal"]) == ("target_crashed", "SIGKILL")
    assert names_limit(refused["reason"], MEMORY)
    assert parts(session) == before
    assert not Path("oom").exists()  # podman's monitor writes one into the folder where the session was started


@pytest.mark.parametrize("how", ["fork", "deaf-fork"])
def test_a_program_that_forks_without_end_is_ended(session: RunningSession, how: str) -> None:
    before = parts(session)
    session.card.behave(how)
    refused = session.refusal(AFTER)
    assert (refused["code"], refused["signal"]) == ("target_crashed", "SIGKILL")
    assert names_limit(refused["reason"], PROCESSES)
    assert parts(session) == before


@pytest.mark.parametrize("how", ["fork", "deaf-fork"])
def test_a_process_that_hides_and_forks_without_end_is_ended(session: RunningSession, how: str) -> None:
    """The process has left the program's environment, its parent and its terminal."""
    session.card.behave(how, "leave")
    session.call("checkpoint_replay", session.request(AFTER))
    eventually(lambda: names_limit(message(session), PROCESSES))
    eventually(lambda: not hidden_processes(session))


def hidden_processes(session: RunningSession) -> list[int]:
    """The processes of the container that were started from ``/proc/self/exe``, as the hidden process is."""
    space = os.readlink(f"/proc/{session_pid(session)}/ns/pid")
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            if entry.name.isdigit() and (entry / "comm").read_text().strip() == "exe":
                found += [int(entry.name)] if os.readlink(entry / "ns" / "pid") == space else []
    return [pid for pid in found if alive(pid)]


def session_pid(session: RunningSession) -> int:
    """The process of the MCP server."""
    return int(json.loads((session.path / "session.json").read_text())["host"]["pid"])


@pytest.mark.parametrize(("how", "limit"), [("fork", PROCESSES), ("deaf-fork", PROCESSES), ("eat", MEMORY)])
def test_a_program_that_the_learner_continues_into_a_limit_is_ended(
    session: RunningSession, how: str, limit: tuple[Any, str]
) -> None:
    before = parts(session)
    session.card.behave(how, "later")
    session.replay(AFTER)
    session.gdb("continue")
    eventually(lambda: names_limit(message(session), limit))
    # While no further process can be started, a call is refused as busy.
    eventually(lambda: session.call("debugger_state").structured.get("reason") == "killed by SIGKILL")
    assert parts(session) == before


# -- time ------------------------------------------------------------------------------------------------------------


def test_a_program_that_uses_up_its_cpu_time_is_ended(session: RunningSession) -> None:
    session.card.behave("burn")
    refused = session.refusal(AFTER, timeout_ms=60_000)
    assert (refused["code"], refused["signal"]) == ("target_crashed", "SIGXCPU")
    assert names_limit(refused["reason"], SECONDS)


def test_a_program_that_ignores_the_end_of_its_cpu_time_is_killed(session: RunningSession) -> None:
    session.card.behave("deaf-burn")
    assert session.refusal(AFTER, timeout_ms=60_000)["signal"] == "SIGKILL"


def test_a_program_that_the_learner_continues_stops_at_the_end_of_its_cpu_time(session: RunningSession) -> None:
    session.card.behave("burn", "later")
    session.replay(AFTER)
    session.gdb("continue")
    eventually(lambda: session.state()["reason"] == "SIGXCPU", seconds=60)
    eventually(lambda: f"{small_profile.SECONDS} s of CPU time (program_seconds)" in session.editor(GDB_WINDOW))


GDB_WINDOW = "join(getbufline(bufnr('gdb$'), 1, '$'), '')"


# -- files -----------------------------------------------------------------------------------------------------------


def test_the_program_writes_to_run_work_and_tmp_only(session: RunningSession) -> None:
    """Devices are excluded. /dev, /proc and /sys belong to the kernel: see the next test."""
    script = r"find / \( -path /proc -o -path /sys -o -path /dev \) -prune -o ! -type l -writable -print 2>/dev/null"
    written = {Path(path) for path in report_of(session, script).splitlines()}
    allowed = (session.path / "run", session.work, Path("/tmp"))
    assert [path for path in written if not any(path.is_relative_to(each) for each in allowed)] == []
    assert written >= set(allowed)


def test_the_program_changes_nothing_of_the_repository_the_card_and_the_session(
    session: RunningSession, place: Path
) -> None:
    state, other = session.tool.state, session.tool.state / "sessions" / "other" / "session.json"
    (state / "card-state").write_bytes(b"the database")
    other.parent.mkdir()
    other.write_text("{}")
    outside = [
        place / "repository" / "etc" / "card-session.ini",
        state / "card-state",
        state / "mcp-choice.json",
        session.card.folder / "src" / "target.c",
        session.path / "session.json",
        session.path / "lock",
        other,
    ]
    # The state directory itself is mounted in /workspace only. The rest of its path belongs to the container.
    inside = [
        "/workspace/etc/card-session.ini",
        "/workspace/.state/card/card-state",
        "/workspace/.state/card/mcp-choice.json",
        "/workspace/.state/card/sessions/other/session.json",
        *outside[3:6],
        "/proc/sys/kernel/core_pattern",
        "/etc/passwd",
    ]
    before = {path: path.read_bytes() for path in outside}
    attempts = [
        f"for attempt in 'echo x >{path}' 'echo x >{path}.new' 'rm {path}' 'chmod 777 {path}' 'mv {path} {path}.old'; "
        'do sh -c "$attempt" && echo "succeeded: $attempt"; done'
        for path in inside
    ]
    assert "succeeded" not in report_of(session, "\n".join(attempts))
    assert {path: path.read_bytes() for path in outside} == before
    shutil.rmtree(other.parent)


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


def test_the_program_has_no_rights_and_can_get_none(session: RunningSession) -> None:
    found = report_of(session, "cat /proc/self/status; setpriv --reuid=1 true || echo refused; mount -t tmpfs x /mnt")
    status = dict(line.split(":\t", 1) for line in found.splitlines() if ":\t" in line)
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert "refused" in found
    assert "permission denied" in found


def test_the_program_has_the_lowest_priority(session: RunningSession) -> None:
    """So the session can end a program that starts processes without end."""
    assert report_of(session, "nice").strip() == "19"


def test_the_program_has_no_network(session: RunningSession) -> None:
    assert report_of(session, "ls /sys/class/net; cat /proc/net/route").split() == ["lo", *ROUTE_COLUMNS]


ROUTE_COLUMNS = ["Iface", "Destination", "Gateway", "Flags", "RefCnt", "Use", "Metric", "Mask", "MTU", "Window", "IRTT"]


def test_addresses_are_the_same_in_each_run(session: RunningSession) -> None:
    first, second = (session.replay(BEFORE, "&n", fresh=True)["values"]["&n"] for _ in range(2))
    assert first == second
    assert first["error"] is None


# -- signals and processes -------------------------------------------------------------------------------------------


def test_a_program_that_kills_all_processes_ends_the_container_and_a_reset_restores_it(session: RunningSession) -> None:
    session.card.behave("kill-all")
    with pytest.raises(Exception, match="gone"):
        session.refusal(AFTER)
    eventually(lambda: "exited" in session.tool.must("list"))
    session.close()
    session.tool.must("reset", session.name)


def test_a_program_that_stops_all_processes_is_undone_by_a_reset(session: RunningSession) -> None:
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
    zombies = report_of(session, "sh -c 'sleep 0.01 &'; sleep 0.1; grep -l '^State:.Z' /proc/[0-9]*/status")
    assert zombies == ""
    session.close()
    session.tool.must("stop", session.name)
    assert list(pids_with(str(session.path), DIRECTORY_VARIABLE)) == []
    assert not any(alive(pid) for pid in hidden)
    session.card.behave()
    session.tool.must("start", "--name", session.name, "--profile", small_profile.NAME, str(place / "card"))

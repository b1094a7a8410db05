"""``card-session`` as a program: every command, every message that names a remedy, and nothing left after a stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import pytest

from cardapp.mcp.client import McpClient
from cardapp.procfs import command_line, start_time
from cardapp.session_host.commands import main
from tests.functional.attached_terminal import AttachedTerminal
from tests.functional.session_process import (
    RunningSession,
    SessionTool,
    TestCard,
    at,
    eventually,
    processes_of,
    small_session,
)

pytestmark = pytest.mark.functional


@pytest.fixture(scope="module")
def shared() -> Iterator[RunningSession]:
    """A running session for the tests that do not change it."""
    with small_session() as running:
        yield running


def choice(tool: SessionTool) -> dict[str, str]:
    found: dict[str, str] = json.loads((tool.state / "mcp-choice.json").read_text())
    return found


def refused(tool: SessionTool, *arguments: str) -> tuple[int | str | None, str]:
    """The exit code and the errors of a command that starts no process, so that it may run in this one."""
    with patch.dict(os.environ, tool.environment), redirect_stderr(StringIO()) as said:
        try:
            return main(arguments), said.getvalue()
        except SystemExit as ended:
            return ended.code, said.getvalue()


def test_a_start_is_done_when_the_session_answers_and_a_stop_leaves_nothing(tool: SessionTool, card: TestCard) -> None:
    output = tool.must("start", str(card.folder))
    path = tool.state / "sessions" / "probe"
    client = McpClient.connect(str(path / "run" / "mcp.sock"), timeout=5)
    binding = client.call_tool("session_binding", {}, timeout=5, maximum=5).structured
    client.close()
    assert binding["container_id"] in output
    assert binding["card"]["uuid"] == card.document["uuid"]
    assert binding["card_source"] == str(card.folder / "card_source.json")
    assert binding["source_directory"] == str(path / "work" / "probe")
    assert (binding["profile"], binding["target"], binding["runtime"]) == ("local", "probe", "local")
    assert binding["editor"] == {"socket": str(path / "run" / "nvim.sock"), "available": True, "reason": None}
    assert binding["debugger"] == {"available": True, "reason": None}
    pid = json.loads((path / "session.json").read_text())["host"]["pid"]
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert binding["instance"] == f"{boot}:{pid}:{start_time(pid)}"
    assert choice(tool) == {"name": "probe", "socket": str(path / "run" / "mcp.sock")}

    session = RunningSession.of(tool, "probe")
    card.behave("daemon")
    session.replay(at("/* after */"))  # the program has left a child process
    assert {"nvim", "gdb", "tmux: server", "target"} <= set(session.processes().values())
    session.close()
    output = tool.must("stop", "probe")
    assert str(session.work / "probe") in output
    assert processes_of(binding["container_id"], path) == {}
    assert not list(path.rglob("*.sock"))
    assert not (tool.state / "mcp-choice.json").exists()
    assert tool.run("stop", "probe").returncode == 2


def test_only_the_owner_can_read_the_sessions_files(shared: RunningSession) -> None:
    for path in (shared.tool.state, shared.tool.state / "sessions", shared.path):
        assert path.stat().st_mode & 0o077 == 0, path
    for name in ("mcp.sock", "gdb.sock"):
        assert (shared.path / "run" / name).stat().st_mode & 0o777 == 0o600


def test_a_second_start_reports_that_the_session_runs(shared: RunningSession) -> None:
    before = shared.ask("session_binding")
    again = shared.tool.must("start", "--name", "s", str(shared.card.folder))
    assert "runs already" in again
    assert before["container_id"] in again
    assert shared.ask("session_binding") == before


def test_a_name_that_is_in_use_or_unknown_is_refused_with_the_remedy(shared: RunningSession, tmp_path: Path) -> None:
    other = TestCard(tmp_path / "other", "other")
    code, said = refused(shared.tool, "start", "--name", "s", str(other.folder))
    assert (code, "card-session stop s" in said, "--name" in said) == (1, True, True), said
    for command in ("select", "refresh", "attach", "mcp"):
        code, said = refused(shared.tool, command, "nosuch")
        assert (code, "nosuch" in said, "known: s" in said) == (2, True, True), (command, said)


def test_the_choice_of_a_running_session_is_kept_until_another_one_is_selected(shared: RunningSession) -> None:
    tool, card = shared.tool, shared.card
    output = tool.must("start", "--name", "second", str(card.folder / "card_source.json"))
    assert "card-session select second" in output
    assert choice(tool)["name"] == "s"
    tool.must("select", "second")
    assert choice(tool)["name"] == "second"
    rows = [line.split() for line in tool.must("list").splitlines()]
    assert ["*", "second", "probe", "local", "running", "up", "up", "none"] in rows
    assert ["s", "probe", "local", "running", "up", "up", "none"] in rows
    assert "yes" in tool.must("start", "--name", "s", "--select", str(card.folder))
    assert choice(tool)["name"] == "s"
    tool.must("select", "second")
    tool.must("stop", "second")
    assert not (tool.state / "mcp-choice.json").exists()
    tool.must("start", "--name", "s", str(card.folder))
    assert choice(tool)["name"] == "s"


def test_wrong_usage_ends_with_exit_code_2(tool: SessionTool, card: TestCard, tmp_path: Path) -> None:
    for arguments, named in (
        ((), "COMMAND"),
        (("fly",), "fly"),
        (("start", "--profile", "nosuch", str(card.folder)), "local-in-place"),
        (("start", "--name", "No Good", str(card.folder)), "No Good"),
        (("start", str(tmp_path)), "card_source.json"),
        (("start", "--foreground", str(card.folder)), "start --foreground needs a --name"),
        (("reset",), "card-session start"),
    ):
        code, said = refused(tool, *arguments)
        assert (code, named in said) == (2, True), (arguments, said)
    assert "card-session start" in tool.must("list")


def test_missing_programs_are_named_all_at_once(tool: SessionTool, card: TestCard, tmp_path: Path) -> None:
    few = tmp_path / "bin"
    few.mkdir()
    for name in ("gcc", "make"):
        (few / name).symlink_to(f"/usr/bin/{name}")
    done = tool.run("start", str(card.folder), PATH=str(few))
    assert done.returncode == 3
    assert "nvim, gdb, tmux" in done.stderr
    assert "apt-get install neovim gdb tmux" in done.stderr
    assert not list(tool.state.glob("sessions/*/session.json"))


class Endless:
    """A build of the card that does not end."""

    def __init__(self, card: TestCard) -> None:
        self._seconds = str(1_000_000 + os.getpid())  # identifies the process
        (card.sources / "Makefile").write_text(f"all:\n\texec sleep {self._seconds}\n")

    def runs(self) -> bool:
        pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return any(command_line(pid) == ["sleep", self._seconds] for pid in pids)

    def interrupted(self, tool: SessionTool, *arguments: str) -> tuple[int, bytes]:
        """The exit code of a command that is interrupted during its build, and its standard error."""
        with subprocess.Popen(tool.command(*arguments), env=tool.environment, stderr=subprocess.PIPE) as process:
            eventually(self.runs)
            process.send_signal(signal.SIGINT)
            output = process.communicate(timeout=60)[1]
        return process.returncode, output


def test_an_interrupted_start_leaves_neither_build_nor_session(tool: SessionTool, card: TestCard) -> None:
    build = Endless(card)
    assert build.interrupted(tool, "start", str(card.folder)) == (128 + signal.SIGINT, b"")
    eventually(lambda: not build.runs())
    assert not list(tool.state.glob("sessions/*/session.json"))


def test_a_stop_keeps_edits_and_a_refresh_backs_them_up_and_can_be_interrupted(session: RunningSession) -> None:
    copy = session.work / "probe"
    edited = (copy / "target.c").read_text().replace("return 2 * n;", "return 5 * n;")
    (copy / "target.c").write_text(edited)
    session.stop()
    makefile = session.card.sources / "Makefile"
    makefile.write_text(makefile.read_text() + "# changed\n")
    output = session.tool.must("start", "--name", "s", str(session.card.folder))
    assert "edited by you and kept: target.c" in output
    assert (copy / "target.c").read_text() == edited
    assert (copy / "Makefile").read_text().endswith("# changed\n")
    assert session.replay(at("return 0;"), "count")["values"]["count"]["value"] == "72"

    output = session.tool.must("refresh")
    assert "target.c.orig" in output
    assert (copy / "target.c.orig").read_text() == edited
    assert "return 2 * n;" in (copy / "target.c").read_text()
    assert session.replay(at("return 0;"), "count")["values"]["count"]["value"] == "30"
    assert "return 2 * n;" in session.editor("join(getbufline('target.c', 1, '$'))")

    build = Endless(session.card)
    assert build.interrupted(session.tool, "refresh") == (128 + signal.SIGINT, b"")
    eventually(lambda: not build.runs())
    assert session.state()["alive"]


def test_the_sources_may_be_edited_in_place(tool: SessionTool, card: TestCard) -> None:
    session = RunningSession(tool, card, "s", "--profile", "local-in-place")
    binding = session.ask("session_binding")
    assert binding["profile"] == "local-in-place"
    assert binding["source_directory"] == str(card.sources)
    assert session.replay(at("/* after */"))["file"] == "target.c"
    assert not [path for path in session.path.glob("work*/*") if path.is_dir()]
    session.stop()


def test_the_bridge_transports_mcp_over_standard_streams(shared: RunningSession) -> None:
    with subprocess.Popen(
        shared.tool.command("mcp"),
        env=shared.tool.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    ) as bridge:
        assert bridge.stdin is not None
        assert bridge.stdout is not None
        client = McpClient(bridge.stdout, bridge.stdin, timeout=20)
        answer = client.call_tool("debugger_state", {}, timeout=10, maximum=10)
        assert answer.structured["alive"]
        client.close()
        assert bridge.wait(10) == 0


def test_attach_shows_the_session_and_detach_ends_it(shared: RunningSession) -> None:
    with AttachedTerminal(shared.tool, 120, 40):
        eventually(lambda: "xterm-256color" in shared.tmux("list-clients"))
        assert "target.c" in shared.screen()
        assert "detached" in shared.tool.must("detach")
        eventually(lambda: not shared.tmux("list-clients").strip())
    assert "no terminal is attached" in shared.tool.must("detach")
    assert shared.tool.run("attach").returncode == 2

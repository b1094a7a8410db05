"""Each part of a session is killed with SIGKILL, and the session is restored."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from cardapp.mcp.client import ToolResult
from tests.functional.program_cards import session_tool
from tests.functional.session_process import (
    RunningSession,
    SessionTool,
    TestCard,
    at,
    eventually,
    line_of,
    processes_of,
)

pytestmark = [pytest.mark.functional]

STOPS = [at("/* before */"), at("/* after */"), at("/* marked */", 3)]
NEOVIM = ["nvim", "nvim-terminal"]
"""Neovim's processes: the server and the terminal UI, which are one process before Neovim 0.9."""
DEAD = {"debugger_dead", "editor_dead", "editor_blocked"}
"""The codes that a replay may fail with when its gdb or its Neovim was killed."""


@pytest.fixture(scope="module")
def tool() -> Iterator[SessionTool]:
    yield from session_tool()


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> TestCard:
    return TestCard(tmp_path_factory.mktemp("card") / "card")


@pytest.fixture
def session(tool: SessionTool, card: TestCard) -> Iterator[RunningSession]:
    """The session that the previous test restored; a new session if that test stopped it."""
    card.behave()
    if (tool.state / "sessions" / "s" / "session.json").exists():
        running = RunningSession.of(tool, "s")
        running.card = card
    else:
        running = RunningSession(tool, card)
    yield running
    running.close()


def kill(session: RunningSession, pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: pid not in session.processes())


def container_id(session: RunningSession) -> str:
    found: str = json.loads((session.path / "session.json").read_text())["container_id"]
    return found


def test_a_dead_neovim_is_reported_and_restarted(session: RunningSession) -> None:
    for program in NEOVIM:
        before = session.ask("session_binding")
        parts = session.processes().keys() - {session.host_pid()}
        kill(session, session.pid(program))
        eventually(lambda parts=parts: not parts & session.processes().keys())
        eventually(lambda: not session.state()["editor_alive"])
        assert session.state()["alive"] is False
        binding = session.ask("session_binding")
        assert binding["editor"]["available"] is False
        assert binding["editor"]["reason"]
        assert "down" in session.tool.must("list")
        assert "Neovim, gdb" in session.tool.must("reset"), program
        assert session.ask("session_binding") == before
        session.replay(at("/* marked */"))
        assert session.editor("line('.')") == str(line_of("/* marked */"))


def test_a_dead_gdb_is_restarted_and_edits_are_kept(session: RunningSession) -> None:
    session.replay(at("/* before */"))
    session.editor("setline(1, '// not yet saved')")
    first = session.state()["stop_id"]
    kill(session, session.pid("gdb"))
    eventually(lambda: not session.state()["alive"])
    assert session.state()["editor_alive"] is True
    assert session.ask("session_binding")["debugger"]["available"] is False
    assert "gdb" in session.tool.must("reset")
    assert session.editor("getbufline('target.c', 1)[0]") == "// not yet saved"
    assert session.state()["stop_id"].split("-")[0] != first.split("-")[0]
    session.check_usable()
    terminals = [name for name in session.processes().values() if name == "tail"]
    assert len(terminals) == 2  # the terminals of the ended gdb are gone


def test_a_session_survives_kills_at_any_moment(session: RunningSession, rng: random.Random) -> None:
    for program in ("gdb", "gdb", *NEOVIM):
        killed_during_a_replay(session, program, rng)


def killed_during_a_replay(session: RunningSession, program: str, rng: random.Random) -> None:
    """Kill a program at a random moment of a replay. The next replay succeeds, and what was killed is gone."""
    for stop in rng.choices(STOPS, k=2):
        session.replay(stop, "count")
    ended = {session.pid(each) for each in ("gdb", *NEOVIM)} if program in NEOVIM else {session.pid(program)}
    answers: list[ToolResult] = []
    request = session.request(rng.choice(STOPS), "count")
    replay = threading.Thread(target=lambda: answers.append(session.call("checkpoint_replay", request)))
    victim = session.pid(program)
    replay.start()
    replay.join(rng.random() * 0.15)
    kill(session, victim)
    replay.join(60)
    assert not answers[0].is_error or answers[0].structured["code"] in DEAD, answers[0].text
    session.check_usable()
    assert not ended & session.processes().keys()
    eventually(lambda: list(session.processes().values()).count("target") <= len(STOPS) + 4)


def test_a_dead_server_is_restarted_and_the_editor_keeps_running(session: RunningSession) -> None:
    before = session.ask("session_binding")
    session.replay(at("/* before */"))
    session.editor("setline(1, '// not yet saved')")
    editor = session.pid("nvim")
    kill(session, session.host_pid())
    session.close()
    done = session.tool.run("select", "s")
    assert done.returncode == 1
    assert "card-session reset s" in done.stderr
    assert "no answer" in session.tool.must("list")
    assert "MCP server" in session.tool.must("reset")
    after = session.ask("session_binding")
    assert after["container_id"] == before["container_id"]
    assert after["instance"] != before["instance"]
    assert session.pid("nvim") == editor
    assert session.editor("getbufline('target.c', 1)[0]") == "// not yet saved"
    session.check_usable()


def test_a_server_that_hangs_is_replaced(session: RunningSession) -> None:
    hung = session.host_pid()
    session.close()
    os.kill(hung, signal.SIGSTOP)
    assert "MCP server" in session.tool.must("reset")
    assert hung not in session.processes()
    session.check_usable()


def test_a_dead_terminal_takes_neovim_with_it_and_both_come_back(session: RunningSession) -> None:
    kill(session, session.pid("tmux: server"))
    eventually(lambda: "nvim" not in session.processes().values())
    session.tool.must("reset")
    session.check_usable()
    assert session.screen().strip()


def test_a_session_without_living_processes_is_started_anew(session: RunningSession) -> None:
    before = container_id(session)
    session.close()
    for pid in session.processes():
        with suppress(ProcessLookupError):  # it may have ended together with a process that was killed before
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: not session.processes())
    assert list(session.path.rglob("*.sock"))
    output = session.tool.must("start", "--name", "s", str(session.card.folder))
    assert "runs already" not in output
    assert container_id(session) != before
    session.check_usable()


def test_a_stop_works_whatever_died_before(session: RunningSession) -> None:
    session.card.behave("loop")
    session.replay(at("/* before */"))
    session.gdb("continue")
    eventually(lambda: session.state()["state"] == "running")
    left = session.processes()
    session.close()
    for pid in (session.host_pid(), session.pid("nvim")):
        os.kill(pid, signal.SIGKILL)
    session.tool.must("stop", "s")
    assert not [pid for pid in left if os.path.exists(f"/proc/{pid}/exe")]


def damage(session: RunningSession) -> tuple[str, set[int]]:
    """Kill the server and damage the record. Returns the session's mark and the processes that still run."""
    mark = container_id(session)
    session.close()
    kill(session, session.host_pid())
    (session.path / "session.json").write_text("{")
    left = processes_of(mark, session.path)
    assert {"nvim", "gdb", "tmux: server"} <= set(left.values())
    return mark, set(left)


def test_a_damaged_record_is_reported_and_a_stop_ends_its_processes(session: RunningSession) -> None:
    mark, _ = damage(session)
    assert "damaged" in session.tool.must("list")
    for command in ("reset", "refresh", "attach", "select"):
        done = session.tool.run(command, "s")
        assert done.returncode == 1, command
        assert "is damaged" in done.stderr
        assert "card-session stop s" in done.stderr
    output = session.tool.must("stop", "s")
    assert str(session.work) in output
    assert not processes_of(mark, session.path)
    assert "no session" in session.tool.must("list")


def test_a_start_after_the_server_died_leaves_nothing_of_the_old_session(session: RunningSession) -> None:
    old = set(session.processes())
    session.close()
    os.kill(session.host_pid(), signal.SIGKILL)
    session.tool.must("start", "--name", "s", str(session.card.folder))
    assert not old & set(session.processes())
    mark, old = damage(session)
    session.tool.must("start", "--name", "s", str(session.card.folder))
    assert container_id(session) != mark
    assert not old & set(session.processes())
    session.check_usable()


def test_a_session_whose_directory_is_removed_ends(session: RunningSession) -> None:
    """Otherwise no command could find and stop it."""
    mark, path = container_id(session), session.path
    session.close()
    shutil.rmtree(path)
    eventually(lambda: not processes_of(mark, path))

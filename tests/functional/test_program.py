"""gdb's commands move the program, and its call stack and locals are read: over the API and by the session's tools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from cardapp.settings import ROOT
from tests.functional.program_cards import ProgramSession, program_session
from tests.functional.serving import Stage, running_stage, until
from tests.functional.session_neovim import Neovim
from tests.functional.session_process import RunningSession, at, eventually, small_session

pytestmark = [pytest.mark.functional]

# -- the shipped cards, over the API -----------------------------------------------------------------------------------


class Walk(NamedTuple):
    """A stop of a shipped card, the stack and some locals there, and the place to which each command leads."""

    stop: str
    functions: list[str]
    locals: dict[str, str]
    moves: list[tuple[str, str, str]]


WALK = Walk(
    "tokens/cursor/first-token/blanks/entered",
    ["token_read", "lesson_tokens", "main"],
    {"lexer": "struct lexer *", "start": "int"},
    [
        ("step", "token.c", "while (lexer->text[lexer->cursor] == ' '"),
        ("finish", "token.c", "int start = lexer->cursor;\n    return"),
        ("next", "token.c", "return read_from(lexer, start);\n}\n\nstruct"),
    ],
)
PC_SIGNS = """
local found = {}
for _, buffer in ipairs(vim.api.nvim_list_bufs()) do
  for _, sign in ipairs(vim.fn.sign_getplaced(buffer, { group = '*' })[1].signs) do
    local window = vim.fn.win_findbuf(buffer)[1]
    local name = vim.fn.fnamemodify(vim.api.nvim_buf_get_name(buffer), ':t')
    table.insert(found, { name, sign.lnum, window and vim.api.nvim_win_get_cursor(window)[1] or 0 })
  end
end
return found
"""
"""File and line of every sign that marks the program's place, and the line of the cursor in that file's window."""


@pytest.fixture(scope="module")
def shipped() -> Iterator[Stage]:
    """The application and a session on a shipped card."""
    with running_stage(lambda _folder: ROOT / "etc" / "cards" / "calc") as stage:
        yield stage


@pytest.fixture
def walk(shipped: Stage) -> Iterator[tuple[Stage, Walk, Neovim]]:
    """The program is at the stop of the walk, and SYNC is on."""
    stage = shipped
    ids = dict(zip(("task_id", "block_id", "phase_id", "step_id", "snapshot_ref"), WALK.stop.split("/"), strict=True))
    assert stage.tcp.put("/api/navigation/current", {**ids, "focus_level": "snapshot"}).status == 200
    assert stage.tcp.post("/api/navigation/sync").status == 200
    neovim = Neovim(stage)
    yield stage, WALK, neovim
    neovim.close()


def line_in(stage: Stage, file: str, text: str) -> int:
    """The number of the line of a source file at which ``text``, which occurs once, begins."""
    source = (stage.card / "src" / file).read_text()
    assert source.count(text) == 1, text
    return source[: source.index(text)].count("\n") + 1


def test_each_command_moves_the_program_and_the_editor_follows(walk: tuple[Stage, Walk, Neovim]) -> None:
    stage, (stop, *_, moves), neovim = walk
    before = stage.tcp.get("/api/events?limit=1000")["last_seq"]
    for command, file, text in moves:
        line = line_in(stage, file, text)
        answer = stage.tcp.post(f"/api/program/{command}", {"actor": "ada"})
        assert (answer.status, answer.headers["Cache-Control"]) == (200, "no-store"), answer.body
        assert (answer.json["state"], answer.json["file"], answer.json["line"]) == ("stopped", file, line)
        assert stage.tcp.get("/api/program") == answer.json
        until(lambda at=[file, line, line]: neovim.lua(PC_SIGNS) == [at])
    control = stage.tcp.get("/api/control/state")
    assert (control["sync"], control["reason"], control["key"]) == ("off", "target_ran_on", stop)
    events = stage.tcp.get(f"/api/events?after={before}")["events"]
    assert [(each["kind"], each["actor"]) for each in events if each["kind"] != "sync.off"] == [
        ("program.moved", "ada") for _ in moves
    ]
    assert [(each["kind"], each["actor"]) for each in events][1] == ("sync.off", "ada")
    assert [each["data"]["command"] for each in events if each["kind"] == "program.moved"] == [
        move[0] for move in moves
    ]


def test_the_call_stack_and_the_locals_are_those_of_the_stop(walk: tuple[Stage, Walk, Neovim]) -> None:
    stage, (_, functions, variables, _), _ = walk
    found = stage.tcp.get("/api/program")
    assert [frame["function"] for frame in found["frames"]] == functions
    assert [frame["level"] for frame in found["frames"]] == [*range(len(functions))]
    innermost = found["frames"][0]
    assert (innermost["file"], innermost["line"]) == (found["file"], found["line"])
    assert {each["name"]: each["type"] for each in found["locals"]}.items() >= variables.items()
    assert stage.tcp.get("/api/control/state")["sync"] == "on"


def test_a_program_that_runs_to_its_end_says_so_and_a_sync_brings_it_back(walk: tuple[Stage, Walk, Neovim]) -> None:
    stage, (stop, *_), neovim = walk
    ended = stage.tcp.post("/api/program/continue").json
    assert (ended["state"], ended["reason"]) == ("exited", "exit code 0")
    assert (ended["file"], ended["frames"], ended["locals"]) == (None, [], [])
    until(lambda: neovim.lua(PC_SIGNS) == [])
    assert stage.tcp.get("/api/control/state")["reason"] == "program_exited"
    for command in ("step", "continue"):
        refused = stage.tcp.post(f"/api/program/{command}")
        assert (refused.status, refused.json["code"]) == (409, "program_not_stopped")
        assert "sync" in refused.json["detail"]
    assert stage.tcp.post("/api/navigation/sync").json["snapshot_ref"] == stop
    assert stage.tcp.get("/api/program")["state"] == "stopped"


# -- other programs, by the session's tools ----------------------------------------------------------------------------


def refusal(session: RunningSession, command: str) -> dict[str, Any]:
    result = session.call(command)
    assert result.is_error, result.structured
    found: dict[str, Any] = result.structured
    return found


@pytest.fixture(scope="module")
def shared() -> Iterator[RunningSession]:
    with small_session() as running:
        yield running


@pytest.fixture
def session(shared: RunningSession) -> Iterator[RunningSession]:
    yield shared
    shared.card.behave()
    shared.ask("target_reset")


def test_before_the_first_start_there_is_nothing_to_move_or_read(session: RunningSession) -> None:
    found = refusal(session, "next")
    assert (found["code"], found["reason"]) == ("program_not_stopped", "no program runs: sync")
    assert session.ask("backtrace")["frames"] == []
    assert session.ask("locals")["locals"] == []


def test_a_running_program_can_be_interrupted_and_read(session: RunningSession) -> None:
    session.card.behave("loop")
    session.replay(at("/* before */"))
    assert refusal(session, "interrupt")["code"] == "program_not_running"
    assert session.ask("continue")["state"] == "running"
    assert (session.ask("backtrace")["frames"], session.ask("locals")["locals"]) == ([], [])
    assert refusal(session, "next")["code"] == "program_not_stopped"
    stopped = session.ask("interrupt")
    assert (stopped["state"], stopped["reason"], stopped["function"]) == ("stopped", "SIGINT", "misbehave")
    assert session.ask("locals")["locals"][0]["value"] == '"loop"'
    session.gdb("print 6 * 7")  # gdb shows its prompt again
    eventually(lambda: "(gdb) print 6 * 7" in session.screen())
    session.card.behave("deaf")
    session.replay(at("/* before */"))
    session.ask("continue")
    assert session.ask("interrupt")["state"] == "running"
    session.check_usable()  # a replay ends the loop


def test_a_crash_is_a_stop_and_the_next_continue_is_the_end(session: RunningSession) -> None:
    session.card.behave("crash")
    session.replay(at("/* before */"))
    crashed = session.ask("continue")
    assert (crashed["state"], crashed["reason"], crashed["function"]) == ("stopped", "SIGSEGV", "crash")
    assert [frame["function"] for frame in session.ask("backtrace")["frames"]] == ["crash", "misbehave", "main"]
    ended = session.ask("continue")
    assert (ended["state"], ended["reason"]) == ("exited", "killed by SIGSEGV")


def test_the_outermost_function_cannot_be_finished(session: RunningSession) -> None:
    session.replay(at("/* before */"))
    found = refusal(session, "finish")
    assert found["code"] == "command_refused"
    assert "outermost frame" in found["reason"]
    assert session.ask("next")["state"] == "stopped"  # the refused command has not moved the program


def test_a_program_that_waits_for_input_goes_on_when_it_gets_some(session: RunningSession) -> None:
    session.card.behave("stdin")
    session.replay(at("/* before */"))
    session.gdb("tbreak mark if n == 5")
    eventually(lambda: "Temporary breakpoint" in session.screen())
    assert session.ask("continue")["state"] == "running"
    channel = "luaeval(\"vim.bo[require('card.windows').program].channel\")"
    session.editor(f'chansend({channel}, "four\\n")')
    stopped = eventually(lambda: (found := session.state())["state"] == "stopped" and found)
    assert stopped["function"] == "mark"


RECURSION = """
static int dive(int depth)
{
    int here = depth;
    char text[] = "a\\"b";
    {
        double here = 0.5;
        if (depth == 100)
            return (int)(here + text[0]); /* the bottom */
    }
    return dive(depth + 1) + here;
}

int main(void)
{
    struct { int x; const char *wild; } odd = {1, (const char *)8};
    int many[1000] = {0};
    char long_text[300];
    for (int i = 0; i < 300; i++)
        long_text[i] = (char)('a' + i % 26);
    many[1] = 1;
    return dive(0) + odd.x; /* the dive */
}
"""


@pytest.fixture(scope="module")
def deep() -> Iterator[ProgramSession]:
    with program_session("prog: main.c\n\t$(CC) -g -O0 -o $@ main.c\n", {"main.c": RECURSION}) as started:
        yield started


def test_a_deep_call_stack_is_cut_and_inner_variables_hide_outer_ones(deep: ProgramSession) -> None:
    deep.replay(deep.card.at("/* the bottom */", "main.c"))
    frames = deep.ask("backtrace")["frames"]
    assert [frame["level"] for frame in frames] == [*range(64)]
    assert {frame["function"] for frame in frames} == {"dive"}
    assert {frame["file"] for frame in frames} == {"main.c"}
    assert deep.ask("locals")["locals"] == [
        {"name": "depth", "type": "int", "value": "100"},
        {"name": "text", "type": "char [4]", "value": '"a\\"b"'},
        {"name": "here", "type": "double", "value": "0.5"},
    ]


def test_long_values_are_cut_and_wild_pointers_are_shown(deep: ProgramSession) -> None:
    deep.replay(deep.card.at("/* the dive */", "main.c"))
    found = {each["name"]: each["value"] for each in deep.ask("locals")["locals"]}
    assert found["odd"] == "{x = 1, wild = * <error: Cannot access memory at address *>}"
    assert found["many"] == "{0, 1, 0 <repeats 998 times>}"
    assert found["long_text"] == f'"{("abcdefghijklmnopqrstuvwxyz" * 8)[:200]}"…'

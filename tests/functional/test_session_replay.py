"""Replays in a real session: their results and failures. The session stays usable after each failure."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.functional.session_process import RECIPE, RunningSession, at, eventually, line_of, small_session

pytestmark = [pytest.mark.functional]


@pytest.fixture(scope="module")
def shared() -> Iterator[RunningSession]:
    """One session for all tests that leave it usable."""
    with small_session() as running:
        yield running


KILL = "python import os; os.kill(gdb.selected_inferior().pid, 9)"


@pytest.fixture
def session(shared: RunningSession) -> Iterator[RunningSession]:
    """The shared session; after the test it must still work."""
    shared.card.behave()
    yield shared
    shared.check_usable()


def shown(session: RunningSession) -> tuple[str, int, list[int]]:
    """The file and line of the code window, and the lines with a PC sign there."""
    window = "filter(range(1, winnr('$')), {_, w -> getwinvar(w, '&buftype') == ''})[0]"
    file = session.editor(f"fnamemodify(bufname(winbufnr({window})), ':t')")
    placed = f"sign_getplaced(winbufnr({window}), {{'group': '*'}})[0].signs"
    signs = session.editor(f"join(map(filter({placed}, {{_, s -> s.name ==# 'debugPC'}}), {{_, s -> s.lnum}}))")
    return file, int(session.editor(f"line('.', win_getid({window}))")), [int(line) for line in signs.split()]


# -- what a replay answers -------------------------------------------------------------------------------------------


def test_a_replay_answers_place_and_values(session: RunningSession) -> None:
    got = session.replay(at("/* after */"), "count", "word", "nothing", "letters", "colour", "arena.blocks[0]", "&zero")
    assert (got["file"], got["line"], got["function"]) == ("target.c", line_of("/* after */"), "main")
    assert got["method"] == "rerun"
    values = {name: found["value"] for name, found in got["values"].items()}
    assert values["count"] == "14"
    assert values["word"] == '"word"'
    assert values["nothing"] == "0x0"
    assert values["letters"] == '"abc"'
    assert values["colour"] == "GREEN"
    assert values["arena.blocks[0]"] == '{offset = 0, size = 2, label = * "first"}'
    assert values["&zero"] == "* <zero>"


def test_a_replay_stops_at_the_given_hit_with_the_given_arguments(session: RunningSession) -> None:
    assert session.replay(at("/* marked */", 3), "n")["values"]["n"]["value"] == "11"
    assert session.replay({"function": "mark", "hits": 6}, "n")["values"]["n"]["value"] == "14"
    session.card.behave("none", "two words", "$HOME;'\"", "")
    got = session.replay(at("/* before */"), "argc", "argv[2]", "argv[3]", "argv[4]")
    values = [got["values"][name]["value"] for name in ("argc", "argv[2]", "argv[3]", "argv[4]")]
    assert values == ["5", '"two words"', '"$HOME;\'\\""', '""']


def test_an_expression_fails_alone_and_neither_calls_nor_changes_anything(session: RunningSession) -> None:
    got = session.replay(at("/* marked */"), "nowhere", "(twice)(4)", "count", "*(int *)0")
    values = got["values"]
    assert "No symbol" in values["nowhere"]["error"]
    assert "may-call-functions" in values["(twice)(4)"]["error"]
    assert "memory" in values["*(int *)0"]["error"].lower()
    assert all(values[name]["value"] is None for name in values if name != "count")


def test_values_do_not_depend_on_the_learners_settings(session: RunningSession) -> None:
    session.replay(at("/* after */"))
    settings = ("set output-radix 16", "set print pretty on", "set print elements 2", "set language pascal")
    for command in (*settings, "show language"):
        session.gdb(command)
    eventually(lambda: '"pascal"' in session.screen())
    got = session.replay(at("/* after */"), "count", "letters")
    assert got["values"]["count"]["value"] == "14"
    assert got["values"]["letters"]["value"] == '"abc"'
    session.gdb("set output-radix 10")


def test_the_arena_is_read_by_its_recipe(session: RunningSession) -> None:
    got = session.replay(at("/* after */"), allocator=RECIPE)
    arena = got["allocator"]
    assert arena["base"] > 0
    assert (arena["size"], arena["used"], arena["high_water"]) == (8, 5, None)
    assert arena["blocks"] == [{"offset": 0, "size": 2, "label": "first"}, {"offset": 2, "size": 3, "label": None}]
    assert got["allocator_error"] is None
    got = session.replay(at("/* after */"), allocator=RECIPE | {"used": "no_such_arena.used"})
    assert got["allocator"] is None
    assert "no_such_arena" in got["allocator_error"]
    for recipe in ({"base": "arena.base"}, RECIPE | {"colour": "red"}, RECIPE | {"base": 7}):
        assert session.refusal(at("/* after */"), allocator=recipe)["code"] == "bad_recipe", recipe


# -- what the learner sees -------------------------------------------------------------------------------------------


def test_no_line_is_marked_when_the_program_runs_or_has_ended(session: RunningSession) -> None:
    for command in ("continue", "kill", "detach", KILL, KILL):  # the last one after a restart of a checkpoint
        session.replay(at("/* before */"))
        assert shown(session)[2] == [line_of("/* before */")]
        session.gdb(command)
        eventually(lambda: session.state()["state"] in ("none", "exited") and not shown(session)[2])


def test_the_code_window_is_opened_again_and_its_buffer_replaced(session: RunningSession) -> None:
    session.replay(at("/* before */"))
    session.editor("execute('enew | only')")
    session.editor("execute('buffer ' .. bufnr('gdb$'))")
    session.replay(at("/* after */"))
    assert shown(session)[:2] == ("target.c", line_of("/* after */"))
    session.editor("execute('wincmd t | edit Makefile')")
    session.replay(at("/* after */"))
    assert shown(session)[:2] == ("target.c", line_of("/* after */"))


@pytest.mark.parametrize(
    "keys",
    [":echo 1 | echo 2 | echo 3 | echo 4\r", "r", "d", "i", ":half a comm", "q:", ":call input('say: ')\r", ":Gdb\ri"],
)
def test_an_editor_that_waits_is_freed(shared: RunningSession, keys: str) -> None:
    shared.editor(f'nvim_input("{keys}")'.replace("\r", "<CR>"))
    shared.replay(at("/* after */"))
    assert shown(shared)[:2] == ("target.c", line_of("/* after */"))
    assert not shared.editor("join(filter(getbufline(1, 1, '$'), {_, l -> l =~ 'half a comm'}))")


def test_an_editor_that_is_busy_is_left_alone_until_it_is_reset(session: RunningSession) -> None:
    session.editor(r'nvim_input("<C-\\><C-N>:while 1 | endwhile<CR>")')  # after a replay, keys go to gdb's prompt
    refusal = session.refusal(at("/* after */"))
    assert refusal["code"] == "editor_blocked"
    answer = session.ask("target_reset")
    assert answer["editor_restarted"] is False


def test_a_reset_brings_the_windows_back_to_their_places(session: RunningSession) -> None:
    session.replay(at("/* before */"))
    layout = session.editor("string(winlayout())")
    places = "string(map(range(1, winnr('$')), {_, w -> win_screenpos(w) + [winwidth(w), winheight(w)]}))"
    before = session.editor(places)
    session.editor("execute('wincmd t | only | split | enew')")
    assert session.editor("string(winlayout())") != layout
    session.editor("execute('only')")
    session.ask("target_reset")
    assert session.editor(places) == before


def test_a_stop_that_termdebug_does_not_show_is_shown_and_reported(session: RunningSession) -> None:
    assert session.replay(at("/* before */"))["fallbacks"] == []
    script = "matchstr(filter(split(execute('scriptnames'), \"\\n\"), {_, l -> l =~ '/termdebug.vim'})[0], '\\d\\+')"
    session.editor(f"execute('func! <SNR>' .. {script} .. \"_CommOutput(...)\\nendfunc\")")
    result = session.replay(at("/* after */"), fresh=True)
    assert result["fallbacks"] == ["late_pc_sign"]
    line = line_of("/* after */")
    assert shown(session) == ("target.c", line, [line])
    os.kill(session.pid("nvim"), signal.SIGKILL)  # the next test gets a new Neovim with an unchanged termdebug


def test_a_varied_replay_leaves_nothing_for_the_next_one(session: RunningSession) -> None:
    def seen(**options: Any) -> tuple[str, str, set[str]]:
        values = session.replay(at("/* after */"), "count", "(long)&zero", **options)["values"]
        targets = [pid for pid, command in session.processes().items() if command == "target"]
        status = [Path(f"/proc/{pid}/status").read_text() for pid in targets]
        cpus = {line for text in status for line in text.splitlines() if line.startswith("Cpus_allowed_list")}
        return values["count"]["value"], values["(long)&zero"]["value"], cpus

    ordinary = seen()
    varied = seen(varied=True)
    assert varied[0] == ordinary[0]
    assert varied[1] != ordinary[1]
    assert varied[2] == {f"Cpus_allowed_list:\t{min(os.sched_getaffinity(0))}"}
    for fresh in (False, True):
        assert seen(fresh=fresh) == ordinary


# -- how it fails ----------------------------------------------------------------------------------------------------


def test_a_stop_that_is_not_in_the_sources_is_refused(session: RunningSession) -> None:
    assert session.refusal({"file": "../../../../etc/passwd", "line": 1, "text": "root"})["code"] == "bad_recipe"
    stop = at("/* after */")
    refusal = session.refusal(stop | {"line": stop["line"] + 1})
    assert refusal["code"] == "source_drift"
    assert refusal["found"] == '    printf("%d\\n", count);'
    assert session.refusal(stop | {"line": 100_000})["found"] is None
    assert session.refusal({"function": "no_such_function"})["code"] == "stop_not_reached"


def test_an_exit_before_the_stop_is_refused_with_its_code(session: RunningSession) -> None:
    session.card.behave("exit")
    refusal = session.refusal(at("/* in the loop */"))
    assert (refusal["code"], refusal["exit_code"], refusal["reached"]) == ("target_exited", 7, 0)
    session.card.behave()
    refusal = session.refusal(at("/* in the loop */", 9))
    assert (refusal["code"], refusal["exit_code"], refusal["reached"]) == ("target_exited", 0, 5)


def test_a_crash_before_the_stop_is_refused_with_its_signal_and_our_line(session: RunningSession) -> None:
    for how, number, function in (  # in the program, in the library, from outside
        ("crash", "SIGSEGV", "crash"), ("abort", "SIGABRT", "misbehave"), ("kill", "SIGKILL", None),
    ):  # fmt: skip
        session.card.behave(how)
        refusal = session.refusal(at("/* after */"))
        assert (refusal["code"], refusal["signal"]) == ("target_crashed", number)
        assert function is None or refusal["place"]["function"] == function
    session.card.behave("signal")
    assert session.replay(at("/* after */"), "count")["values"]["count"]["value"] == "14"


def test_a_program_that_never_reaches_the_stop_is_ended(session: RunningSession) -> None:
    places = {"loop": "misbehave", "stdin": "await_line", "deaf": None, "flood": None}
    for behaviour, function in places.items():
        session.card.behave(behaviour)
        refusal = session.refusal(at("/* after */"), timeout_ms=1000)
        assert (refusal["code"], refusal["reached"]) == ("replay_timeout", 0), behaviour
        if function is not None:
            assert refusal["place"]["function"] == function
        assert session.state()["state"] in ("none", "exited"), behaviour


@contextlib.contextmanager
def replaying(session: RunningSession, text: str = "/* after */") -> Iterator[list[Any]]:
    """A replay in another thread, whose program runs. The result is in the list when the block has ended."""
    request = session.request(at(text), "count")
    answers: list[Any] = []
    replay = threading.Thread(target=lambda: answers.append(session.call("checkpoint_replay", request)))
    replay.start()
    try:
        eventually(lambda: session.state()["state"] == "running")
        yield answers
    finally:
        replay.join(60)


# -- ending and losing it --------------------------------------------------------------------------------------------


def test_a_second_replay_waits_for_the_first(session: RunningSession) -> None:
    request = session.request(at("/* after */"), "count")
    answers: list[Any] = []
    threads = [
        threading.Thread(target=lambda: answers.append(session.call("checkpoint_replay", request))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [answer.structured["values"]["count"]["value"] for answer in answers] == ["14"] * 3


def test_a_part_killed_during_a_replay_is_named(session: RunningSession) -> None:
    for program, code in (("gdb", "debugger_dead"), ("nvim", "editor_dead"), ("nvim-terminal", "editor_dead")):
        session.card.behave("loop")
        with replaying(session) as answers:
            os.kill(session.pid(program), signal.SIGKILL)
        assert answers[0].structured["code"] == code, program
        session.check_usable()


# -- the learner at the prompt ---------------------------------------------------------------------------------------


def test_a_program_that_the_learner_let_run_is_replaced(session: RunningSession) -> None:
    session.card.behave("loop")
    session.replay(at("/* before */"))
    session.gdb("continue")
    eventually(lambda: session.state()["state"] == "running")
    assert session.replay(at("/* before */"), "count")["values"]["count"]["value"] == "0"
    session.gdb("continue")
    eventually(lambda: session.state()["state"] == "running")
    session.ask("target_reset")
    assert session.state()["state"] == "none"


def test_the_learners_breakpoints_neither_disturb_nor_get_lost(session: RunningSession) -> None:
    session.replay(at("/* before */"))
    for command in ("break mark", "watch count", "tbreak twice", "catch syscall write"):
        session.gdb(command)
    eventually(lambda: "Catchpoint" in session.screen())
    assert session.replay(at("return 0;"), "count")["line"] == line_of("return 0;")
    session.gdb("info breakpoints")
    eventually(lambda: all(word in session.screen() for word in ("in mark", "in twice", "catchpoint")))
    session.gdb("run")
    eventually(lambda: session.state()["function"] == "mark")
    session.gdb("delete")


def test_what_the_learner_left_at_the_prompt_is_no_obstacle(session: RunningSession) -> None:
    for unfinished in ("define mine", "echo half done \\", "commands"):
        session.gdb(unfinished)
        session.replay(at("/* after */"))
        session.gdb("end")
    session.gdb("add-inferior")
    session.gdb("inferior 2")
    session.gdb("file")
    session.replay(at("/* after */"))


def test_a_gdb_that_does_not_answer_is_started_anew_by_a_reset(session: RunningSession) -> None:
    before = session.pid("gdb")
    session.gdb("shell sleep 1000")
    eventually(lambda: any(command == "sleep" for command in session.processes().values()))
    answer = session.ask("target_reset")
    assert answer["debugger_restarted"] is True
    assert answer["editor_restarted"] is False
    assert session.pid("gdb") != before
    eventually(lambda: all(command != "sleep" for command in session.processes().values()))


# -- the terminal ----------------------------------------------------------------------------------------------------

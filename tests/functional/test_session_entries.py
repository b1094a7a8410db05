"""Functions whose breakpoint gdb places behind a jump: calls do not come by it, or more than once each."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.capabilities import need_program
from tests.functional.command_line import cardapp
from tests.functional.program_cards import ProgramSession, program_session
from tests.functional.session_process import eventually

pytestmark = [
    pytest.mark.functional,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the program has instructions of x86-64"),
]

# gdb skips the prologue: it puts the breakpoint after the last instruction of the line in which the frame is set up.
# Here this line ends with a jump, past a loop of n - 1 rounds.
RUN = """
__attribute__((naked, noinline)) {static}int {name}(int n)
{{
    __asm__("push %rbp\\n\\tmov %rsp, %rbp\\n\\tmov $1, %eax\\n\\tjmp 1f\\n"
            ".loc 1 {round}\\n2:\\tinc %eax\\n"
            ".loc 1 {test}\\n1:\\tcmp %edi, %eax\\n\\tjl 2b\\n"
            ".loc 1 {last}\\n\\tpop %rbp\\n\\tret");
}}
"""


def jumping(name: str, line: int, static: str = "") -> str:
    """The definition of a function, which begins in ``line`` of its file. gdb's breakpoint is in ``line + 4``."""
    return RUN.format(name=name, static=static, round=line + 4, test=line + 5, last=line + 6)


SOURCES = {
    "main.c": "#include <stdio.h>\n#include <string.h>\nint calls, seen;\nint priced(int n);\nint other(int n);"
    + jumping("run", 6)
    + jumping("twin", 14, "static ")
    + """
int main(int argc, char **argv)
{
    for (calls = 1; calls <= 5; calls++)
        seen += run(10 * calls) + twin(1); /* called */
    seen += other(2) + priced(3);
    while (argc > 1)
        seen = 1; /* runs on */
    printf("%d\\n", seen); /* the end */
    return 0;
}
""",
    "other.c": jumping("twin", 2, "static ")
    + "int other(int n) { return twin(n); }\nint unused(int n) { return n; }\n",
    "shop.c": jumping("priced", 2),
}
BUILD = """
prog: main.c other.c libshop.so
	$(CC) -g -O0 -o $@ main.c other.c -L. -lshop -Wl,-rpath,$(CURDIR)
libshop.so: shop.c
	$(CC) -g -O0 -shared -fPIC -o $@ shop.c
"""


@pytest.fixture(scope="module")
def session() -> Iterator[ProgramSession]:
    with program_session(BUILD, SOURCES) as running:
        yield running


@pytest.fixture(autouse=True)
def _at_ease(session: ProgramSession) -> None:
    session.card.behave()


def test_a_stop_behind_a_jump_is_at_the_entry_of_its_function(session: ProgramSession) -> None:
    got = session.replay({"function": "run"}, "n", "calls")
    assert (got["function"], got["values"]["n"]["value"], got["values"]["calls"]["value"]) == ("run", "10", "1")
    assert [cause for cause in got["causes"] if "main.c:10" in cause and "*run" in cause], got["causes"]
    eventually(lambda: "gdb placed" in session.screen())


def test_hits_and_conditions_count_the_calls(session: ProgramSession) -> None:
    """Each replay, also that of a checkpoint, is equal to a run from the start."""
    for stop, calls in (
        ({"function": "run", "hits": 4}, 4),
        ({"function": "run", "if": "n > 20"}, 3),
        ({"function": "run", "if": "calls >= 2", "hits": 3}, 4),
        ({"function": "run", "file": "main.c"}, 1),
    ):
        session.replay(stop)
        session.replay({"function": "main"})
        for fresh in (False, True):
            got = session.replay(stop, "n", "calls", fresh=fresh)
            values = {name: value["value"] for name, value in got["values"].items()}
            assert values == {"n": str(10 * calls), "calls": str(calls)}, stop
            assert got["function"] == "run", stop
            assert got["fallbacks"] == [], stop
            assert any("*run" in cause for cause in got["causes"]), stop
    refusal = session.refusal({"function": "run", "hits": 6})
    assert (refusal["code"], refusal["reached"]) == ("target_exited", 5)
    assert "gdb placed the breakpoint of run at main.c:10" in refusal["reason"]


def test_functions_of_the_same_name_and_of_a_library_have_their_own_entry(session: ProgramSession) -> None:
    for stop, n in (
        ({"function": "twin", "file": "main.c", "hits": 5}, "1"),
        ({"function": "twin", "file": "other.c"}, "2"),
        ({"function": "priced"}, "3"),
    ):
        for fresh in (False, True):
            got = session.replay(stop, "n", fresh=fresh)
            assert (got["function"], got["values"]["n"]["value"]) == (stop["function"], n), stop


def test_a_function_that_is_not_called_is_not_said_to_be_misplaced(session: ProgramSession) -> None:
    refusal = session.refusal({"function": "unused"})
    assert (refusal["code"], refusal["reached"]) == ("target_exited", 0)
    assert "gdb placed" not in refusal["reason"]
    session.card.behave("on")
    assert session.replay({"function": "run", "hits": 5}, "n")["values"]["n"]["value"] == "50"


def test_a_new_card_at_such_a_function_finds_the_program_that_calls_it(tmp_path: Path) -> None:
    need_program("git")
    main = SOURCES["main.c"].replace("    seen += other(2) + priced(3);\n", "")
    (tmp_path / "main.c").write_text(main)
    (tmp_path / "Makefile").write_text("prog: main.c\n\t$(CC) -g -O0 -o $@ main.c\n")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    done = cardapp("new", "card", "--at", "main.c:run", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    checked = cardapp("check", "--replay", "card", folder=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr

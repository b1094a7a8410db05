"""The cause that a replay reports if a program does not reach its stop as the card says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.functional.program_cards import ProgramCard, session_tool
from tests.functional.session_process import RunningSession, SessionTool

pytestmark = [pytest.mark.functional]

BUILD = """
prog: main.c libshop.so
	$(CC) {flags} -o $@ main.c -L. -lshop -Wl,-rpath,$(CURDIR) -lpthread
libshop.so: shop.c
	$(CC) -O0 -shared -fPIC -o $@ shop.c
"""
SOURCES = {
    "main.c": """
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int price(int n);

static int square(int n)
{
    return n * n; /* squared */
}

static void child(void)
{
    puts("in the child"); /* the child */
}

static void *work(void *argument)
{
    pause();
    return argument;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    int sum = square(argc) + price(argc);
    if (strcmp(how, "fork") == 0) {
        if (fork() == 0) {
            child();
            _exit(0);
        }
        wait(NULL);
    }
    if (strcmp(how, "threads") == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, NULL);
        sum++; /* with a thread */
    }
    if (strcmp(how, "usage") == 0) {
        puts("reading");
        fprintf(stderr, "prog: no such file\\nusage: prog HOW\\n");
        exit(2);
    }
    assert(strcmp(how, "assert") != 0);
    printf("%d\\n", sum); /* the end */
    return 0;
}
""",
    "shop.c": "int price(int n)\n{\n    return 10 * n; /* priced */\n}\n",
}
PLAIN = "-g -O0"


@pytest.fixture(scope="module")
def tool() -> Iterator[SessionTool]:
    yield from session_tool()


@pytest.fixture(scope="module")
def start(tool: SessionTool, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], RunningSession]:
    """A function that returns the session of the program built with the given flags."""
    started: dict[str, RunningSession] = {}

    def session(flags: str) -> RunningSession:
        if flags not in started:
            name = f"causes{len(started)}"
            card = ProgramCard(tmp_path_factory.mktemp(name) / "card", BUILD.format(flags=flags), SOURCES)
            started[flags] = RunningSession(tool, card, name)
        started[flags].card.behave()
        return started[flags]

    return session


def end(session: RunningSession) -> dict[str, Any]:
    return in_main(session, "/* the end */")


def in_main(session: RunningSession, text: str) -> dict[str, Any]:
    assert isinstance(session.card, ProgramCard)
    return session.card.at(text, "main.c")


# -- a program that ends early -----------------------------------------------------------------------------------------


def test_the_last_lines_of_standard_error_are_told(start: Callable[[str], RunningSession]) -> None:
    session = start(PLAIN)
    session.card.behave("usage")
    refusal = session.refusal(end(session))
    assert (refusal["code"], refusal["exit_code"]) == ("target_exited", 2)
    assert refusal["reason"].endswith("the last that it printed is reading / prog: no such file / usage: prog HOW")
    session.card.behave("assert")
    refusal = session.refusal(end(session))
    assert (refusal["code"], refusal["signal"]) == ("target_crashed", "SIGABRT")
    assert "Assertion" in refusal["reason"]


def test_a_program_that_forked_is_told(start: Callable[[str], RunningSession]) -> None:
    session = start(PLAIN)
    session.card.behave("fork")
    for fresh in (False, True):
        refusal = session.refusal({"function": "child"}, fresh=fresh)
        assert refusal["code"] == "target_exited"
        assert "it forked, and gdb follows only the first process" in refusal["reason"]
    session.card.behave()
    assert "forked" not in session.refusal({"function": "child"})["reason"]


def test_a_library_that_is_not_found_is_named(start: Callable[[str], RunningSession]) -> None:
    session = start(PLAIN)
    library = next(Path(session.path).rglob("libshop.so"))
    hidden = library.rename(library.with_name("hidden"))
    try:
        refusal = session.refusal(end(session))
    finally:
        hidden.rename(library)
    assert refusal["code"] == "target_exited"
    assert "its library libshop.so was not found" in refusal["reason"]
    assert session.replay(end(session), "sum")["values"]["sum"]["value"] == "11"


# -- code that gdb does not know ---------------------------------------------------------------------------------------


def test_a_program_without_debug_information_is_told(start: Callable[[str], RunningSession]) -> None:
    session = start("-O0")
    refusal = session.refusal(end(session))
    assert refusal["code"] == "stop_not_reached"
    assert "the program has no code at main.c:" in refusal["reason"]
    assert "built without -g" in refusal["reason"]
    got = session.replay({"function": "square"}, "n")
    assert any("built without -g" in cause for cause in got["causes"])


def test_a_library_without_debug_information_is_told(start: Callable[[str], RunningSession]) -> None:
    session = start(PLAIN)
    assert isinstance(session.card, ProgramCard)
    refusal = session.refusal(session.card.at("/* priced */", "shop.c"))
    assert refusal["code"] == "stop_not_reached"
    assert "gdb knows no line of shop.c: it was built without -g" in refusal["reason"]
    got = session.replay({"function": "price"}, "argc")
    assert (got["function"], got["inside"], got["values"]["argc"]["value"]) == ("main", "price", "1")


def test_an_inlined_function_is_told(start: Callable[[str], RunningSession]) -> None:
    session = start("-g -O2")
    got = session.replay({"function": "square"}, "n")
    assert any("square is inlined here" in cause for cause in got["causes"])
    refusal = session.refusal({"function": "square", "file": "main.c"})
    assert refusal["code"] == "stop_not_reached"
    assert "square is inlined wherever it is called" in refusal["reason"]


# -- at the stop -------------------------------------------------------------------------------------------------------


def test_threads_are_told(start: Callable[[str], RunningSession]) -> None:
    session = start(PLAIN)
    assert session.replay(end(session))["causes"] == []
    session.card.behave("threads")
    got = session.replay(in_main(session, "/* with a thread */"))
    assert any("the program has threads at this stop" in cause for cause in got["causes"])

"""Stops in third-party programs: conditions, signals, functions of a file, code without source."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.functional.program_cards import ProgramSession, program_session

pytestmark = [pytest.mark.functional]

C_BUILD = """
prog: main.c sub/main.c
	$(CC) -g -O0 -o $@ main.c sub/main.c
"""
C_SOURCES = {
    "main.c": """
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct node { int key; struct node *next; };

static volatile sig_atomic_t handled;
static struct node *head;
static volatile int sum;
int inner(int n);

static void note(int number) { handled = handled + 1; }

static void leave(int number) { _exit(handled + 40); }

static int helper(int n) { return n + 1; }

static void visit(int n, struct node *node)
{
    sum += n; /* visited */
}

static int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b; /* compared */
}

static void raise_all(const char *how)
{
    if (strcmp(how, "int") == 0) {
        signal(SIGINT, note);
        raise(SIGINT);
    }
    if (strcmp(how, "segv") == 0) {
        signal(SIGSEGV, leave);
        raise(SIGUSR2 * 0 + SIGCHLD);
        *(volatile int *)(size_t)(sum - sum) = 1; /* the fault */
    }
    if (strcmp(how, "crash") == 0)
        *(volatile int *)(size_t)(sum - sum) = 1; /* the crash */
    if (strcmp(how, "library") == 0)
        puts((char *)(size_t)(sum - sum + 1)); /* crashes in the library */
    if (strcmp(how, "usr1") == 0) {
        signal(SIGUSR1, note);
        for (int i = 0; i < 3; i++)
            raise(SIGUSR1);
    }
}

int main(int argc, char **argv)
{
    static struct node last = {2, NULL}, first = {1, &last};
    int numbers[] = {3, 1, 2};
    head = &first;
    for (int n = 0; n < 10; n++)
        visit(n, n == 5 ? NULL : head);
    sum += helper(1) + inner(1);
    qsort(numbers, 3, sizeof *numbers, compare); /* sorts */
    if (argc > 1)
        raise_all(argv[1]);
    printf("%d\\n", sum); /* the end */
    return 0;
}
""",
    "sub/main.c": """
static int helper(int n)
{
    return 10 * n; /* in the folder */
}

int inner(int n) { return helper(n); }
""",
}


@pytest.fixture(scope="module")
def started() -> Iterator[ProgramSession]:
    with program_session(C_BUILD, C_SOURCES) as started:
        yield started


@pytest.fixture
def session(started: ProgramSession) -> ProgramSession:
    started.card.behave()
    return started


def in_main(text: str, **more: object) -> dict[str, object]:
    lines = C_SOURCES["main.c"].splitlines()
    return {"file": "main.c", "line": next(i for i, line in enumerate(lines, 1) if text in line), "text": text, **more}


# -- conditions --------------------------------------------------------------------------------------------------------


def test_only_hits_for_which_the_condition_holds_are_counted(session: ProgramSession) -> None:
    visited = in_main("/* visited */")
    assert session.replay(visited | {"if": "n == 7"}, "n")["values"]["n"]["value"] == "7"
    assert session.replay(visited | {"if": "n % 3 == 0", "hits": 3}, "n")["values"]["n"]["value"] == "6"
    assert session.replay({"function": "visit", "if": "n > 7", "hits": 2}, "n")["values"]["n"]["value"] == "9"
    refusal = session.refusal(visited | {"if": "n % 3 == 0", "hits": 5})
    assert (refusal["code"], refusal["reached"]) == ("target_exited", 4)


def test_a_condition_is_the_same_from_a_checkpoint(session: ProgramSession) -> None:
    stop = in_main("/* visited */", **{"if": "n == 7"})
    replays = [session.replay(stop, "n") for _ in range(2)]
    assert [got["values"]["n"]["value"] for got in replays] == ["7", "7"]
    assert replays[1]["method"] == "fork"
    later = session.replay(stop | {"if": "n == 8"}, "n")
    assert (later["values"]["n"]["value"], later["fresh"]) == ("8", False)
    assert session.replay({"function": "main", "if": "argc == 1"})["function"] == "main"
    assert session.refusal({"function": "main", "if": "argc == 2"})["code"] == "target_exited"


def test_a_condition_that_cannot_be_evaluated_is_refused_with_gdbs_words(session: ProgramSession) -> None:
    for condition, words in (
        ("nowhere == 1", 'No symbol "nowhere"'),
        ("node->key == 1", "Cannot access memory at address 0x0"),
        ("n ==", "syntax error"),
        ("*node", "neither true nor false"),
        ("(helper)(1)", "may-call-functions"),
    ):
        refusal = session.refusal(in_main("/* visited */", **{"if": condition, "hits": 8}))
        assert refusal["code"] == "bad_condition", condition
        assert words in refusal["reason"]


def test_an_expression_that_changes_the_program_is_refused(session: ProgramSession) -> None:
    visited = in_main("/* visited */")
    for expression in ("n = 4", "$rip=0", "n++", "helper(1)"):
        refusal = session.refusal(visited, "n", expression)
        assert (refusal["code"], refusal["expression"]) == ("bad_expression", expression)
    assert session.refusal(visited | {"if": "n = 4"})["code"] == "bad_expression"


# -- signals -----------------------------------------------------------------------------------------------------------


def test_a_stop_at_a_signal_is_the_delivery_with_the_values_there(session: ProgramSession) -> None:
    session.card.behave("crash")
    got = session.replay({"signal": "SIGSEGV"}, "how", "sum")
    assert (got["signal"], got["method"], got["function"], got["inside"]) == ("SIGSEGV", "rerun", "raise_all", None)
    assert got["line"] == in_main("/* the crash */")["line"]
    assert got["values"]["how"]["value"] == '"crash"'
    again = session.replay({"signal": "SIGSEGV"}, "sum")
    assert again["values"]["sum"] == got["values"]["sum"]
    assert again["fresh"]
    before = session.replay(in_main("/* visited */"), "n")
    assert (before["values"]["n"]["value"], before["signal"]) == ("0", None)


def test_a_crash_in_code_without_source_has_its_caller_and_the_callers_values(session: ProgramSession) -> None:
    session.card.behave("library")
    got = session.replay({"signal": "SIGSEGV"}, "how")
    assert (got["function"], got["line"]) == ("raise_all", in_main("/* crashes in the library */")["line"])
    assert got["inside"]
    assert got["values"]["how"]["value"] == '"library"'


def test_deliveries_of_a_signal_are_counted(session: ProgramSession) -> None:
    session.card.behave("usr1")
    got = session.replay({"signal": "SIGUSR1", "hits": 3}, "handled", "i")
    assert (got["values"]["handled"]["value"], got["values"]["i"]["value"]) == ("2", "2")
    assert session.replay({"signal": "SIGUSR1", "if": "i == 1"}, "handled")["values"]["handled"]["value"] == "1"
    assert session.refusal({"signal": "SIGUSR1", "hits": 4})["code"] == "target_exited"
    assert session.refusal({"signal": "SIGNONE"})["code"] == "stop_not_reached"


def test_the_programs_own_handlers_run(session: ProgramSession) -> None:
    session.card.behave("int")
    assert session.replay(in_main("/* the end */"), "handled")["values"]["handled"]["value"] == "1"
    assert session.replay({"signal": "SIGINT"}, "handled")["values"]["handled"]["value"] == "0"
    session.card.behave("segv")
    refusal = session.refusal(in_main("/* the end */"))
    assert (refusal["code"], refusal["exit_code"]) == ("target_exited", 40)
    assert session.replay({"function": "leave"}, "number")["values"]["number"]["value"] == "11"
    assert session.replay({"signal": "SIGSEGV"})["line"] == in_main("/* the fault */")["line"]


# -- names -------------------------------------------------------------------------------------------------------------


def test_files_of_the_same_name_are_told_apart(session: ProgramSession) -> None:
    inner = {"file": "sub/main.c", "line": 4, "text": "/* in the folder */"}
    assert session.replay(inner)["file"] == "sub/main.c"
    outer = in_main("static int helper(int n)")
    got = session.replay(outer)
    assert (got["file"], got["line"]) == ("main.c", outer["line"])
    assert session.replay({"function": "helper", "file": "sub/main.c"}, "n * 10")["file"] == "sub/main.c"
    assert session.replay({"function": "helper", "file": "main.c"})["file"] == "main.c"


def test_a_name_of_several_functions_or_of_none_in_the_file_is_refused(session: ProgramSession) -> None:
    refusal = session.refusal({"function": "helper"})
    assert refusal["code"] == "ambiguous_function"
    assert "helper (main.c:" in refusal["reason"]
    assert "helper (sub/main.c:" in refusal["reason"]
    assert len(refusal["functions"]) == 2
    refusal = session.refusal({"function": "visit", "file": "sub/main.c"})
    assert refusal["code"] == "stop_not_reached"
    assert "visit" in refusal["reason"]


def test_a_stop_in_code_without_source_is_shown_at_its_caller(session: ProgramSession) -> None:
    got = session.replay({"function": "qsort"}, "numbers[0]")
    assert (got["function"], got["inside"]) == ("main", "qsort")
    assert got["line"] == in_main("/* sorts */")["line"]
    assert got["values"]["numbers[0]"]["value"] == "3"
    again = session.replay({"function": "qsort"}, "numbers[0]")
    assert (again["method"], again["function"], again["inside"]) == ("fork", "main", "qsort")
    assert again["fallbacks"] == []

"""What a learner predicts with the program's own types and constants, read by gdb; nothing else of the program is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.functional.program_cards import ProgramSession, program_session

pytestmark = [pytest.mark.functional]

BUILD = """
prog: main.c
	$(CC) -g3 -O0 -o $@ main.c
"""
SOURCES = {
    "main.c": """
#include <stdint.h>
#define MAX_ITEMS 16
#define LAST (MAX_ITEMS - 1)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define NEXT() (++total)
enum color { RED, GREEN = 5 };
typedef struct node { int value; struct node *next; } Node;
static int total = 3;
static const int limit = 9;
static int bump(void) { return ++total; }

int main(void)
{
    int items[4] = {1, 2, 3, 4}, RED_local = 1;
    enum color chosen = GREEN;
    uint8_t small = 1;
    Node first = {items[0] + RED_local, 0};
    return bump() + limit + (int) chosen + first.value + small; /* the end */
}
""",
}
RIGHT: dict[str, tuple[str, int | None]] = {
    "MAX_ITEMS": ("16", 16),
    "LAST * 2": ("30", 30),
    "(MAX_ITEMS<<2)|1": ("65", 65),
    "GREEN": ("GREEN", 5),
    "GREEN + 1": ("6", 6),
    "(enum color) 5": ("GREEN", 5),
    "(__typeof__(GREEN)) (MAX_ITEMS - 11)": ("GREEN", 5),
    "sizeof(struct node)": ("16", 16),
    "sizeof(Node) * MAX_ITEMS": ("256", 256),
    "sizeof(int *)": ("8", 8),
    "(uint8_t) 300": ("44 ','", 44),
    "(char) 97": ("97 'a'", 97),
    "(Node *) 0": ("0x0", 0),
    "(char *) 4096": ("0x1000", 4096),
    "MAX_ITEMS / 5.0": ("3.2", None),
}
WRONG = (
    "total", "limit", "items", "items[0]", "&total", "*items", "first.next", "bump", "bump()", "NEXT()", "total = 5",
    "COUNT(items)", "*(int *) 0", "(int) *5", "(int)*(MAX_ITEMS)", "*MAX_ITEMS", "$rip", "$pc", "$_exitcode", "main",
    '"text"', "sizeof(items)", "GREEN->value", "MAX_ITEMS++", "-- GREEN", "no_such", "environ",
    "'main.c'::total", "{int} 5", "5@2", "(Node) 5", "1 ? total : 2", "sizeof(total)", "printf", "GREEN(1)", "(",
    "(__typeof__(total)) 1", "(__typeof__(GREEN)) (total)", "(__typeof__(GREEN)) *(int *) 0",
    "MAX_ITEMS; shell true", "MAX_ITEMS\nset var total = 9", "1\nset var total = 9", "'\n'", "1 # total",
)  # fmt: skip


@pytest.fixture(scope="module")
def session() -> Iterator[ProgramSession]:
    with program_session(BUILD, SOURCES) as started:
        yield started


def read(session: ProgramSession, *texts: str) -> dict[str, Any]:
    found: dict[str, Any] = session.ask("read_constants", texts=list(texts))["values"]
    return found


def test_constants_of_the_program_are_read_and_nothing_else(session: ProgramSession) -> None:
    end = session.card.at("/* the end */", "main.c")
    for stopped in (False, True):
        if stopped:
            session.replay(end)
        before = session.state()["stop_id"]
        found = read(session, *RIGHT, *WRONG)
        for text, (value, number) in RIGHT.items():
            assert found.get(text) == {"value": value, "number": number}, (stopped, text, found.get(text))
        assert {*found} & {*WRONG} == set(), stopped
        assert session.state()["stop_id"] == before
    assert session.replay(end, "total")["values"]["total"]["value"] == "3"

"""Stops in shared libraries are reached whatever was replayed before."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.functional.program_cards import ProgramCard, ProgramSession, program_session

pytestmark = [pytest.mark.functional]

BUILD = """
prog: main.c libshop.so plugin.so
	$(CC) -g -O0 -o $@ main.c -L. -lshop -Wl,-rpath,$(CURDIR) -ldl
libshop.so: shop.c
	$(CC) -g -O0 -shared -fPIC -o $@ shop.c
plugin.so: plugin.c
	$(CC) -g -O0 -shared -fPIC -o $@ plugin.c
"""
SOURCES = {
    "main.c": """
#include <dlfcn.h>
#include <stdio.h>

int price(int n);

int main(int argc, char **argv)
{
    int sum = 0;
    for (int n = 0; n < 3; n++)
        sum += price(n); /* buys */
    for (int n = 0; n < 2; n++) {
        void *plugin = dlopen("./plugin.so", RTLD_NOW);
        int (*twice)(int) = (int (*)(int))dlsym(plugin, "twice");
        sum += twice(sum); /* plugs */
        dlclose(plugin);
    }
    printf("%d\\n", sum); /* the end */
    return 0;
}
""",
    "shop.c": """
static int sold;

int price(int n)
{
    sold++;
    return 10 * n; /* priced */
}

__attribute__((constructor)) static void open_shop(void)
{
    sold = price(0) + 100;
}
""",
    "plugin.c": """
int twice(int n)
{
    int result = 2 * n; /* doubled */
    return result;
}
""",
}


@pytest.fixture(scope="module")
def session() -> Iterator[ProgramSession]:
    with program_session(BUILD, SOURCES) as started:
        yield started


def stops(card: ProgramCard) -> dict[str, tuple[dict[str, Any], str, str]]:
    """The stop, the expression and its value for a name."""
    return {
        "main": (card.at("/* buys */", "main.c", hits=2), "n", "1"),
        "linked": (card.at("/* priced */", "shop.c", hits=3), "sold", "102"),
        "linked function": ({"function": "price", "if": "n == 2"}, "n", "2"),
        "before main": ({"function": "price", "file": "shop.c"}, "n", "0"),
        "opened": (card.at("/* doubled */", "plugin.c"), "n", "30"),
        "opened again": (card.at("/* doubled */", "plugin.c", hits=2), "n", "90"),
        "after": (card.at("/* the end */", "main.c"), "sum", "270"),
    }


def test_a_stop_in_a_library_is_reached_whatever_ran_before(session: ProgramSession, rng: random.Random) -> None:
    known = stops(session.card)
    names = [*known, "opened", "main", "opened", "linked"]
    for name in rng.sample(names, len(names)):
        stop, expression, value = known[name]
        got = session.replay(stop, expression)
        assert got["values"][expression]["value"] == value, (name, got)
        if "line" in stop:
            assert (got["file"], got["line"]) == (stop["file"], stop["line"]), name

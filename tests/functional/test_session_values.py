"""Values as a card writes them, proved against what gdb prints of a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cardapp.authoring import proving
from cardapp.card.catalog import Catalog
from cardapp.card.source import load_card
from cardapp.errors import InvalidCard
from tests.functional.program_cards import ProgramCard

pytestmark = [pytest.mark.functional]

BUILD = """
prog: main.c
	$(CC) -g -O0 -o $@ main.c
"""
SOURCES = {
    "main.c": """
#include <stdint.h>
#include <string.h>

struct packet { uint8_t raw[4]; char tag[6]; };
struct point { int x; struct point *next; };

int main(void)
{
    char name[16], filled[4] = {'a', 'b', 'c', 'd'};
    memset(name, 'z', sizeof name);
    strcpy(name, "ada");
    unsigned flags = 0x40;
    uint8_t raw[4] = {0, 1, 2, 3}, word[6] = "box";
    struct packet packet = {{0, 1, 2, 3}, "ab"};
    const char *top = "top";
    double price = 0.1 + 0.2;
    struct point last = {2, 0}, first = {1, &last};
    return flags > price + first.x; /* the end */
}
""",
}
Faults = Callable[[dict[str, Any]], list[str]]


@pytest.fixture(scope="module")
def faults_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faults]:
    """A function that returns the expressions whose expected values differ from those of the program."""
    card = ProgramCard(tmp_path_factory.mktemp("values") / "card", BUILD, SOURCES)
    snapshot = card.snapshot
    snapshot["stop"] = card.at("/* the end */", "main.c")
    card.write()

    def expect(values: dict[str, Any]) -> list[str]:
        snapshot["expect"] = values
        card.write()
        changed = load_card(card.folder)
        (key, asked), *_ = Catalog(changed.card).snapshots.items()
        return [fault.expression or fault.detail for fault in session.prove(key, asked).faults]

    with proving.temporary_session(load_card(card.folder)) as session:
        yield expect


TRUE: list[dict[str, Any]] = [
    {"name": "ada"},
    {"name": '"ada"'},
    {"filled": "abcd"},
    {"raw": "{0, 1, 2, 3}", "raw[1]": 1, "word": "box"},
    {"packet": '{raw = {0, 1, 2, 3}, tag = "ab"}'},
    {"top": "top", "top + 0": "*"},
    {"name[0]": "'a'", "name[1]": 100},
    {"flags": 64, "flags + 0": "0x40"},
    {"flags": {"value": "0x40", "format": "x"}},
    {"flags": {"value": "0100", "format": "o"}},
    {"price": {"value": "0.3", "tolerance": 1e-9}},
    {"first": "{x = 1, next = *}"},
    {"last": "{x = 2, next = 0x0}", "*first.next": "{x = 2, next = 0x0}"},
]
FALSE: list[dict[str, Any]] = [
    {"name": "adaz"},
    {"name": "ad"},
    {"filled": "abc"},
    {"raw": '""', "word": '"bo"'},
    {"raw": "{0, 1, 2, 4}"},
    {"packet": '{raw = {0, 1, 2, 4}, tag = "ab"}'},
    {"raw": "*"},
    {"flags": {"value": "0x41", "format": "x"}},
    {"price": "0.3"},
    {"price": {"value": "0.4", "tolerance": 0.01}},
    {"first": "{x = *, next = *}"},
    {"first": "{x = 2, next = *}"},
]


def test_the_program_has_these_values(faults_of: Faults) -> None:
    assert [(values, found) for values in TRUE if (found := faults_of(values))] == []


def test_other_values_are_faults(faults_of: Faults) -> None:
    assert [values for values in FALSE if faults_of(values) != list(values)] == []


def test_a_card_cannot_change_the_program(faults_of: Faults) -> None:
    for expression in ("flags = 4", "$rip=0", "flags++", "--flags", "strlen(name)", "flags <<= 1"):
        with pytest.raises(InvalidCard, match="must not"):
            faults_of({expression: "4"})
    assert faults_of({"flags": 64}) == []

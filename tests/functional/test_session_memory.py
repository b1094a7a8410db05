"""The memory model of a card on linked nodes: lists and trees, and recipes that gdb cannot evaluate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.functional.program_cards import ProgramSession, program_session

pytestmark = [pytest.mark.functional]

BUILD = """
prog: main.c
	$(CC) -g -O0 -o $@ main.c
"""
SOURCES = {
    "main.c": """
#include <stdlib.h>

struct node { const char *key; struct node *next, *left, *right; };

static struct node *list, *ring, *tree;

static struct node *make(const char *key, struct node *next, struct node *left, struct node *right)
{
    struct node *made = malloc(sizeof *made);
    *made = (struct node){key, next, left, right};
    return made;
}

static void done(void) {}

int main(void)
{
    list = make("b", make("c", NULL, NULL, NULL), NULL, NULL);
    list = make("a", list, NULL, NULL); /* the third */
    ring = make("x", NULL, NULL, NULL);
    ring->next = ring;
    tree = make("4", NULL, make("2", NULL, make("1", NULL, NULL, NULL), make("3", NULL, NULL, NULL)), NULL);
    tree->right = make("5", NULL, NULL, NULL);
    done();
    list->next->next = (struct node *)1;
    done();
    return 0;
}
"""
}
BLOCKS = {"address": "$node", "size": "sizeof *$node", "label": "$node->key"}
LIST = {"each": {"first": "list", "following": ["$node->next"], "max": 200}, "blocks": BLOCKS}
TREE = {"each": {"first": "tree", "following": ["$node->left", "$node->right"], "max": 200}, "blocks": BLOCKS}
DONE = {"function": "done"}


@pytest.fixture(scope="module")
def session() -> Iterator[ProgramSession]:
    with program_session(BUILD, SOURCES) as started:
        yield started


def memory(session: ProgramSession, stop: dict[str, Any], recipe: dict[str, Any]) -> dict[str, Any]:
    got = session.replay(stop, "list", allocator=recipe)
    assert got["allocator_error"] is None
    found: dict[str, Any] = got["allocator"]
    return found


def labels(found: dict[str, Any]) -> list[str]:
    return [block["label"] for block in found["blocks"]]


def changed(recipe: dict[str, Any], **each: Any) -> dict[str, Any]:
    return recipe | {"each": recipe["each"] | each}


def test_a_list_is_read_in_its_order(session: ProgramSession) -> None:
    before = memory(session, session.card.at("/* the third */", "main.c"), LIST)
    found = memory(session, DONE, LIST)
    assert (labels(before), labels(found)) == (["b", "c"], ["a", "b", "c"])
    assert found["blocks"][1:] == before["blocks"]
    assert {block["size"] for block in found["blocks"]} == {32}
    assert (found["base"], found["size"], found["used"]) == (None, None, None)
    value = session.replay(DONE, "(unsigned long)list")["values"]["(unsigned long)list"]["value"]
    assert found["blocks"][0]["offset"] == int(value)


def test_a_tree_is_read_by_its_levels_up_to_max_nodes(session: ProgramSession) -> None:
    assert labels(memory(session, DONE, TREE)) == ["4", "2", "5", "1", "3"]
    assert labels(memory(session, DONE, changed(TREE, max=2))) == ["4", "2"]


def test_a_ring_ends_and_an_empty_list_has_no_nodes(session: ProgramSession) -> None:
    ring = changed(LIST, first="ring")
    assert labels(memory(session, DONE, ring)) == ["x"]
    assert labels(memory(session, session.card.at("/* the third */", "main.c"), ring)) == []


def test_a_recipe_that_gdb_cannot_evaluate_has_gdbs_words(session: ProgramSession) -> None:
    broken = {
        "No symbol": changed(LIST, first="no_such_list"),
        "no member named nxt": changed(LIST, following=["$node->nxt"]),
        "Cannot access memory at address 0x1": LIST,
    }
    for words, recipe in broken.items():
        got = session.replay(DONE | {"hits": 2}, "list != 0", allocator=recipe)
        assert got["allocator"] is None
        assert words in got["allocator_error"], recipe
        assert got["values"]["list != 0"]["value"] == "1"
    assert session.refusal(DONE, allocator=changed(LIST, first="list = 0"))["code"] == "bad_expression"
    assert session.refusal(DONE, allocator={"each": {}})["code"] == "bad_recipe"

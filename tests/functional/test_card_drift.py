"""A card of a small program drifts from it in several ways; ``check`` names each, and each is repaired."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.functional.drift import WAYS, Subject, Way, assert_green, try_way
from tests.functional.foreign_programs import Repository

pytestmark = [pytest.mark.functional, pytest.mark.full]

PROGRAM = """\
#include <stdio.h>
#include <stdlib.h>

struct order { int count; int price; };

static int total(const struct order *orders, int n) {
    int sum = 0;
    for (int place = 0; place < n; place++) {
        int cost = orders[place].count * orders[place].price;
        sum += cost;
    }
    return sum;
}

static int discount(int amount) {
    int percent = 10;
    return amount - amount * percent / 100;
}

int main(void) {
    struct order orders[] = {{2, 30}, {1, 15}, {4, 5}};
    int sum = total(orders, 3);
    int due = discount(sum);
    printf("%d\\n", due);
    return 0;
}
"""
MAKEFILE = """\
CFLAGS = -g -O0
shop: shop.c
\t$(CC) $(CFLAGS) -o $@ shop.c
"""
TARGET = {"name": "shop", "build": ["make", "-s"], "program": "shop", "sources": ["shop.c"]}


def subject(folder: Path) -> Subject:
    """A new repository with the program and its card."""
    folder.mkdir()
    (folder / "shop.c").write_text(PROGRAM)
    (folder / "Makefile").write_text(MAKEFILE)
    (folder / ".gitignore").write_text("/shop\n")
    repository = Repository(folder)
    line = repository.line("shop.c", "sum += cost;")
    snapshots = [
        {
            "id": "line",
            "title": "The second order",
            "stop": {"file": "shop.c", "line": line, "text": "sum += cost;", "hits": 2},
            "expect": {"sum": 60, "cost": 15, "orders[place]": "{count = 1, price = 15}"},
        },
        {"id": "function", "title": "The discount", "stop": {"function": "discount"}, "expect": {"amount": "95"}},
        {
            "id": "condition",
            "title": "The third order",
            "stop": {"file": "shop.c", "line": line, "text": "sum += cost;", "if": "place == 2"},
            "expect": {"cost": 20},
        },
    ]
    step = {"id": "s", "title": "The sum", "code": repository.excerpt("shop.c", "static int total", "}")}
    repository.write_card(TARGET, [{**step, "snapshots": snapshots}])
    return Subject(
        repository=repository,
        file="shop.c",
        stop_line=("sum += cost;", "sum = sum + cost;"),
        body=("int sum = 0;", "int sum = 1 - 1;"),
        value=("shop.c", "{1, 15}", "{1, 16}"),
        another_hit=("shop.c", "int sum = total(orders, 3);", "int sum = total(orders, 1); sum = total(orders, 3);"),
        function=("discount", "reduced"),
        condition_variable=("place", "position"),
        broken=("shop.c", "return sum;", "return sums;"),
        no_debug=("Makefile", "-g ", ""),
        early_end=("shop.c", "    int sum = total(orders", "    exit(3);\n    int sum = total(orders"),
    )


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    found = subject(tmp_path_factory.mktemp("drift") / "shop")
    assert_green(found.repository.card)
    return found


@pytest.mark.parametrize(
    "way",
    WAYS,
    ids=[way.name for way in WAYS],
)
def test_a_drift_is_named_and_repaired(shop: Subject, way: Way) -> None:
    try_way(shop, way)

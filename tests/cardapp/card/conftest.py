"""A small card for examples, and a hypothesis strategy for cards."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import strategies as st

from cardapp.card.catalog import Catalog
from cardapp.card.source import parse_card

CHILDREN = {"tasks": "blocks", "blocks": "phases", "phases": "steps", "steps": "snapshots"}


def small_source() -> dict[str, Any]:
    """Two tasks; t1 has two blocks, the step t1/b1/p1/s1 has two snapshots."""

    def snapshot(name: str) -> dict[str, Any]:
        return {"id": name, "title": name, "stop": {"file": "a.c", "line": 3, "text": "x"}, "expect": {"n": "1"}}

    def step(name: str, *snapshots: str) -> dict[str, Any]:
        return {"id": name, "title": f"step {name}", "snapshots": [snapshot(one) for one in snapshots]}

    def block(name: str, *steps: dict[str, Any]) -> dict[str, Any]:
        return {"id": name, "title": name, "goal": "", "phases": [{"id": "p1", "title": "p1", "steps": list(steps)}]}

    return {
        "schema": "card-source.v1",
        "id": "small",
        "uuid": "11111111-2222-3333-4444-555555555555",
        "version": "1.0.0",
        "title": "Small",
        "language": "en",
        "layout": "karta-classic",
        "target": {"name": "s", "directory": "src", "build": ["make"], "program": "build/small", "sources": ["a.c"]},
        "tasks": [
            {
                "id": "t1",
                "title": "First",
                "blocks": [block("b1", step("s1", "one", "two"), step("s2", "one")), block("b2", step("s1", "one"))],
            },
            {"id": "t2", "title": "Second", "blocks": [block("b1", step("s1", "one"))]},
        ],
    }


def first_step(source: dict[str, Any]) -> dict[str, Any]:
    """The step t1/b1/p1/s1."""
    step: dict[str, Any] = source["tasks"][0]["blocks"][0]["phases"][0]["steps"][0]
    return step


def catalog_of(source: dict[str, Any]) -> Catalog:
    return Catalog(parse_card(json.dumps(source).encode(), "test")[0])


@pytest.fixture
def source() -> dict[str, Any]:
    return small_source()


@pytest.fixture
def catalog() -> Catalog:
    return catalog_of(small_source())


def _level(kind: str, child: st.SearchStrategy[dict[str, Any]] | None) -> st.SearchStrategy[dict[str, Any]]:
    fixed: dict[str, Any] = {"id": st.sampled_from(["a", "b", "c", "d9", "e-f"]), "title": st.just("title")}
    if child is None:
        fixed["stop"] = st.just({"function": "main"})
    else:
        fixed[CHILDREN[kind]] = st.lists(child, min_size=1, max_size=2, unique_by=lambda item: item["id"])
    return st.fixed_dictionaries(fixed)


def catalogs() -> st.SearchStrategy[Catalog]:
    """Catalogs of random cards in which each item has one or two children."""
    level: st.SearchStrategy[dict[str, Any]] = _level("snapshots", None)
    for kind in ("steps", "phases", "blocks", "tasks"):
        level = _level(kind, level)
    tasks = st.lists(level, min_size=1, max_size=3, unique_by=lambda item: item["id"])
    return tasks.map(lambda found: catalog_of({**small_source(), "tasks": found}))

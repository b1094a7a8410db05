"""A small card, its progress, and events as ``state.events`` returns them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cardapp.card import progress as rules
from cardapp.card.catalog import Catalog
from cardapp.card.model import Block, Card, Expectation, Identity, Phase, Snapshot, Step, Stop, Target, Task
from cardapp.card.progress import LastResult, Status

IDENTITY = Identity("arena", "u-1", "1.0.0", "ab" * 32)
STEPS = ("t1/b1/p1/s1", "t1/b1/p1/s2", "t2/b1/p1/s1")


@pytest.fixture
def card() -> Card:
    def step(name: str, title: str) -> Step:
        stop = Stop(file="arena.c", line=31, text="return p;", function=None, hits=1)
        snapshot = Snapshot("end", f"End of {title}", stop, (Expectation("a.used", "48"),), ())
        return Step(name, title, "", f"Why does `{title}` work?", None, (snapshot,))

    def task(name: str, title: str, steps: tuple[Step, ...]) -> Task:
        return Task(name, title, "", (Block("b1", "Block & goal", "", "", (Phase("p1", "Phase", "", steps),)),))

    target = Target("arena", "src", ("make",), "build/arena", ("arena.c",))
    tasks = (
        task("t1", "Bump <up>", (step("s1", "First"), step("s2", "Second"))),
        task("t2", "Reset", (step("s1", "Third"),)),
    )
    return Card("arena", "u-1", "1.0.0", "Arenas | & <more>", "", "en", "karta-classic", target, None, tasks)


@pytest.fixture
def parts(card: Card) -> dict[str, Any]:
    """The arguments that both reports take."""
    catalog = Catalog(card)
    at = "2025-03-01T10:00:00.000Z"
    statuses = {
        "t1.b1.p1.s1": Status("approved", "bumps *well*", "zoë", at, 1),
        "t1.b1.p1.s2": Status("pending", "why?\nreally", "zoë", at, 2),
    }
    results = {
        STEPS[0]: LastResult("ready", at, f"{STEPS[0]}/end", None),
        STEPS[2]: LastResult("failed", "2025-03-01T11:00:00.000Z", f"{STEPS[2]}/end", "snapshot_drift"),
    }
    return {
        "learner": "Ada <L.>",
        "identity": IDENTITY,
        "card": card,
        "catalog": catalog,
        "progress": rules.overview(catalog, statuses, results),
        "at": "2025-03-02T12:30:00.000Z",
        "base_url": "http://127.0.0.1:8080",
    }


@pytest.fixture
def event() -> Callable[..., dict[str, Any]]:
    """An event with a default for every member; each call has the next ``seq``."""
    seq = 0

    def make(kind: str = "note", **members: Any) -> dict[str, Any]:
        nonlocal seq
        seq += 1
        default: dict[str, Any] = {
            "seq": seq, "at": f"2025-03-01T10:{seq // 60 % 60:02}:{seq % 60:02}.000Z", "kind": kind, "actor": "zoë",
            "key": STEPS[0], "card": {"id": "arena", "version": "1.0.0", "source_sha256": "ab" * 32}, "data": {},
            "evidence": [], "withdrawn": False, "hash": f"{seq:064x}",
        }  # fmt: skip
        return default | members

    return make

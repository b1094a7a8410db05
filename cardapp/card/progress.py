"""The progress response: each step is an item, pending or approved, with the result of its last replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cardapp.card.catalog import Catalog, Item
from cardapp.errors import NotFound

STATUSES = ("pending", "approved")


@dataclass(frozen=True)
class Status:
    """The stored status of one item; ``revision`` counts its changes."""

    status: str
    note: str
    actor: str
    updated_at: str
    revision: int


@dataclass(frozen=True)
class LastResult:
    """The step's last replay: its final state and error code, its time, and the key of the snapshot."""

    state: str
    at: str
    key: str
    code: str | None

    def as_json(self) -> dict[str, Any]:
        return {"state": self.state, "at": self.at, "key": self.key, "code": self.code}


def item_id(step_key: str) -> str:
    """The dotted path of a step: ``t1.b1.p1.s1``."""
    return step_key.replace("/", ".")


def step_of(catalog: Catalog, wanted: str) -> Item:
    """The step with the item id ``wanted``. Ids in a card have no dot, so an item id names one step.

    :raises NotFound: the card has no such step.
    """
    found = catalog.find(wanted.replace(".", "/"))
    if found is None or found.level != "step" or "/" in wanted:
        raise NotFound(f"this card has no progress item {wanted!r}; GET /api/progress lists all items")
    return found


def overview(catalog: Catalog, statuses: Mapping[str, Status], results: Mapping[str, LastResult]) -> dict[str, Any]:
    """Build ``{items, summary}`` of the progress response. The keys of ``statuses`` are item ids, those of ``results``
    step keys."""
    items = [item_json(step, statuses.get(item_id(step.key)), results.get(step.key)) for step in catalog.at("step")]
    approved = sum(item["status"] == "approved" for item in items)
    summary = {
        "total": len(items),
        "approved": approved,
        "pending": len(items) - approved,
        "percent": round(100 * approved / len(items), 1),
        "by_task": _by_task(catalog.at("task"), items),
        "execution": _execution(items),
    }
    return {"items": items, "summary": summary}


def item_json(step: Item, status: Status | None, result: LastResult | None) -> dict[str, Any]:
    """One progress item; a step without a stored status is pending with an empty note."""
    return {
        "id": item_id(step.key),
        "key": step.key,
        "title": step.title,
        "status": status.status if status else "pending",
        "note": status.note if status else "",
        "actor": status.actor if status else None,
        "updated_at": status.updated_at if status else None,
        "revision": status.revision if status else 0,
        "last_result": result.as_json() if result else None,
    }


def _by_task(tasks: list[Item], items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    tally = {
        task.id: {"task_id": task.id, "title": task.title, "total": 0, "approved": 0, "pending": 0} for task in tasks
    }
    for item in items:
        counts: dict[str, Any] = tally[item["key"].partition("/")[0]]
        counts["total"] += 1
        counts[item["status"]] += 1
    return list(tally.values())


def _execution(items: list[dict[str, Any]]) -> dict[str, Any]:
    results = [item["last_result"] for item in items if item["last_result"]]
    ready = sum(result["state"] == "ready" for result in results)
    return {
        "ready": ready,
        "failed": len(results) - ready,
        "never_run": len(items) - len(results),
        "last_at": max((result["at"] for result in results), default=None),
    }

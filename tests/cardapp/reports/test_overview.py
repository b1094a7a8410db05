from __future__ import annotations

from collections import Counter
from typing import Any

from cardapp.reports.overview import TaskTally, tallies


def test_each_task_has_a_tally_of_its_steps(parts: dict[str, Any]) -> None:
    assert tallies(parts["catalog"], parts["progress"]) == [
        TaskTally("Bump <up>", total=2, approved=1, ready=1, failed=0),
        TaskTally("Reset", total=1, approved=0, ready=0, failed=1),
    ]


def test_each_step_is_looked_at_once_however_many_tasks_there_are(parts: dict[str, Any]) -> None:
    """A card may have hundreds of tasks and thousands of steps."""
    reads: Counter[str] = Counter()

    class Counted(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            reads[name] += 1
            return super().__getitem__(name)

    items = [Counted(item) for item in parts["progress"]["items"]]
    tallies(parts["catalog"], {"items": items})
    assert reads["key"] == len(items)

"""Cards to HTML at growing sizes, side by side with pandoc on the same content: ``python -m tests.bench.emit``.

A step has a title, two sentences, three lines of code, a question, and a snapshot with a value. Each card is emitted in
processes of its own, so that its memory is its own.
"""

from __future__ import annotations

import itertools
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

from cardapp.card.source import SOURCE_NAME, load_card
from cardapp.publish import layouts
from cardapp.publish.export import emit
from cardapp.settings import ROOT
from tests.bench.figures import Figure, table

SIZES = (20, 2000)
ROUNDS = 3
STEPS_OF_PHASE, PHASES_OF_BLOCK, BLOCKS_OF_TASK = 5, 2, 10
ARENA = ROOT / "etc" / "cards" / "arena"


def measure() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        cards = {size: written(Path(folder) / str(size), islice(plain_steps(), size)) for size in SIZES}
        yield from _emission({size: _best(card) for size, card in cards.items()})
        yield from _commands(cards[SIZES[-1]])


def _emission(found: dict[int, dict[str, float]]) -> Iterator[Figure]:
    small, large = SIZES[0], SIZES[-1]
    for size, each in found.items():
        goal = "<= 1 000 ms" if size == large else ""
        times = f"{1000 * each['wall']:,.0f} ms ({1000 * each['cpu']:,.0f} ms of the processor)"
        yield Figure(f"{size} steps to HTML of {each['bytes'] / 1e6:.1f} MB", times, goal)
    costs = {size: each["cpu"] / size for size, each in found.items()}
    yield Figure(f"a step of {large}, as share of one of {small}", f"{costs[large] / costs[small]:.2f}", "<= 1.2")
    yield Figure(f"peak memory of {large} steps", f"{found[large]['memory'] / 2**20:,.0f} MiB", "<= 200 MiB")


def _commands(card: Path) -> Iterator[Figure]:
    """The whole commands, from start to end, in turn."""
    output, size = card / "card.html", SIZES[-1]
    own = [str(ROOT / "bin" / "cardapp"), "emit", str(card), "--format", "html", "-o", str(output)]
    program = shutil.which("pandoc")
    if program is None:
        yield Figure(f"`bin/cardapp emit` of {size} steps, start and checks included", _told(_seconds(own)))
        yield Figure("`pandoc` of the same as Markdown", "not measured: not installed (`apt-get install pandoc`)")
        return
    markdown = card / "card.md"
    markdown.write_text("\n\n".join(_markdown(card)), "utf-8")
    other = [program, "-f", "gfm", "-t", "html5", "-s", "-M", "title=Card", str(markdown), "-o", str(output)]
    pairs = [(_seconds(own), _seconds(other)) for _ in range(ROUNDS)]
    ours, theirs = (min(times) for times in zip(*pairs, strict=True))
    yield Figure(f"`bin/cardapp emit` of {size} steps, start and checks included", _told(ours))
    yield Figure(f"`pandoc` of the same as Markdown, {markdown.stat().st_size / 1e6:.1f} MB", _told(theirs))
    ratio = median(one / another for one, another in pairs)
    yield Figure("`bin/cardapp emit` / `pandoc`, median of pairs", f"{ratio:.2f}")


def _told(seconds: float) -> str:
    return f"{1000 * seconds:,.0f} ms"


def _seconds(command: list[str]) -> float:
    began = perf_counter()
    subprocess.run(command, check=True)
    return perf_counter() - began


# -- one export ----------------------------------------------------------------------------------------------------


def _best(card: Path) -> dict[str, float]:
    """The quickest of a few processes' first exports; memory is the most that any took."""
    runs = [_in_process_of_its_own(card) for _ in range(ROUNDS)]
    return min(runs, key=lambda run: run["cpu"]) | {"memory": max(run["memory"] for run in runs)}


def _in_process_of_its_own(card: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.bench.emit", str(card)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT, env=os.environ)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _one(card: Path) -> dict[str, float]:
    """Seconds, bytes of the file, and bytes of memory at the most."""
    loaded = load_card(card)
    layout = layouts.find(loaded.card.layout)
    began, cpu = perf_counter(), process_time()
    content = emit(loaded, layout, "html", {}, "Not proved").content
    wall, cpu = perf_counter() - began, process_time() - cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"wall": wall, "cpu": cpu, "bytes": len(content), "memory": memory}


# -- cards ---------------------------------------------------------------------------------------------------------


def written(folder: Path, steps: Iterable[dict[str, Any]]) -> Path:
    """A card's folder with these steps."""
    source = json.loads((ARENA / SOURCE_NAME).read_text("utf-8"))
    phases = _grouped(list(steps), STEPS_OF_PHASE, "steps", "A phase")
    blocks = _grouped(phases, PHASES_OF_BLOCK, "phases", "A block")
    goal = {"goal": "You can say what the arena holds before the debugger shows it."}
    source["tasks"] = _grouped([block | goal for block in blocks], BLOCKS_OF_TASK, "blocks", "A task")
    shutil.copytree(ARENA, folder)
    (folder / SOURCE_NAME).write_text(json.dumps(source), "utf-8")
    return folder


def plain_steps() -> Iterator[dict[str, Any]]:
    for number in itertools.count(1):
        yield {
            "id": f"s{number}",
            "title": f"Look at the value {number}",
            "text": f"The program stops for the {number}th time, **before** the line runs. Read `arena.used` and write "
            "down what you expect it to be behind the line.",
            "question": f"By how much does it grow in the step {number}?",
            "code": {"file": "arena.c", "from": 20, "to": 22},
            "snapshots": [
                {
                    "id": "before",
                    "title": "Before the line",
                    "stop": {"file": "arena.c", "line": 21, "text": ";", "hits": number},
                    "expect": {"number": str(number)},
                }
            ],
        }


def _grouped(items: list[dict[str, Any]], most: int, kind: str, title: str) -> list[dict[str, Any]]:
    groups = [items[first : first + most] for first in range(0, len(items), most)]
    return [{"id": f"{kind}-{n}", "title": f"{title} {n}", kind: group} for n, group in enumerate(groups, 1)]


def _markdown(folder: Path) -> Iterator[str]:
    """The card's texts, code and values as an author would write them in one file."""
    loaded = load_card(folder)
    card, sources = loaded.card, loaded.sources()
    yield f"# {card.title}\n\n{card.text}"
    for task in card.tasks:
        yield f"# {task.title}\n\n{task.text}"
        for block in task.blocks:
            yield f"## {block.title}\n\n{block.goal}\n\n{block.text}"
            for phase in block.phases:
                yield f"### {phase.title}\n\n{phase.text}"
                for step in phase.steps:
                    yield f"#### {step.title}\n\n{step.text}"
                    if step.code is not None:
                        lines = "\n".join(sources[step.code.file][step.code.first - 1 : step.code.last])
                        yield f"```\n{lines}\n```"
                    for snapshot in step.snapshots:
                        rows = "\n".join(f"| `{each.expression}` | `{each.value}` |" for each in snapshot.expect)
                        yield f"{snapshot.title}\n\n| Expression | Value |\n| --- | --- |\n{rows}"
                        yield "\n".join(f"- `{expression}`" for expression in snapshot.watch)
                    yield f"> {step.question}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(_one(Path(sys.argv[1]))))
    else:
        print(table(list(measure())))

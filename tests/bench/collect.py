"""``collect`` on the files of a class: ``python -m tests.bench.collect``.

Each of 200 learners has done the whole arena card: at each stop a move, a turned page, a prediction, a sync, a proof of
all values, a judgement, an answer and an approval.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from cardapp.card.answers import Entry, asked_stops, is_usable, overview
from cardapp.card.catalog import Catalog
from cardapp.card.source import LoadedCard, load_card
from cardapp.reports import answers_file
from cardapp.settings import ROOT
from cardapp.state.events import GENESIS, event_hash
from tests.bench.figures import Figure, table

LEARNERS = 200
ROUNDS = 3


def measure() -> Iterator[Figure]:
    loaded = load_card(str(ROOT / "etc" / "cards" / "arena"))
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        files = [_file(loaded, number, Path(folder)) for number in range(LEARNERS)]
        events = len(json.loads(files[0].read_text("utf-8"))["events"])
        size = sum(file.stat().st_size for file in files) / 1e6
        seconds = min(_collect(files, Path(folder)) for _ in range(ROUNDS))
        name = f"`bin/cardapp collect` of {LEARNERS} files, each with {events} events, together {size:.0f} MB"
        yield Figure(name, f"{seconds:.1f} s", "≤ 5 s")


def _collect(files: list[Path], folder: Path) -> float:
    began = perf_counter()
    command = [sys.executable, "-P", "-m", "cardapp", "collect", *map(str, files), "-o", str(folder)]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    return perf_counter() - began


def _file(loaded: LoadedCard, number: int, folder: Path) -> Path:
    events = list(_events(loaded, f"Learner {number}"))
    stops = asked_stops(Catalog(loaded.card))
    entries = [Entry(*(event[name] for name in ("seq", "at", "kind", "key", "data"))) for event in events]
    used = [entry for entry in entries if entry.kind.startswith("x-") or entry.kind == "prediction.judged"]
    path = folder / f"{number}.json"
    pieces = answers_file.render(
        learner=f"Learner {number}",
        identity=loaded.identity,
        card=loaded.card,
        stops=stops,
        answers=overview(stops, filter(is_usable, used)),
        events=events,
        head=events[-1]["hash"],
        at="2025-03-01T12:00:00.000Z",
    )
    path.write_text("".join(pieces), "utf-8")
    return path


def _events(loaded: LoadedCard, name: str) -> Iterator[dict[str, Any]]:
    identity, head = loaded.identity, GENESIS
    card = {"id": identity.id, "version": identity.version, "source_sha256": identity.source_sha256}
    for seq, (kind, key, data) in enumerate(_told(loaded, name), 1):
        at = f"2025-03-01T{10 + seq // 3600}:{seq // 60 % 60:02}:{seq % 60:02}.000Z"
        event = {"seq": seq, "at": at, "kind": kind, "actor": "page", "key": key, "card": card, "data": data}
        head = event_hash(head, event)
        yield {**event, "hash": head}


def _told(loaded: LoadedCard, name: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    yield "learner.named", "", {"name": name}
    seq = 1
    for key, snapshot in Catalog(loaded.card).snapshots.items():
        values = {each.expression: each.value for each in snapshot.expect}
        said = {expression: values.get(expression, "0") for expression in snapshot.ask}
        judged = {"said": said, "seen": said, "right": dict.fromkeys(said, True), "by": "program"}
        yield "navigation.set", key, {"sync_requested": False}
        yield "viewer.changed", key, {"scroll.page_index": 3}
        yield "x-prediction", key, {"values": said}
        yield "navigation.synced", key, {"generation": 7}
        yield "checkpoint.ready", key, {"generation": 7, "observed": _observed(values), "duration_ms": 52.125}
        yield "prediction.judged", key, {"prediction": seq + 3, **judged}
        yield "x-answer", key, {"text": "because the block is padded to a multiple of its alignment"}
        yield (
            "progress.changed",
            key.rpartition("/")[0],
            {"item": "t1", "from": "pending", "to": "approved", "note": ""},
        )
        seq += 8


def _observed(values: dict[str, str]) -> dict[str, Any]:
    checks = [{"name": name, "expected": value, "actual": value, "match": True} for name, value in values.items()]
    blocks = [{"offset": 16 * number, "size": 12, "label": f"block {number}"} for number in range(6)]
    return {
        "file": "arena.c",
        "line": 31,
        "function": "arena_alloc",
        "checks": checks,
        "values": {name: {"value": value, "error": None} for name, value in values.items()},
        "allocator": {"base": 4096, "size": 256, "used": 96, "high_water": 96, "blocks": blocks},
        "method": "fork",
    }


if __name__ == "__main__":
    print(table(list(measure())))

"""Replays from fork checkpoints over HTTP, proved and published, beside gdb's own ``restart``, in one run."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

from cardapp.card.source import load_card
from tests.bench.figures import Figure, median_ms, percentile
from tests.bench.replay import arena, built
from tests.functional.serving import Stage

SNAPSHOTS = 20
ROUNDS = 300


def measure() -> list[Figure]:
    with arena() as stage:
        return _measure(stage)


def _measure(stage: Stage) -> list[Figure]:
    snapshots = list(stage.service.services.card_loader.current().catalog.snapshots)
    chosen = random.Random(1)
    few = chosen.sample(snapshots, SNAPSHOTS)
    first = [replay(stage, key, "rerun") for key in few]
    again = [replay(stage, chosen.choice(few), "fork") for _ in range(ROUNDS)]
    restarts = _gdb(stage)
    return [
        Figure("first replay of a snapshot (rerun)", f"p50 {median_ms(first):.0f} ms"),
        Figure(
            "replay from a fork checkpoint, proved and published",
            f"p50 {median_ms(again):.0f} ms, p99 {percentile(again, 0.99):.0f} ms",
            "p50 ≤ 60 ms, p99 ≤ 150 ms",
        ),
        Figure(
            "gdb's own `restart` of a checkpoint, without proof, editor or a new checkpoint",
            f"p50 {median_ms(restarts):.0f} ms, p99 {percentile(restarts, 0.99):.0f} ms",
        ),
    ]


def replay(stage: Stage, key: str, method: str) -> float:
    body = stage.activation(key)
    began = time.perf_counter()
    answer = stage.tcp.post("/api/checkpoint/activate", body)
    took = time.perf_counter() - began
    assert answer.status == 200, answer.body
    assert answer.json["observed"]["method"] == method
    return took


def _gdb(stage: Stage) -> list[float]:
    program, run = built(stage), load_card(stage.card).card.target.run
    script = Path(__file__).with_name("gdb_restart.py")
    output = subprocess.run(
        ["gdb", "-nx", "-batch", "-ex", f"set $rounds = {ROUNDS // 3}", "-x", script, "--args", program, *run.args],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [float(line.split()[1]) for line in output.splitlines() if line.startswith("restart ")]

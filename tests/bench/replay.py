"""A checkpoint over HTTP against plain ``gdb -batch`` of the same stop, in turn in one run."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cardapp.card.model import Snapshot
from cardapp.card.source import load_card
from cardapp.settings import ROOT
from tests.bench.figures import Figure, median_ms, percentile
from tests.functional.runtimes import LOCAL
from tests.functional.serving import Stage

ROUNDS = 30
_WITHOUT_LIBRARY_SYMBOLS = ("set debug-file-directory /nonexistent",)


def measure() -> list[Figure]:
    with arena() as stage:
        return _measure(stage)


@contextmanager
def arena(runtime: str = LOCAL) -> Iterator[Stage]:
    """A service of the arena card with a session."""
    card = ROOT / "etc" / "cards" / "arena"
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as folder:
        stage = Stage(Path(folder) / "state", card, runtime)
        try:
            stage.sessions.start(card)
            yield stage
        finally:
            stage.close()


def built(stage: Stage) -> Path:
    """The program that the session of ``stage`` has built."""
    name = Path(load_card(stage.card).card.target.program).name
    session = Path(stage.sessions.socket).parent.parent
    found = (path for work in session.glob("work*") for path in work.rglob(name))
    return next(path for path in found if path.is_file())


def _measure(stage: Stage) -> list[Figure]:
    loaded = load_card(stage.card)
    snapshots = stage.service.services.card_loader.current().catalog.snapshots
    chosen = list(snapshots)[:: max(len(snapshots) // ROUNDS, 1)][:ROUNDS]
    program = built(stage)
    first = _replay(stage, chosen[0])
    warm, plain, bare = [], [], []
    for key in chosen:
        warm.append(_replay(stage, key))
        plain.append(gdb_batch(program, loaded.card.target.run.args, snapshots[key]))
        bare.append(gdb_batch(program, loaded.card.target.run.args, snapshots[key], *_WITHOUT_LIBRARY_SYMBOLS))
    ratio = statistics.median(a / b for a, b in zip(warm, plain, strict=True))
    bare_ratio = statistics.median(a / b for a, b in zip(warm, bare, strict=True))
    return [
        Figure("first checkpoint after the session's start", f"{1000 * first:.0f} ms"),
        Figure(
            "warm checkpoint, proved and published",
            f"p50 {median_ms(warm):.0f} ms, p99 {percentile(warm, 0.99):.0f} ms",
        ),
        Figure("`gdb -batch` to the same stops and values", f"p50 {median_ms(plain):.0f} ms"),
        Figure("the same without the symbols of libraries, as a session has it", f"p50 {median_ms(bare):.0f} ms"),
        Figure("warm checkpoint / `gdb -batch`, median of pairs", f"{ratio:.2f}", "≤ 1.2"),
        Figure("warm checkpoint / the same without the symbols of libraries", f"{bare_ratio:.2f}", "≤ 1.2"),
    ]


def _replay(stage: Stage, key: str) -> float:
    body = stage.activation(key)
    began = time.perf_counter()
    answer = stage.tcp.post("/api/checkpoint/activate", body)
    took = time.perf_counter() - began
    assert answer.status == 200, answer.body
    return took


def gdb_batch(program: Path, args: tuple[str, ...], snapshot: Snapshot, *first: str) -> float:
    """Seconds in which gdb alone starts ``program``, reaches the stop and prints its values."""
    stop = snapshot.stop
    place = stop.function or f"{stop.file}:{stop.line}"
    commands = ["set debuginfod enabled off", *first, f"break {place}", f"ignore 1 {stop.hits - 1}", "run >/dev/null"]
    commands += [f"print {each.expression}" for each in snapshot.expect]
    began = time.perf_counter()
    ended = subprocess.run(
        ["gdb", "-nx", "-batch", *(part for each in commands for part in ("-ex", each)), "--args", str(program), *args],
        capture_output=True,
        text=True,
        check=True,
    )
    took = time.perf_counter() - began
    assert "Breakpoint 1, " in ended.stdout, ended.stdout
    return took

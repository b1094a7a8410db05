"""Latency of the API under sixteen clients at once, each on a kept-alive connection, with a session running."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cardapp.settings import ROOT
from tests.bench.figures import Figure, percentile, spread
from tests.bench.load import CLIENTS
from tests.functional.serving import Sessions
from tests.functional.test_crash import Server

STARTS = 7


def measure() -> list[Figure]:
    card = ROOT / "etc" / "cards" / "arena"
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as folder:
        state = Path(folder) / "state"
        environment = {"CARD_STATE_DIR": str(state), "CARD_SOURCE": str(card), "CARD_API_PORT": "0"}
        sessions = Sessions(state)
        sessions.start(card)
        server = Server(_with_path(environment))
        try:
            port = int(server.address.rsplit(":", 1)[1])
            figures = [_loaded(port, *request) for request in _REQUESTS]
        finally:
            server.kill()
            sessions.stop()
        return [*figures, _start(_with_path(environment))]


_MOVE = json.dumps({"level": "step", "delta": 1}), json.dumps({"level": "step", "delta": -1})
_REQUESTS: list[tuple[str, str, str, tuple[str, ...]]] = [
    ("`GET /api/state`", "GET", "/api/state", ()),
    ("`POST /api/navigation/move` (durable)", "POST", "/api/navigation/move", _MOVE),
    ("`GET /api/control/state`", "GET", "/api/control/state", ()),
]


def _with_path(environment: dict[str, str]) -> dict[str, str]:
    return {**os.environ, **environment}


def _loaded(port: int, name: str, method: str, path: str, bodies: tuple[str, ...]) -> Figure:
    """The clients run in a process of their own, so that the server alone is measured."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.bench.load", str(port), method, path, *bodies],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=_with_path({"PYTHONPATH": str(ROOT)}),
    )
    seconds = json.loads(ended.stdout)
    return Figure(f"{name}, {CLIENTS} clients at once", spread(seconds))


def _start(environment: dict[str, str]) -> Figure:
    """The time from the launch of the program to its first answer."""
    took = [_first_answer(environment) for _ in range(STARTS)]
    return Figure("start of the API to its first answer", f"p50 {percentile(took, 0.5):.0f} ms", "≤ 500 ms")


def _first_answer(environment: dict[str, str]) -> float:
    began = time.perf_counter()
    server = Server(environment)
    try:
        server.api.get("/api/identity")
        return time.perf_counter() - began
    finally:
        server.kill()

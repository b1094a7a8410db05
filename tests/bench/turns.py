"""The APIs of another checkout and of this one, which run side by side and take turns.

python -m tests.bench.turns CHECKOUT [card | replay | market]      (another checkout, set up; default: all)

Both answer the same clients on the same data, each for a few seconds at a time, so other load on the machine affects
both. Processor time is that of the service and of PostgreSQL; it depends least on other programs.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.bench.entered import ROOT, Service, folder, launch, send
from tests.bench.load import CLIENTS
from tests.bench.market_http import CHART, _fill, _load, _uncached
from tests.bench.memory import children

ROUNDS = 7
SECONDS = 2.0
TICKS = 1_000_000
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_MOVE = json.dumps({"level": "step", "delta": 1}), json.dumps({"level": "step", "delta": -1})


@dataclass(frozen=True)
class Turn:
    """The result of one turn of a checkout: requests a second, and milliseconds of the processor for each."""

    rate: float
    cost: float

    def __str__(self) -> str:
        return f"{self.rate:,.0f} req/s, {self.cost:.2f} ms"


class Card:
    """The card application's API with a session of a shipped card."""

    def __init__(self, checkout: Path, ends: ExitStack, name: str = "arena") -> None:
        state, source = ends.enter_context(folder("card-")), checkout / "etc/cards" / name
        settings = {"CARD_STATE_DIR": str(state), "CARD_SOURCE": str(source), "CARD_API_PORT": "0"}
        launch(checkout / "bin/card-session", "start", str(source), **settings)
        ends.callback(launch, checkout / "bin/card-session", "stop", **settings)
        self._api = Service(checkout, ends.enter_context(folder("log-")), "cardapp", "serve", **settings)
        ends.callback(self._api.stop)

    def turn(self, method: str, path: str, *bodies: str) -> Turn:
        began = processor_time([self._api.pid])
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "tests.bench.load", str(self._api.port), method, path, *bodies],
            cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        seconds: list[float] = json.loads(ended.stdout)
        cost = (processor_time([self._api.pid]) - began) / len(seconds)
        return Turn(CLIENTS * len(seconds) / sum(seconds), 1000 * cost)

    def snapshots(self) -> list[str]:
        items = send(self._api.port, "GET", "/api/navigation/catalog")["items"]
        return [item["key"] for item in items if item["level"] == "snapshot"]

    def replay(self, key: str) -> float:
        """Seconds until the snapshot is proved and published."""
        port = self._api.port
        body = {
            "snapshot_ref": key,
            "generation": send(port, "GET", "/api/checkpoint/status")["generation"] + 1,
            "expected_binding": send(port, "GET", "/api/session")["binding"],
            "expected_identity": send(port, "GET", "/api/identity"),
        }
        began = time.perf_counter()
        send(port, "POST", "/api/checkpoint/activate", body)
        return time.perf_counter() - began


class Market:
    """The data API with a year of one symbol, on a cluster of its own as the product makes it."""

    def __init__(self, checkout: Path, ends: ExitStack) -> None:
        state = ends.enter_context(folder("market-"))
        settings = {"MARKET_STATE_DIR": str(state), "MARKET_API_PORT": "0"}
        self._api = Service(checkout, ends.enter_context(folder("log-")), "marketdata", "api", **settings)
        ends.callback(self._api.stop)
        self._postgres: int = json.loads((state / "owner.lock").read_text())["postgres"]
        self._secrets = state / "secrets"
        _fill(state, TICKS, 1)

    def turn(self, kind: str, clients: int, token: str) -> Turn:
        """``kind`` as in :func:`tests.bench.market_load.requests`, ``token`` the name of a secret."""
        secret = json.loads((self._secrets / f"{token}.json").read_text())["token"]
        began = processor_time([self._api.pid, *children(self._postgres)])
        run = _load(self._api.port, kind, clients, secret, SECONDS)
        took = processor_time([self._api.pid, *children(self._postgres)]) - began
        return Turn(run["rate"], 1000 * took / len(run["latencies"]))


def card(before: Path, after: Path) -> Iterator[str]:
    """Yields each row of a table as soon as it is measured."""
    with ExitStack() as ends:
        sides = [Card(checkout, ends) for checkout in (before, after)]
        for method, path, bodies in _CARD_REQUESTS:
            yield _row(f"`{method} {path}`, {CLIENTS} clients", [
                partial(side.turn, method, path, *bodies) for side in sides
            ])  # fmt: skip


def replays(before: Path, after: Path) -> Iterator[str]:
    """As :func:`card`."""
    for name in ("arena", "calc"):
        with ExitStack() as ends:
            sides = [Card(checkout, ends, name) for checkout in (before, after)]
            for how in ("first replay of a snapshot (rerun)", "second replay (fork)"):
                pairs = [
                    [took for _, took in sorted((side, sides[side].replay(key)) for side in (turn % 2, 1 - turn % 2))]
                    for turn, key in enumerate(sides[0].snapshots())
                ]
                was, now = (f"p50 {1000 * statistics.median(each):.0f} ms" for each in zip(*pairs, strict=True))
                ratio = statistics.median(now / was for was, now in pairs)
                yield f"| {how}, {name} | {was} | {now} | {ratio:.2f} |"


def market(before: Path, after: Path) -> Iterator[str]:
    """As :func:`card`."""
    with ExitStack() as ends:
        sides = [Market(checkout, ends) for checkout in (before, after)]
        for name, request in _MARKET_REQUESTS.items():
            yield _row(name, [partial(side.turn, *request) for side in sides])


_CARD_REQUESTS: Sequence[tuple[str, str, Sequence[str]]] = (
    ("GET", "/api/state", ()),
    ("POST", "/api/navigation/move", _MOVE),
    ("GET", "/api/control/state", ()),
)
_MARKET_REQUESTS: Mapping[str, tuple[str, int, str]] = {
    "500 candles of 1m, 1 client, uncached": (_uncached("1m", 1), 1, "read"),
    "500 candles of 1h, 1 client, uncached": (_uncached("1h", 1), 1, "read"),
    "500 candles, 16 clients, uncached": (_uncached("1h", 1), 16, "read"),
    "500 candles, 16 clients, cached": (CHART, 16, "read"),
    "`GET /healthz`, 16 clients": ("/healthz", 16, "read"),
    "single ticks, 32 clients (durable)": ("tick", 32, "alg"),
    "batches of 10 000, 4 clients": ("batch", 4, "alg"),
}


def _row(name: str, sides: Sequence[Callable[[], Turn]]) -> str:
    """Medians of the turns, and the median of the ratios of two neighbouring turns."""
    pairs = []
    for number in range(ROUNDS):
        first = number % 2  # the checkouts take turns at going first, too
        turns = {index: sides[index]() for index in (first, 1 - first)}
        pairs.append((turns[0], turns[1]))
    before, after = (
        Turn(statistics.median(turn.rate for turn in side), statistics.median(turn.cost for turn in side))
        for side in zip(*pairs, strict=True)
    )
    rate = statistics.median(after.rate / before.rate for before, after in pairs)
    cost = statistics.median(after.cost / before.cost for before, after in pairs)
    return f"| {name} | {before} | {after} | {rate:.2f}, {cost:.2f} |"


def processor_time(pids: Sequence[int]) -> float:
    """Seconds of the processor that these processes used so far; one that has just ended counts as 0."""
    used = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        used += int(fields[11]) + int(fields[12])
    return used / _TICKS_PER_SECOND


if __name__ == "__main__":
    print("| What | Before | After | After : before |\n| --- | --- | --- | --- |")
    parts = {"card": card, "replay": replays, "market": market}
    for measure in [parts[name] for name in sys.argv[2:] or parts]:
        for row in measure(Path(sys.argv[1]).resolve(), ROOT):
            print(row, flush=True)

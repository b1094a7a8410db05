"""Whether size slows the card application: long records, big cards, many requests.

python -m tests.bench.size [EVENTS [REQUESTS]]      (default 1 000 000 events, 100 000 requests)
"""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from cardapp.card.model import Identity
from cardapp.settings import ROOT
from cardapp.state import events, evidence
from cardapp.state.database import Database
from cardapp.web.app import ROUTES
from tests.bench.figures import Figure, percentile, resident, table
from tests.functional.serving import Api
from tests.functional.test_crash import Server

SMALL = ROOT / "etc" / "cards" / "arena"
SIDES = (10, 10, 10, 10, 2)
"""Tasks of the big card, blocks of each, phases, steps and snapshots: 20 000 of these."""
ROUNDS = 300
LOADS = 5
PICTURES = 10_000
OFTEN = 20
NEEDS_SESSION = ("/api/session", "/api/editor/state")
READ = (
    *(route.path for route in ROUTES if route.method == "GET" and route.answer and not route.parameters),
    "/api/events?limit=200&kind=note&key=bump",
    "/api/events?limit=200&after=900000",
)


def measure(count: int, requests: int) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as folder:
        yield from _records(Path(folder), [count // 100, count // 10, count])
        big = _big_card(Path(folder) / "big")
        yield from _cards(Path(folder), big)
        yield _memory(Path(folder), big, requests)
        yield from _reports(Path(folder), big, count)


# -- the length of the record ----------------------------------------------------------------------------------------


def _records(folder: Path, sizes: list[int]) -> Iterator[Figure]:
    """The same requests to services with records of these lengths, in turn."""
    with ExitStack() as stack:
        apis = [
            stack.enter_context(_served(_with_record(folder / f"events-{size}", size), SMALL)).api for size in sizes
        ]
        work: dict[str, Callable[[Api, int], Any]] = {
            "append an event (durable)": lambda api, _: api.post(
                "/api/events", {"kind": "note", "actor": "bench", "text": "A note of some length."}
            ),
            "read a page of 200 events, anywhere": lambda api, size: api.request(
                "GET", f"/api/events?after={random.randrange(size - 200)}&limit=200"
            ),
        }
        for name, request in work.items():
            took = _in_turn(apis, sizes, request)
            middle = [statistics.median(each) for each in took]
            medians = ", ".join(f"{1000 * each:.2f} ms" for each in middle)
            yield Figure(f"{name}, one client, at {' / '.join(f'{size:,}' for size in sizes)} events", f"p50 {medians}")
            yield Figure(f"{name}: slowest : quickest", f"{max(middle) / min(middle):.2f}", "≤ 1.3")


def _in_turn(apis: list[Api], sizes: list[int], request: Callable[[Api, int], Any]) -> list[list[float]]:
    took: list[list[float]] = [[] for _ in apis]
    for _ in range(ROUNDS):
        for seconds, api, size in random.sample([*zip(took, apis, sizes, strict=True)], len(apis)):
            began = time.perf_counter()
            answer = request(api, size)
            seconds.append(time.perf_counter() - began)
            assert answer.status in (200, 201), answer.body
    return took


def _with_record(state: Path, size: int) -> Path:
    """A state folder whose record has ``size`` events, as long as replays make them."""
    card = Identity("arena", "u", "1.0.0", "0" * 64)
    data = {"observed": {"checks": [{"name": "a.used", "expected": "8", "actual": "8", "match": True}] * 4}}
    kinds = ("navigation.moved", "checkpoint.ready", "note")
    with closing(Database.open(state / "card-state")) as database:
        for first in range(0, size, 50_000):
            with database.write() as connection:
                for number in range(first, min(first + 50_000, size)):
                    at = f"2026-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}.000Z"
                    events.append(
                        connection, kind=kinds[number % 3], actor="bench", key="bump", card=card, data=data, at=at
                    )
    return state


# -- the size of the card --------------------------------------------------------------------------------------------


def _cards(folder: Path, big: Path) -> Iterator[Figure]:
    moves = [json.dumps({"level": "step", "delta": delta}) for delta in (1, -1)]
    with _served(folder / "small-state", SMALL) as small, _served(folder / "big-state", big) as large:
        for name, method, path, bodies in (
            ("`GET /api/state`", "GET", "/api/state", []),
            ("`GET /api/control/state`", "GET", "/api/control/state", []),
            ("`POST /api/navigation/move`", "POST", "/api/navigation/move", moves),
        ):
            runs = [[_load(server, method, path, bodies) for server in (small, large)] for _ in range(LOADS)]
            few, many = (statistics.median(run[side] for run in runs) for side in (0, 1))
            title = f"{name}, 16 clients: 20 000 snapshots beside {_snapshots(small)}"
            yield Figure(title, f"p50 {many:.1f} ms beside {few:.1f} ms, {many / few:.2f}x", "≤ 1.5x")


def _snapshots(server: Server) -> int:
    return sum(item["level"] == "snapshot" for item in server.api.get("/api/navigation/catalog")["items"])


def _load(server: Server, method: str, path: str, bodies: list[str]) -> float:
    port = server.address.rsplit(":", 1)[1]
    ended = subprocess.run(
        [sys.executable, "-m", "tests.bench.load", port, method, path, *bodies],
        capture_output=True, text=True, check=True, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    return percentile(json.loads(ended.stdout), 0.5)


def _big_card(folder: Path) -> Path:
    """The arena's program with a card of :data:`SIDES`, every snapshot at the first stop of the arena's card."""
    shutil.copytree(SMALL, folder)
    document = json.loads((SMALL / "card_source.json").read_text())
    step = document["tasks"][0]["blocks"][0]["phases"][0]["steps"][0]
    tasks, blocks, phases, steps, snapshots = SIDES
    many = [step["snapshots"][0] | {"id": f"x{n}"} for n in range(snapshots)]
    one_step = [step | {"id": f"s{n}", "snapshots": many} for n in range(steps)]
    one_phase = [{"id": f"p{n}", "title": f"Phase {n}", "steps": one_step} for n in range(phases)]
    one_block = [{"id": f"b{n}", "title": f"Block {n}", "goal": "Goal.", "phases": one_phase} for n in range(blocks)]
    document["tasks"] = [{"id": f"t{n}", "title": f"Task {n}", "blocks": one_block} for n in range(tasks)]
    document |= {"id": "big", "uuid": str(uuid.uuid4())}
    (folder / "card_source.json").write_text(json.dumps(document))
    return folder


# -- the number of requests ------------------------------------------------------------------------------------------


def _memory(folder: Path, big: Path, requests: int) -> Figure:
    """Resident memory of a service of the big card after the first twentieth of the requests, and after all of them."""
    with _served(folder / "memory-state", big) as server:
        sizes = []
        for count in (requests // 20, requests):
            _hammer(server, count)
            sizes.append(resident(server.process.pid))
        start, end = sizes
        value = f"{start / 1024:.0f} MiB, then {end / 1024:.0f} MiB: {end / start:.3f}"
        return Figure(
            f"resident after {requests // 20:,} and {requests:,} more requests of five kinds", value, "≤ 1.10"
        )


def _hammer(server: Server, count: int) -> None:
    api = server.api
    for number in range(count // 5):
        api.get("/api/state")
        api.get("/api/control/state")
        api.post("/api/navigation/move", {"level": "step", "delta": 1 if number % 8 < 4 else -1})
        api.get(f"/api/events?after={number}&limit=20")
        api.get("/api/navigation/current")


# -- pictures and reports --------------------------------------------------------------------------------------------


def _reports(folder: Path, big: Path, size: int) -> Iterator[Figure]:
    state = _with_record(folder / "pictures", size)
    _add_pictures(state)
    with _served(state, big) as server:
        yield _endpoints(server, size)
    with _served(state, SMALL) as server:
        for name in ("teams.md", "lesson.html"):
            before, began = resident(server.process.pid), time.perf_counter()
            first, length = _drain(server, f"/api/report/{name}")
            took, peak = time.perf_counter() - began, resident(server.process.pid, "VmHWM")
            yield Figure(
                f"`GET /api/report/{name}` with {size:,} events and {PICTURES:,} pictures",
                f"{length / 2**20:.1f} MiB in {took:.1f} s, first byte after {1000 * first:.0f} ms, "
                f"peak memory {(peak - before) / 1024:.0f} MiB over the start",
            )


def _endpoints(server: Server, size: int) -> Figure:
    """Every endpoint that answers JSON and needs no session, and the status of a step, the only write that reads
    much."""
    step = next(item["key"] for item in server.api.get("/api/navigation/catalog")["items"] if item["level"] == "step")
    asked: dict[str, Callable[[], Any]] = {
        path: lambda path=path: server.api.request("GET", path) for path in READ if path not in NEEDS_SESSION
    }
    note = {"status": "approved", "note": "Seen.", "actor": "bench"}
    asked["PUT /api/progress/…"] = lambda: server.api.put(f"/api/progress/{step.replace('/', '.')}", note)
    took = {name: percentile([_seconds(ask) for _ in range(OFTEN)], 0.5) for name, ask in asked.items()}
    slow = sorted(took, key=lambda name: -took[name])
    slowest = ", ".join(f"`{name}` {took[name]:.0f} ms" for name in slow[:3])
    return Figure(
        f"{len(took)} endpoints, one client, 20 000 snapshots, {size:,} events, {PICTURES:,} pictures",
        f"p50 {slowest}; the others at most {took[slow[3]]:.0f} ms",
    )


def _seconds(ask: Callable[[], Any]) -> float:
    began = time.perf_counter()
    answer = ask()
    took = time.perf_counter() - began
    assert answer.status == 200, answer.body
    return took


def _drain(server: Server, path: str) -> tuple[float, int]:
    """Seconds to the first byte of the answer's body, and its length."""
    began = time.perf_counter()
    with urllib.request.urlopen(server.address + path, timeout=600) as answer:
        length = len(answer.read(1))
        first = time.perf_counter() - began
        while piece := answer.read(1 << 16):
            length += len(piece)
    return first, length


def _add_pictures(state: Path) -> None:
    card = Identity("arena", "u", "1.0.0", "0" * 64)
    with closing(Database.open(state / "card-state")) as database, database.write() as connection:
        for number in range(PICTURES):
            stored = evidence.store(state / "evidence", _picture(number))
            at = f"2026-02-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}.000Z"
            events.pin(
                connection, stored, event_seq=None, caption=f"Picture {number}", actor="b", key="bump", card=card, at=at
            )


def _picture(number: int) -> bytes:
    """A PNG of 16 by 16 pixels, unlike every other one."""
    row = b"\0" + number.to_bytes(4, "big") * 12
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", 16, 16, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(row * 16)),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in parts
    )


@contextmanager
def _served(state: Path, card: Path) -> Iterator[Server]:
    environment = {"CARD_STATE_DIR": str(state), "CARD_SOURCE": str(card), "CARD_API_PORT": "0"}
    server = Server(os.environ | environment)
    try:
        yield server
    finally:
        server.kill()


if __name__ == "__main__":
    asked = [int(argument) for argument in sys.argv[1:]]
    print(table([*measure(*(asked + [1_000_000, 100_000][len(asked) :]))]))

"""Whether the data API's memory stays as it is while ticks pour in.

python -m tests.bench.market_memory [TICKS]      (default 10 000 000, in batches of 10 000 by four clients)
"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench.figures import Figure, resident, table
from tests.bench.market_load import BATCH, START
from tests.functional.market_process import ApiProcess, Client

CLIENTS = 4
STEPS = 10
WARM_UP = 100
"""Batches before the first measurement. By then each of the API's workers has handled a few. Each batch allocates its
memory anew, so the process grows for some more millions of ticks. The second half of the run shows whether the growth
ends."""


def measure(ticks: int) -> list[Figure]:
    per_step = max(ticks // BATCH // STEPS, 1)
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        api = ApiProcess(Path(folder), durable=True)
        api.start()
        try:
            sizes = []
            sent = 0
            for count in (WARM_UP, *[per_step] * STEPS):
                _ingest(api, range(sent, sent + count))
                sent += count
                sizes.append(resident(api.pid))
        finally:
            api.stop()
    rows = [
        Figure(f"resident after the warm-up and {step * per_step * BATCH:,} ticks", f"{size / 1024:.1f} MiB")
        for step, size in enumerate(sizes)
    ]
    return [*rows, Figure("end : middle", f"{sizes[-1] / sizes[STEPS // 2]:.3f}", "<= 1.05")]


def _ingest(api: ApiProcess, batches: range) -> None:
    """Send the batches of these numbers, each client its share of them."""
    shares = [batches[client::CLIENTS] for client in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(partial(_send, api.port, api.token("alg")), shares))


def _send(port: int, token: str, share: range) -> None:
    with closing(Client(port, token)) as client:
        for number in share:
            status, answer = client("POST", "/v1/ingest/tick", {"ticks": _batch(number)})
            if status != 200 or answer["accepted"] != BATCH:
                raise SystemExit(f"a batch was answered by {status} {answer}")


def _batch(number: int) -> list[dict[str, Any]]:
    """Ticks of four symbols, a second apart in each; no tick is in two batches."""
    return [
        {
            "symbol": f"BENCH:{n % 4}",
            "id": f"{n:010}",
            "ts": START + n * 250,
            "price": f"{100 + n % 50}.{n % 997:03}",
            "size": "1.25",
        }
        for n in range(number * BATCH, (number + 1) * BATCH)
    ]


if __name__ == "__main__":
    print(table(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)))

"""Whether the time of a refusal reveals if a token never existed, was revoked or has expired.

python -m tests.bench.market_tokens [ROUNDS]      (default 3 000, the kinds in turn)
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import psycopg

from marketdata import token
from marketdata.postgres.cluster import conninfo
from marketdata.store import tokens
from tests.bench.figures import Figure, median_ms, table
from tests.functional.market_process import ApiProcess, Client


def measure(rounds: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        api = ApiProcess(Path(folder))
        api.start()
        try:
            return _measure(api, rounds)
        finally:
            api.stop()


def _measure(api: ApiProcess, rounds: int) -> list[Figure]:
    kinds = {"was never made": token.generate} | {
        name: (lambda text=text: text) for name, text in _unusable(api).items()
    }
    took: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(rounds):
        for name in random.sample(sorted(kinds), len(kinds)):
            with closing(Client(api.port, kinds[name]())) as client:
                client("GET", "/healthz")  # opens the connection
                began = time.perf_counter()
                status, _ = client("GET", "/v1/symbols")
                took[name].append(time.perf_counter() - began)
            assert status == 401, (name, status)
    middle = {name: statistics.median(seconds) for name, seconds in took.items()}
    return [
        *(Figure(f"refusal of a token that {name}", f"p50 {median_ms(took[name]):.3f} ms") for name in kinds),
        Figure("slowest : quickest kind", f"{max(middle.values()) / min(middle.values()):.3f}", "<= 1.05"),
    ]


def _unusable(api: ApiProcess) -> dict[str, str]:
    with psycopg.connect(conninfo(api.state_dir), autocommit=True) as connection:
        revoked, first = tokens.create(connection, "revoked", "read")
        tokens.revoke(connection, revoked.id)
        expired, second = tokens.create(connection, "expired", "read")
        connection.execute("UPDATE api_tokens SET expires_at = now() WHERE id = %s::bigint", (expired.id,))
    return {"was revoked": first, "has expired": second}


if __name__ == "__main__":
    print(table(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 3000)))

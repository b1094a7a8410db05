"""How soon after ``bin/start`` the demo source has stored its history, and a live candle moves.

python -m tests.bench.market_demo
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from marketdata.demo.chain import BLOCK_S, DAY, HISTORY
from tests.bench.figures import Figure, table
from tests.functional.market_process import Client
from tests.functional.serving import until
from tests.functional.test_start import started

CHART = "/v1/chart?symbol=DEMO:ACORN-USD&interval=1m&limit=1"
SECONDS = 300.0


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        first = _seconds(Path(folder))
        again = _seconds(Path(folder))
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        _make_chain(Path(folder), HISTORY + DAY)
        later = _seconds(Path(folder))
    return [
        Figure("first start to a moving live candle", f"{first:.1f} s", "≤ 30 s"),
        Figure("next start to a moving live candle", f"{again:.1f} s"),
        Figure("first start with a live day beside the history", f"{later:.1f} s"),
    ]


def _seconds(state: Path) -> float:
    """The seconds from the start of the services until the newest candle changes. This candle must have begun less than
    a minute ago."""
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp", ignore_cleanup_errors=True) as cards:
        ports = {"CARD_API_PORT": "0", "MARKET_API_PORT": "0"}
        environment = os.environ | ports | {"CARD_STATE_DIR": cards, "MARKET_STATE_DIR": str(state)}
        begun = time.monotonic()
        with started(environment) as (_process, printed):
            found = re.search(r"data API answers at http://127\.0\.0\.1:([0-9]+);", printed)
            assert found is not None
            token = json.loads((state / "secrets" / "read.json").read_text())["token"]
            with closing(Client(int(found[1]), token)) as read:
                seen = until(lambda: _live(read), SECONDS)
                until(lambda: _live(read) not in (None, seen), SECONDS)
            return time.monotonic() - begun


def _live(read: Client) -> Any:
    status, answer = read("GET", CHART)
    if status != 200 or not answer["candles"]:
        return None
    candle = answer["candles"][-1]
    return candle if time.time() - candle["t"] / 1000 < 60 else None


def _make_chain(state: Path, blocks: int) -> None:
    """Write the file of a chain that began ``blocks`` blocks ago."""
    chain = {"seed": "07" * 32, "genesis": int(time.time()) - blocks * BLOCK_S, "history": HISTORY}
    (state / "demo").mkdir(mode=0o700)
    (state / "demo" / "chain.json").write_text(json.dumps(chain))


if __name__ == "__main__":
    print(table(measure()))

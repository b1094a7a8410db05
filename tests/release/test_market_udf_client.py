"""TradingView's own UDF adapter, under Node, as a client of the running API.

TradingView publishes the adapter only with its chart library, which is in no registry. One package of the npm registry
contains it under another name. This test calls its datafeed as a chart would.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.capabilities import need
from tests.functional.market_process import SECONDS, ApiProcess, Client

pytestmark = pytest.mark.functional

PACKAGE = "@orderly.network/trading-view@1.5.17"
SYMBOL, TODAY = "UDF:ETH-USD", "NOW:BTC-USD"
START = 1_700_000_040  # seconds; a full minute
BARS = 700
PAGE = 300
"""The same value as in ``udf_client.mjs``."""

Bar = dict[str, float]


@pytest.fixture
def heard(state_dir: Path, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """What the client received from an API with :data:`BARS` bars in every other minute, of three ticks each."""
    npm = shutil.which("npm")
    need(npm, "npm with Node.js 20 or newer (Debian package npm)")
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--omit=dev", PACKAGE]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=10 * SECONDS)
    api = ApiProcess(state_dir)
    api.start()
    with closing(Client(api.port, api.token("alg"))) as client:
        status, answer = client("POST", "/v1/ingest/tick", {"ticks": _ticks() + _today()})
    assert (status, answer["rejected"]) == (200, [])
    done = subprocess.run(
        ["node", Path(__file__).with_name("udf_client.mjs")],
        cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False,
        env=os.environ | {"API": f"http://127.0.0.1:{api.port}", "TOKEN": api.token("read")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    yield json.loads(done.stdout)
    api.stop()


def _ticks() -> list[dict[str, Any]]:
    """Each bar opens at n + 1, reaches n + 2.25, and closes at n + 0.5; the ticks come shuffled."""
    ticks = [
        {"symbol": SYMBOL, "id": f"{n}.{k}", "ts": (START + n * 120 + k) * 1000, "price": f"{n + more}", "size": "0.5"}
        for n in range(BARS)
        for k, more in enumerate((1, 2.25, 0.5))
    ]
    return ticks[1::2] + ticks[0::2]


def _today() -> list[dict[str, Any]]:
    """Ticks of another symbol: one of two days ago, and three of the last hour."""
    now = time.time_ns() // 1_000_000
    return [
        {"symbol": TODAY, "id": f"{n}", "ts": now - ago, "price": price, "size": "0.25"}
        for n, (ago, price) in enumerate(
            ((172_800_000, "200"), (3_000_000, "190.5"), (2_000_000, "210"), (9_000, "205"))
        )
    ]


def _bar(n: int) -> Bar:
    moment = (START + n * 120) // 60 * 60 * 1000
    return {"time": moment, "open": n + 1, "high": n + 2.25, "low": n + 0.5, "close": n + 0.5, "volume": 1.5}


def test_a_chart_finds_its_symbol_scrolls_back_to_the_first_bar_and_hears_of_errors(heard: dict[str, Any]) -> None:
    assert heard["configuration"]["supports_search"]
    assert {"1", "60", "1D", "1W", "1M"} <= set(heard["configuration"]["supported_resolutions"])
    assert [(each["symbol"], each["exchange"]) for each in heard["found"]] == [(SYMBOL, "UDF")]
    assert heard["elsewhere"] == []
    info = heard["info"]
    assert (info["ticker"], info["session"], info["timezone"], info["pricescale"]) == (SYMBOL, "24x7", "Etc/UTC", 100)
    pages = heard["minutes"]["pages"]
    assert [len(page) for page in pages] == [PAGE, PAGE, BARS - 2 * PAGE]
    assert [bar for page in reversed(pages) for bar in page] == [_bar(n) for n in range(BARS)]
    assert heard["minutes"]["end"]["list"] == []
    [days] = heard["days"]["pages"]
    assert [day["time"] % 86_400_000 for day in days] == [0] * len(days)
    assert sum(day["volume"] for day in days) == 1.5 * BARS
    assert (days[0]["open"], days[-1]["close"]) == (1, BARS - 0.5)

    # The seconds 60 to 180 after the first bar contain the second bar. Then the empty minute between them is asked for.
    assert [bar["time"] for bar in heard["gap"]["list"]] == [_bar(1)["time"]]
    assert heard["empty"] == {"list": [], "meta": {"noData": True, "nextTime": _bar(0)["time"] / 1000}}

    answer = heard["quotes"]
    assert [(each["s"], each["n"]) for each in answer["d"]] == [("ok", SYMBOL), ("ok", TODAY), ("error", "NO:SUCH")]
    old, quote, unknown = (each["v"] for each in answer["d"])
    assert [each["lp"] for each in (old, quote)] == [BARS - 0.5, 205]
    assert unknown == {}
    assert abs(heard["time"] - time.time()) < 2 * SECONDS
    assert "no symbol NO:SUCH" in heard["unknown"]["error"]
    assert {url.partition("/tv/")[2].partition("?")[0] for url in heard["asked"]} == {
        "config", "search", "symbols", "time", "history", "quotes",
    }  # fmt: skip

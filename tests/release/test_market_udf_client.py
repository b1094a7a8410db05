"""TradingView's own UDF adapter, under Node, as a client of the running API.

TradingView publishes the adapter only with its chart library, which is in no registry. One package of the npm registry
contains it under another name. This test calls its datafeed as a chart would.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
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


@pytest.fixture(scope="module")
def package() -> Iterator[Path]:
    """A folder in which the package is installed."""
    npm = shutil.which("npm")
    need(npm, "npm with Node.js 20 or newer (Debian package npm)")
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp") as folder:
        command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--omit=dev", PACKAGE]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=10 * SECONDS)
        yield Path(folder)


@pytest.fixture(scope="module")
def heard(package: Path) -> Iterator[dict[str, Any]]:
    """What the client received from an API with :data:`BARS` bars in every other minute, of three ticks each."""
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        api = ApiProcess(Path(folder))
        api.start()
        try:
            with closing(Client(api.port, api.token("alg"))) as client:
                status, answer = client("POST", "/v1/ingest/tick", {"ticks": _ticks() + _today()})
            assert (status, answer["rejected"]) == (200, [])
            done = subprocess.run(
                ["node", Path(__file__).with_name("udf_client.mjs")],
                cwd=package, capture_output=True, text=True, timeout=SECONDS, check=False,
                env=os.environ | {"API": f"http://127.0.0.1:{api.port}", "TOKEN": api.token("read")},
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            yield json.loads(done.stdout)
        finally:
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


def test_a_chart_finds_its_symbol_and_scrolls_back_to_the_first_bar(heard: dict[str, Any]) -> None:
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


def test_an_empty_range_names_the_time_of_the_bar_before_it(heard: dict[str, Any]) -> None:
    """The seconds 60 to 180 after the first bar contain the second bar. Then the empty minute between the two bars is
    requested."""
    assert [bar["time"] for bar in heard["gap"]["list"]] == [_bar(1)["time"]]
    assert heard["empty"] == {"list": [], "meta": {"noData": True, "nextTime": _bar(0)["time"] / 1000}}


def test_quotes_the_time_and_errors_reach_the_chart(heard: dict[str, Any]) -> None:
    """The client joins names by commas."""
    answer = heard["quotes"]
    assert [(each["s"], each["n"]) for each in answer["d"]] == [("ok", SYMBOL), ("ok", TODAY), ("error", "NO:SUCH")]
    old, quote, unknown = (each["v"] for each in answer["d"])
    assert (old["lp"], old["ch"], old["chp"], old["volume"]) == (BARS - 0.5, 0, 0, 0)
    assert (quote["lp"], quote["ch"], quote["chp"], quote["volume"]) == (205, 5, 2.5, 0.75)
    assert unknown == {}
    assert abs(heard["time"] - time.time()) < 2 * SECONDS
    assert "no symbol NO:SUCH" in heard["unknown"]["error"]
    assert {url.partition("/tv/")[2].partition("?")[0] for url in heard["asked"]} == {
        "config", "search", "symbols", "time", "history", "quotes",
    }  # fmt: skip

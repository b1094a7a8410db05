"""A minor upgrade of PostgreSQL's programs under the running service."""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.functional.market_process import ApiProcess, Client
from tests.marketdata.postgres.client_process import Watched
from tests.marketdata.postgres.minor_upgrade import Installation

pytestmark = [pytest.mark.functional, pytest.mark.full]

CHART = "/v1/chart?symbol=UPGRADE:A&interval=1m"


@pytest.fixture
def installation() -> Iterator[Installation]:
    with tempfile.TemporaryDirectory(prefix="programs-", dir="/tmp") as folder:
        yield Installation(Path(folder))


@pytest.fixture
def api(state_dir: Path, installation: Installation) -> Iterator[ApiProcess]:
    process = ApiProcess(state_dir, **installation.environment)
    process.start()
    yield process
    process.stop()


def tick(number: int) -> dict[str, Any]:
    return {"symbol": "UPGRADE:A", "id": str(number), "ts": 1_700_000_000_000, "price": "1.5", "size": "2"}


def eventually(ask: Callable[[], Any], wanted: Callable[[Any], bool]) -> Any:
    for _ in range(600):
        if wanted(found := ask()):
            return found
        threading.Event().wait(0.05)
    pytest.fail(f"{found} to the end")


def test_a_minor_upgrade_is_reported_until_postgresql_is_restarted(api: ApiProcess, installation: Installation) -> None:
    watched = Watched(api.state_dir)
    first = watched.status()
    with closing(Client(api.port, api.token("alg"))) as write, closing(Client(api.port, api.token("read"))) as read:
        assert write("POST", "/v1/ingest/tick", tick(1))[0] == 201
        assert read("GET", "/ready")[0] == 200

        installation.unpack()
        installation.put(installation.library)
        status, problem = eventually(lambda: read("GET", "/ready"), lambda answer: answer[0] != 200)
        assert status == 503, problem
        health = read("GET", "/healthz")[1]
        assert not health["database"]["reachable"]
        assert health["database"]["reason"] == problem["detail"]
        assert "plpgsql.so" not in problem["detail"]
        log = api.log.read_text()
        assert re.search(
            r"the database is not usable: \w+, SQLSTATE (\w{5}): could not load library .*plpgsql\.so", log
        )
        assert re.search(r"GET '/ready' failed: \w+, SQLSTATE \w{5}: could not load library", log)
        metrics = read("GET", "/metrics")[1].decode()
        assert re.search(r'marketdata_database_failures_total\{code="\w+",sqlstate="\w{5}"\} [1-9]', metrics)
        assert "marketdata_ready 0" in metrics
        assert watched.status() == first  # the program is not there yet

        installation.put(installation.postgres)
        eventually(lambda: read("GET", "/ready"), lambda answer: answer[0] == 200)
        assert watched.status()["pid"] == first["pid"]
        assert watched.status()["postgres"] != first["postgres"]
        assert write("POST", "/v1/ingest/tick", tick(2))[0] == 201
        assert read("GET", CHART)[1]["candles"][0]["n"] == 2
        assert "marketdata_ready 1" in read("GET", "/metrics")[1].decode()

"""A minor upgrade of PostgreSQL's programs under the running service."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.functional.market_process import ApiProcess, Client
from tests.functional.serving import until
from tests.marketdata.postgres.client_process import Watched
from tests.marketdata.postgres.minor_upgrade import Installation

pytestmark = pytest.mark.functional

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


def answer(read: Client, is_ready: bool) -> Any:
    """The answer of /ready when it says so."""
    return until(lambda: (found := read("GET", "/ready")) and (found[0] == 200) is is_ready and found, 60)


def test_a_minor_upgrade_is_reported_until_postgresql_is_restarted(api: ApiProcess, installation: Installation) -> None:
    watched = Watched(api.state_dir)
    first = watched.status()
    with closing(Client(api.port, api.token("alg"))) as write, closing(Client(api.port, api.token("read"))) as read:
        assert write("POST", "/v1/ingest/tick", tick(1))[0] == 201
        assert read("GET", "/ready")[0] == 200

        installation.unpack()
        installation.put(installation.library)
        status, problem = answer(read, is_ready=False)
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
        answer(read, is_ready=True)
        assert watched.status()["pid"] == first["pid"]
        assert watched.status()["postgres"] != first["postgres"]
        assert write("POST", "/v1/ingest/tick", tick(2))[0] == 201
        assert read("GET", CHART)[1]["candles"][0]["n"] == 2
        assert "marketdata_ready 1" in read("GET", "/metrics")[1].decode()

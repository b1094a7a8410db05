"""What the processes of the API tell each other through memory: counters that outlive a process, and reports."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from time import monotonic
from typing import Any

import pytest

from marketdata.api.metrics import Metrics
from marketdata.api.serve import Service, Times
from marketdata.api.shared_memory import FRESH_SECONDS, SharedMemory, shared_file
from marketdata.settings import Settings
from tests.marketdata.api.conftest import Api

READY: dict[str, Any] = {
    "ready": True, "ticks_table": "md_ticks_v1", "candles_function": "md_candles_v1", "checked_s_ago": 1.5,
    "replicas": [], "nodes": [], "graphql": None,
}  # fmt: skip


@pytest.fixture
def now() -> list[float]:
    return [monotonic()]


@pytest.fixture
def two(now: list[float]) -> list[SharedMemory]:
    """The memory of two processes, as each of them sees it."""
    descriptor = shared_file(2)
    return [SharedMemory(2, own=number, descriptor=descriptor, clock=lambda: now[0]) for number in range(2)]


def test_counters_are_sums_and_go_on_in_the_next_process(two: list[SharedMemory]) -> None:
    first, second = (Metrics(memory) for memory in two)
    first.observe("GET", "/v1/chart", 200, 0.002)
    second.observe("GET", "/v1/chart", 200, 0.3)
    second.observe("GET", "/v1/chart", 404, 0.3)
    second.ingested("created", 5)
    next_one = Metrics(two[0])
    next_one.observe("GET", "/v1/chart", 200, 0.002)
    next_one.ingested("created", 7)
    text = Metrics(two[1]).render({})
    assert 'marketdata_requests_total{method="GET",path="/v1/chart",status="200"} 3\n' in text
    assert 'marketdata_requests_total{method="GET",path="/v1/chart",status="404"} 1\n' in text
    assert 'marketdata_request_seconds_bucket{method="GET",path="/v1/chart",le="0.0025"} 2\n' in text
    assert 'marketdata_request_seconds_count{method="GET",path="/v1/chart"} 4\n' in text
    assert 'marketdata_request_seconds_sum{method="GET",path="/v1/chart"} 0.604000\n' in text
    assert 'marketdata_ingested_total{outcome="created"} 12\n' in text
    assert first.render({}) == text


def test_a_report_is_whole_and_is_forgotten_when_it_is_old(two: list[SharedMemory], now: list[float]) -> None:
    own = two[0].own
    assert own is not None
    assert two[1].other_reports() == []
    for number in range(5):
        own.report({"number": number})
        (report,) = two[1].other_reports()
        assert report["number"] == number
    assert two[0].other_reports() == [], "its own report"
    now[0] += FRESH_SECONDS - 0.01
    assert len(two[1].other_reports()) == 1
    now[0] += 0.01
    assert two[1].other_reports() == []
    own.report({"number": 6})
    assert len(two[1].other_reports()) == 1
    own.forget_report()
    assert two[1].other_reports() == []


@pytest.fixture
def unready(service_settings: Settings, two: list[SharedMemory]) -> Iterator[Service]:
    """One of two processes, whose database does not answer."""
    settings = dataclasses.replace(service_settings, database_url="postgresql://user@127.0.0.1:1/x")
    running = Service(settings, two[0], times=Times(connection=0.1))
    running.start()
    yield running
    running.stop()


def test_a_process_is_ready_when_another_one_is(unready: Service, two: list[SharedMemory]) -> None:
    api, other = Api(unready, "", ""), two[1].own
    assert other is not None
    api.problem("GET", "/ready", status=503, code="database_unavailable")
    other.report({"ready": None, "gauges": {}})
    api.problem("GET", "/ready", status=503, code="database_unavailable")
    other.report({"ready": READY, "gauges": {}})
    assert api.get("/ready") == READY

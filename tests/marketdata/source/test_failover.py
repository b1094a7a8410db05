"""Several endpoints of a chain, each a scripted server: which one is asked, and which answers are rejected as
contradictions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from typing import Any

import pytest

from marketdata.errors import ProviderError, RangeRefused
from marketdata.source import rpc
from marketdata.source.failover import Failover, connected
from marketdata.source.log_filter import LogFilter
from marketdata.source.pools import KINDS
from marketdata.source.rpc_file import Chain, Endpoint
from tests.marketdata.source.provider import Raw, error
from tests.marketdata.source.synthetic_chain import CHAIN_ID, POOL, ForkedChain, SyntheticChain

WANTED = LogFilter({POOL: KINDS["uniswap-v2"].swap_topics})
KEY = "a-very-secret-key"
Chains = tuple[SyntheticChain, SyntheticChain]


@pytest.fixture
def chains() -> Iterator[Chains]:
    """Two endpoints, of which the first one knows ten blocks more."""
    with closing(SyntheticChain(110, 1)) as first, closing(SyntheticChain(100, 1)) as second:
        yield first, second


Connect = Callable[..., Failover]


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def connect(chains: Chains, clock: Clock) -> Iterator[Connect]:
    """Makes a provider of the two endpoints, with budgets of calls per second."""
    with ExitStack() as stack:

        def make(*rates: float) -> Failover:
            pairs = zip(chains, rates or (1e6, 1e6), strict=True)
            endpoints = tuple(Endpoint(f"{chain.url}/{KEY}", {}, rate) for chain, rate in pairs)
            return stack.enter_context(connection(endpoints, clock))

        yield make


def connection(
    endpoints: Sequence[Endpoint], clock: Callable[[], float] = time.monotonic
) -> AbstractContextManager[Failover]:
    chain = Chain("T", CHAIN_ID, tuple(endpoints), 4)
    return closing(connected(chain, threading.Event(), retry_pause=0.001, clock=clock))


def head(provider: Failover) -> int:
    return provider.head(with_finalized=False)[0].number


def _with_status(status: int, *headers: tuple[str, str]) -> Any:
    return lambda *_: Raw(b"no", status, headers)


def _on_chain(chain_id: int) -> Any:
    return lambda request, _: [{"id": call["id"], "result": hex(chain_id)} for call in request]


FAILURES: tuple[tuple[Any, int], ...] = (
    (_with_status(500), 2),
    (_with_status(401), 1),
    (_with_status(429), 2),
    (_with_status(429, ("Retry-After", "60")), 1),
    (_on_chain(CHAIN_ID + 1), 1),
    (lambda request, _: error(request, "daily request count exceeded"), 2),
    (lambda request, _: error(request, "your plan has ended"), 1),
)
"""Failures, and how often the failed request is sent."""


def test_the_next_endpoint_answers_until_the_first_one_has_recovered(
    chains: Chains, connect: Connect, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = chains
    works = first.answer
    for number, (failure, tries) in enumerate(FAILURES):
        for chain in chains:
            chain.asked.clear()
        caplog.clear()
        provider = connect()
        assert head(provider) == 110
        assert second.asked == []
        first.answer, asked = failure, len(first.asked)
        assert head(provider) == head(provider) == 100, number
        assert len(first.asked) - asked == tries, number  # not asked during the pause
        assert provider.name in second.url
        assert provider.switches == 1
        first.answer = works
        clock.now += 30
        assert head(provider) == 110
        assert provider.switches == 2
        assert provider.requests == {chain.url[7:]: len(chain.asked) for chain in chains}
        [line] = caplog.messages
        assert first.url[7:] in line
        assert KEY not in line


def test_the_pause_of_an_endpoint_that_fails_again_doubles_until_it_has_worked_as_long(
    chains: Chains, connect: Connect, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    first, _ = chains
    works, first.answer = first.answer, _with_status(401)
    provider = connect()
    for pause in (30, 60, 120, 240, 480, 600, 600):
        assert head(provider) == 100
        asked = len(first.asked)
        clock.now += pause - 1
        assert head(provider) == 100
        assert len(first.asked) == asked, pause
        assert caplog.messages[-1].endswith(f"it is asked again in {pause} s")
        clock.now += 1
    first.answer = works
    assert head(provider) == 110
    for since, pause in ((600, 600), (601, 30)):
        clock.now += since
        first.answer = _with_status(401)
        assert head(provider) == 100
        assert caplog.messages[-1].endswith(f"it is asked again in {pause} s")
        clock.now += pause
        first.answer = works


def test_while_no_endpoint_works_each_failed_one_is_tried(chains: Chains, connect: Connect) -> None:
    answers = [chain.answer for chain in chains]
    for chain in chains:
        chain.answer = _with_status(503)
    provider = connect()
    for _ in range(2):
        with pytest.raises(ProviderError, match=r"127\.0\.0\.1:\d+: HTTP status 503: no; 127") as caught:
            head(provider)
        assert KEY not in caught.value.detail
    chains[1].answer = answers[1]
    assert head(provider) == 100  # at once, although its pause has not ended


def test_ranges_are_read_from_the_endpoint_with_budget_left(chains: Chains, connect: Connect) -> None:
    provider = connect(50, 50)
    for _ in range(20):
        logs, _ = provider.logs_between(1, 50, WANTED, (1, 50))
        assert len(logs) == 50
    assert all("eth_getLogs" in str(chain.asked) for chain in chains)
    # The newest block is asked of the first one, although it has to wait.
    assert head(provider) == 110
    assert provider.switches == 0


def test_a_final_range_is_compared_with_the_endpoint_that_is_asked_for_the_newest_block(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The second endpoint has more budget left and other blocks from number 100 on."""
    with closing(SyntheticChain(110, 1)) as first, closing(ForkedChain(110, 1)) as second:
        endpoints = (Endpoint(first.url, {}, 10), Endpoint(second.url, {}, 1e6))
        with connection(endpoints) as provider:
            assert head(provider) == 110
            provider.logs_between(1, 99, WANTED, (1, 99))
            assert provider.name == second.url[7:]
            assert caplog.messages == []
            logs, headers = provider.logs_between(90, 105, WANTED, (90, 105))
            assert provider.name == first.url[7:]
            assert not any(log.block_hash.endswith("beef") for log in logs)
            [line] = caplog.messages
            place = f"the final block 105 is {second.block(105)['hash']} at {second.url[7:]}"
            assert line.startswith(f"{place}, and {headers[105].hash} at {first.url[7:]}")
            # If the first one contradicts a block that is stored as final, the second one is asked.
            assert provider.distrust("block 7 is not 0x12")
            provider.find_headers([7])
            assert provider.name == second.url[7:]


def test_a_refused_range_of_the_first_endpoint_makes_the_next_range_smaller(chains: Chains, connect: Connect) -> None:
    provider = connect(10, 100)
    chains[0].most = 20
    with pytest.raises(RangeRefused) as caught:
        provider.logs_between(1, 50, WANTED, (1, 50))
    assert caught.value.suggested == 20
    assert chains[1].asked == []
    # The second one has more budget left and refuses, but the first one does not.
    chains[0].most, chains[1].most = 1000, 20
    assert len(provider.logs_between(1, 50, WANTED, (1, 50))[0]) == 50
    assert len(chains[1].asked) == 1


def test_a_call_that_both_endpoints_refuse_is_an_error_of_the_call(chains: Chains, connect: Connect) -> None:
    answers = [chain.answer for chain in chains]
    for chain in chains:
        chain.answer = lambda request, _: error(request, "no such luck")
    provider = connect()
    with pytest.raises(ProviderError, match="no such luck") as caught:
        provider.headers([1, 2])
    assert caught.value.code == "call_refused"
    for chain, answer in zip(chains, answers, strict=True):
        chain.answer = answer
    assert head(provider) == 110


def test_a_distrusted_endpoint_is_not_asked_unless_all_say_the_same(
    chains: Chains, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    provider = connect()
    assert head(provider) == 110
    assert provider.distrust("block 7 is not 0x12")
    assert head(provider) == 100
    assert f"{chains[0].url[7:]} contradicts a final block: block 7 is not 0x12" in caplog.messages[0]
    chains[1].answer = _with_status(500)
    with pytest.raises(ProviderError, match="status 500"):
        head(provider)
    asked = len(chains[0].asked)
    with pytest.raises(ProviderError, match="status 500"):
        head(provider)
    assert len(chains[0].asked) == asked
    provider = connect()
    assert head(provider) == 110
    assert provider.distrust("block 7 is not 0x12")
    chains[1].answer = chains[0].answer
    assert head(provider) == 110
    assert not provider.distrust("block 7 is not 0x12")
    assert head(provider) == 110
    assert provider.name in chains[0].url


def test_the_only_endpoint_is_believed_and_its_errors_are_raised(chains: Chains) -> None:
    with connection([Endpoint(chains[0].url, {}, 1e6)]) as provider:
        assert not provider.distrust("block 7 is not 0x12")
        chains[0].answer = _with_status(500)
        with pytest.raises(ProviderError, match="status 500"):
            head(provider)
        assert len(chains[0].asked) == rpc.TRIES

"""A chain over JSON-RPC, with a provider that a test scripts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from marketdata.errors import ProviderError
from marketdata.source.evm import Header, Log, bloom_bits, selector
from marketdata.source.log_filter import LogFilter
from marketdata.source.pools import KINDS
from marketdata.source.provider import RpcProvider
from marketdata.source.rpc import Rpc
from marketdata.source.rpc_file import Endpoint
from tests.marketdata.source.provider import Provider
from tests.marketdata.source.synthetic_chain import BLOCK_S, CHAIN_ID, POOL, START, SyntheticChain

SYMBOL, DECIMALS = (selector(f"{name}()") for name in ("symbol", "decimals"))


class Contracts(Provider):
    """Answers ``eth_call`` by the contract and the function. An answer that is a dict is an error."""

    def __init__(self, answers: dict[tuple[str, str], Any]) -> None:
        super().__init__(lambda request, _: self._answer(request))
        self.answers = answers

    def _answer(self, request: Any) -> Any:
        if isinstance(request, list):
            return [self._answer(each) for each in request]
        [call, _] = request["params"]
        found = self.answers.get((call["to"], call["data"]), "0x")
        key = "error" if isinstance(found, dict) else "result"
        return {"jsonrpc": "2.0", "id": request["id"], key: found}


@pytest.fixture
def contracts() -> Iterator[Contracts]:
    with closing(Contracts({})) as found:
        yield found


@pytest.fixture
def provider(contracts: Contracts) -> Iterator[RpcProvider]:
    with closing(RpcProvider(Rpc(Endpoint(contracts.url, {}, 1e6), stopping=threading.Event()), 1)) as found:
        yield found


def test_a_refused_call_leaves_the_results_of_the_other_contracts(provider: RpcProvider, contracts: Contracts) -> None:
    contracts.answers = {
        ("0x1", DECIMALS): "0x12",
        ("0x2", DECIMALS): {"code": 3, "message": "execution reverted: too many requests, header not found"},
        ("0x3", DECIMALS): {"code": -32015, "message": "VM execution error.", "data": "Reverted 0x"},
        ("0x4", DECIMALS): {"code": -32000, "message": "execution reverted"},
        ("0x5", DECIMALS): {"code": -32000, "message": "out of gas"},
        ("0x1", SYMBOL): "0x41",
    }
    asked = [(f"0x{number}", "decimals()") for number in range(1, 7)] + [("0x1", "symbol()")]
    assert provider.read_contracts(asked) == [b"\x12", b"", b"", b"", b"", b"", b"\x41"]
    # All in one request, and the call that was out of gas once more, with one of an account without code.
    assert [len(request) for _, request in contracts.asked] == [7, 2]


def test_a_call_that_is_refused_once_is_asked_again(provider: RpcProvider, contracts: Contracts) -> None:
    contracts.answers = {("0x1", DECIMALS): {"code": -32000, "message": "not now"}, ("0x2", DECIMALS): "0x12"}
    respond = contracts.answer

    def answer(request: Any, headers: dict[str, str]) -> Any:
        found = respond(request, headers)
        contracts.answers["0x1", DECIMALS] = "0x06"
        return found

    contracts.answer = answer
    assert provider.read_contracts([("0x1", "decimals()"), ("0x2", "decimals()")]) == [b"\x06", b"\x12"]


def test_a_provider_that_refuses_every_call_is_an_error(provider: RpcProvider, contracts: Contracts) -> None:
    refusal = {"code": -32601, "message": "the method eth_call is not available"}
    contracts.answers = {(each, DECIMALS): refusal for each in ("0x0", "0x1", "0x2", "0x" + "00" * 20)}
    with pytest.raises(ProviderError, match="not available") as caught:
        provider.read_contracts([(f"0x{number}", "decimals()") for number in range(3)])
    assert caught.value.code == "call_refused"
    with pytest.raises(ProviderError, match="not available"):
        provider.read_contract("0x1", "decimals()")


WANTED = LogFilter({POOL: KINDS["uniswap-v2"].swap_topics})
FIRST, LAST = 10, 90
Edit = Callable[[int, dict[str, Any]], dict[str, Any]]
"""Takes a block's number and a log, and returns the fields of the log that differ."""


class EditedChain(SyntheticChain):
    """A chain whose logs ``edit`` changes."""

    def __init__(self, edit: Edit) -> None:
        super().__init__(head=100, swaps=2)
        self.edit = edit

    def logs(self, number: int) -> list[dict[str, Any]]:
        return [log | self.edit(number, log) for log in super().logs(number)]


class Read:
    """What :meth:`RpcProvider.logs_between` returned, and what it asked."""

    def __init__(self, edit: Edit) -> None:
        with closing(EditedChain(edit)) as chain:
            endpoint = Endpoint(chain.url, {}, 1e6)
            with closing(RpcProvider(Rpc(endpoint, stopping=threading.Event(), tries=1), CHAIN_ID)) as provider:
                self.logs, self.headers = provider.logs_between(FIRST, LAST, WANTED, (FIRST, LAST + 1))
                self.contradicted = provider.contradicted_ranges
        calls = [call for _, asked in chain.asked for call in (asked if isinstance(asked, list) else [asked])]
        self.asked = [
            int(call["params"][0], 16) for call in calls if call["method"] == "eth_getBlockByNumber"
        ]  # fmt: skip
        self.requests = len(chain.asked)
        assert [log.time for log in self.logs] == [START + log.block_number * BLOCK_S for log in self.logs]
        assert [log.block_number for log in self.logs] == sorted([*range(FIRST, LAST + 1)] * 2)
        assert {FIRST, LAST + 1} <= self.headers.keys()


def test_only_blocks_whose_logs_name_no_time_are_asked_for_their_header() -> None:
    read = Read(lambda *_: {})
    assert len(read.asked) == len(set(read.asked)) == 4  # both ends, and two others as a sample
    assert read.requests == 2
    for time in ("0x0", None, "", "1700000000", 1_700_000_000, hex(1_700_000_000_000)):
        read = Read(lambda number, _, time=time: {"blockTimestamp": time} if number % 10 == 5 else {})
        assert len(read.asked) == len(set(read.asked)) == 4 + 8, time
        assert {15, 25, 35, 45, 55, 65, 75, 85} <= set(read.asked)
        assert (read.requests, read.contradicted) == (2, 0), time
        read = Read(lambda *_, time=time: {"blockTimestamp": time})
        assert sorted(read.asked) == [*range(FIRST, LAST + 1), LAST + 1], time


def test_another_sample_is_asked_for_each_range() -> None:
    assert len({frozenset(Read(lambda *_: {}).asked) for _ in range(5)}) > 1


def at(block: int, second: int = 0) -> dict[str, Any]:
    return {"blockTimestamp": hex(START + block * BLOCK_S + second)}


WRONG_TIMES: dict[str, Edit] = {
    "all are early": lambda number, _: at(number, -1),
    "one decreases": lambda number, _: at(40, -1) if number == 41 else {},
    "one of a block": lambda number, log: at(41, -1) if number == 41 and log["logIndex"] == "0x1" else {},
    "after the end": lambda number, _: at(LAST + 2) if number == LAST else {},
}


def test_a_wrong_time_in_a_log_is_replaced_by_that_of_the_header(caplog: pytest.LogCaptureFixture) -> None:
    for name, edit in WRONG_TIMES.items():
        caplog.clear()
        read = Read(edit)
        assert sorted(read.asked) == [*range(FIRST, LAST + 1), LAST + 1], name
        assert read.contradicted == 1, name
        [line] = caplog.messages
        assert "contradicts itself" in line
        assert f"blocks {FIRST} to {LAST} are read header by header" in line


def test_a_log_of_another_block_is_an_error_although_only_one_log_has_it() -> None:
    other = "0x" + "ee" * 32
    with pytest.raises(ProviderError, match="a log of block 41 is of a block that is not in the chain"):
        Read(lambda number, log: {"blockHash": other} if number == 41 and log["logIndex"] == "0x1" else {})
    with pytest.raises(ProviderError, match="is of a block that is not in the chain"):
        Read(lambda *_: {"blockHash": other})


def test_a_request_names_at_most_500_contracts() -> None:
    swap, other = "0x" + "aa" * 32, "0x" + "bb" * 32
    for count in (500, 501):
        addresses = [f"0x{at:040x}" for at in range(count)]
        wanted = LogFilter({address: [swap] for address in addresses})
        named = {} if count > 500 else {"address": addresses}
        assert wanted.parameters() == {**named, "topics": [[swap]]}
        for topic, contract in ((swap, addresses[-1]), (swap, "0x" + "cc" * 20), (other, addresses[-1])):
            log = Log(contract, (topic,), b"", 1, "", "", 0, 0)
            bloom = bloom_bits(contract) | bloom_bits(topic)
            assert wanted.selects(log) == (topic == swap and contract in addresses)
            is_possible = topic == swap and (count > 500 or contract in addresses)
            assert wanted.may_be_in(Header(1, "", "", 0, bloom, True)) == is_possible

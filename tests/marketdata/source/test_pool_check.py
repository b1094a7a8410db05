"""The check of a pool: its kind, the creation of a singleton's pool, and refused calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Any, cast

import pytest

from marketdata.errors import ProviderError, RangeRefused
from marketdata.source import pool_check
from marketdata.source.evm import WORD, Header, Log
from marketdata.source.log_filter import LogFilter
from marketdata.source.pools import KINDS
from marketdata.source.pools.pool import NATIVE
from marketdata.source.provider import Provider
from marketdata.source.rpc_file import ListedPool, Token

POOL = ListedPool("T:A-B", "0x" + "11" * 20, "uniswap-v2", (18, 18), False, 0)
ID, OTHER_ID, TOKEN = "0x" + "1d" * 32, "0x" + "2d" * 32, "0x" + "22" * 20
V4_POOL = replace(POOL, address=f"{POOL.address}#{ID}", kind="uniswap-v4")
COIN = Token("COIN", 9)
HEAD = 200_000


class Contracts:
    """Answers calls of contracts' functions. An answer that is an error is raised; a missing answer is empty. ``logs``
    are on the chain, and ``most`` is the largest number of blocks in one request."""

    def __init__(self, answers: dict[str, Any], logs: tuple[Log, ...] = (), most: int = HEAD) -> None:
        self._answers = answers
        self._logs = logs
        self._most = most
        self.asked: list[tuple[int, int]] = []
        self.name = "test"

    def read_contract(self, address: str, function: str) -> bytes:
        assert "#" not in address
        found = self._answers.get(function, b"")
        if isinstance(found, ProviderError):
            raise found
        return cast("bytes", found)

    def read_contracts(self, calls: Sequence[tuple[str, str]]) -> list[bytes]:
        return [self.read_contract(*call) for call in calls]

    def head(self, *, with_finalized: bool) -> tuple[Header, int]:
        assert not with_finalized
        return Header(HEAD, "0x" + "ab" * 32, "0x" + "cd" * 32, 0, 0, True), 0

    def logs_between(
        self, first: int, last: int, wanted: LogFilter, ends: tuple[int]
    ) -> tuple[list[Log], dict[int, Header]]:
        assert ends == (last,)
        assert 0 <= first <= last <= HEAD
        assert wanted.parameters()["topics"] == [[*KINDS["uniswap-v4"].creations], [ID]]
        self.asked.append((first, last))
        if last - first >= self._most:
            raise RangeRefused("too many blocks")
        return [log for log in self._logs if first <= log.block_number <= last and wanted.selects(log)], {}


def report(**answers: Any) -> pool_check.Finding:
    functions = {name: bytes(count * WORD) for name, count in KINDS[POOL.kind].functions.items()}
    contracts = Contracts(functions | {f"{name}()": answer for name, answer in answers.items()})
    return pool_check.report(cast("Provider", contracts), POOL, COIN)


def test_a_refused_call_is_a_fault_of_its_pool() -> None:
    found = report(token0=ProviderError("eth_call: out of gas", code="call_refused"))
    assert found.faults == ("eth_call: out of gas",)
    with pytest.raises(ProviderError, match="no answer"):
        report(token0=ProviderError("no answer"))


def test_a_pool_without_token0_is_a_fault() -> None:
    found = report(token1=bytes(WORD - 1) + b"\2", decimals=word(18), symbol=b"B".ljust(WORD, b"\0"))
    assert found.faults == ("the pool does not say its token0",)
    assert "token1" in found.text


def word(number: int) -> bytes:
    return number.to_bytes(WORD, "big")


FUNCTIONS = {
    # The functions of the contracts that the check may ask for, with the words of their results.
    "uniswap-v2": {"getReserves()": 3, "token0()": 1, "token1()": 1},
    "uniswap-v3": {"slot0()": 7, "token0()": 1, "token1()": 1},
    "pancakeswap-v3": {"slot0()": 7, "lmPool()": 1, "token0()": 1, "token1()": 1},
    "solidly": {"getReserves()": 3, "stable()": 1, "token0()": 1, "token1()": 1},
    "uniswap-v4": {"protocolFeeController()": 1},
}


def test_a_wrong_kind_is_named() -> None:
    assert FUNCTIONS.keys() == KINDS.keys()
    for listed, (real, functions) in product(KINDS, FUNCTIONS.items()):
        contracts = Contracts({name: bytes(count * WORD) for name, count in functions.items()})
        pool = replace(POOL, kind=listed, address=V4_POOL.address if listed == "uniswap-v4" else POOL.address)
        faults = pool_check.compare(cast("Provider", contracts), pool, COIN).faults
        if listed != real:
            assert faults == (f"is not a {listed} pool: it is a {real} pool",)
        else:
            assert not any("is not a" in fault for fault in faults), listed


def initialized(block: int, id: str = ID, hooks: int = 0) -> Log:
    [topic] = KINDS["uniswap-v4"].creations
    topics = (topic, id, "0x" + NATIVE[2:].rjust(64, "0"), "0x" + TOKEN[2:].rjust(64, "0"))
    data = b"".join(map(word, (3000, 60, hooks, 1 << 96, 0)))
    return Log(POOL.address, topics, data, block, "0x" + "bb" * 32, "0x" + "cc" * 32, 0, 0)


def v4_report(*logs: Log, most: int = HEAD, **changes: Any) -> tuple[pool_check.Finding, list[tuple[int, int]]]:
    answers = {"protocolFeeController()": word(0), "decimals()": word(6), "symbol()": b"SIX".ljust(WORD, b"\0")}
    contracts = Contracts(answers, logs, most)
    pool = replace(V4_POOL, decimals=None, **changes)
    return pool_check.report(cast("Provider", contracts), pool, COIN), contracts.asked


def test_the_tokens_of_a_singletons_pool_are_those_of_its_creation() -> None:
    found, asked = v4_report(initialized(70_000), initialized(70_001, OTHER_ID), start_block=70_000)
    assert (found.faults, found.decimals, len(asked)) == ((), (9, 6), 1)
    assert f"token0 {NATIVE} COIN with 9 decimals, token1 {TOKEN} SIX with 6 decimals" in found.text
    wrong, _ = v4_report(initialized(70_000), start_block=HEAD)
    assert wrong.faults == ()
    contracts = Contracts({"protocolFeeController()": word(0), "decimals()": word(6)}, (initialized(5),))
    listed = replace(V4_POOL, decimals=(18, 6))
    assert pool_check.compare(cast("Provider", contracts), listed, COIN).faults == (
        "token0 has 9 decimals, and rpc.json says 18",
    )


def test_the_creation_is_found_wherever_it_is() -> None:
    blocks, starts = (0, 1, 69_999, 70_000, HEAD - 1, HEAD), (0, 70_000, HEAD, HEAD + 1, HEAD + 500)
    for case in product((HEAD + 1, 3_000), starts, blocks):
        most, start, block = case
        found, asked = v4_report(initialized(block), most=most, start_block=start)
        assert (found.faults, found.decimals) == ((), (9, 6)), case
        searched = sorted(each for each in asked if each[1] - each[0] < most)
        assert all(first == last + 1 for (_, last), (first, _) in pairwise(searched)), case


def test_an_unknown_id_and_hooks_that_change_amounts_are_faults() -> None:
    found, asked = v4_report(initialized(5, OTHER_ID), start_block=70_000)
    assert found.faults == ("no pool with this id was ever created",)
    assert (min(asked)[0], max(last for _, last in asked)) == (0, HEAD)
    found, _ = v4_report(initialized(5, hooks=1 << 3))
    assert found.faults == ("its hooks change the amounts of swaps (BEFORE_SWAP_RETURNS_DELTA)",)


def test_a_malformed_creation_is_an_error_of_the_provider() -> None:
    with pytest.raises(ProviderError, match="creation has 0 bytes of data"):
        v4_report(initialized(5)._replace(data=b""))


def test_a_provider_that_refuses_a_single_block_is_an_error() -> None:
    with pytest.raises(RangeRefused):
        v4_report(initialized(5), most=0)

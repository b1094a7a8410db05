"""The check of a pool if a call is refused or a contract lacks a function."""

from __future__ import annotations

from typing import Any, cast

import pytest

from marketdata.errors import ProviderError
from marketdata.source import pool_check
from marketdata.source.evm import WORD
from marketdata.source.pools import KINDS
from marketdata.source.provider import Provider
from marketdata.source.rpc_file import ListedPool

POOL = ListedPool("T:A-B", "0x" + "11" * 20, "uniswap-v2", (18, 18), False, 0)
STATE = KINDS[POOL.kind].state_function


class Contracts:
    """Answers calls of contracts' functions. An answer that is an error is raised; a missing answer is empty."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self._answers = answers

    def read_contract(self, _address: str, function: str) -> bytes:
        found = self._answers.get(function, b"")
        if isinstance(found, ProviderError):
            raise found
        return cast("bytes", found)


def report(**answers: Any) -> pool_check.Finding:
    named = {f"{name}()": answer for name, answer in answers.items()}
    contracts = Contracts({STATE: bytes(KINDS[POOL.kind].state_words * WORD), **named})
    return pool_check.report(cast("Provider", contracts), POOL)


def test_a_refused_call_is_a_fault_of_its_pool() -> None:
    found = report(token0=ProviderError("eth_call: out of gas", code="call_refused"))
    assert found.faults == ("eth_call: out of gas",)
    with pytest.raises(ProviderError, match="no answer"):
        report(token0=ProviderError("no answer"))


def test_a_pool_without_token0_is_a_fault() -> None:
    found = report(token1=bytes(WORD), decimals=(18).to_bytes(WORD, "big"), symbol=b"B".ljust(WORD, b"\0"))
    assert found.faults == ("the pool does not say its token0",)
    assert "token1" in found.text

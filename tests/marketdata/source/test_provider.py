"""A chain over JSON-RPC, with a provider that a test scripts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from marketdata.errors import ProviderError
from marketdata.source import rpc as module
from marketdata.source.evm import selector
from marketdata.source.provider import RpcProvider
from marketdata.source.rpc import Rpc
from marketdata.source.rpc_file import Endpoint
from tests.marketdata.source.provider import Provider

SYMBOL, DECIMALS = (selector(f"{name}()") for name in ("symbol", "decimals"))


@pytest.fixture(autouse=True)
def _quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MIN_PAUSE", 0.001)


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
    # All in one request, and the call that was out of gas once more.
    assert [len(request) if isinstance(request, list) else 1 for _, request in contracts.asked] == [7, 1]


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
    contracts.answers = {(f"0x{number}", DECIMALS): refusal for number in range(3)}
    with pytest.raises(ProviderError, match="not available") as caught:
        provider.read_contracts([(f"0x{number}", "decimals()") for number in range(3)])
    assert caught.value.code == "call_refused"
    with pytest.raises(ProviderError, match="not available"):
        provider.read_contract("0x1", "decimals()")


def test_no_calls_need_no_request(provider: RpcProvider, contracts: Contracts) -> None:
    assert provider.read_contracts([]) == []
    assert contracts.asked == []

"""JSON-RPC over real HTTP, with a provider that fails in every way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from marketdata.errors import ProviderError, RangeRefused, Stopped
from marketdata.source import rpc as module
from marketdata.source.rpc import Call, Rpc
from marketdata.source.rpc_file import Endpoint
from tests.marketdata.source.provider import Answer, Provider, Raw, error, result

KEY = "a-very-secret-key"
CALLS = [Call("echo", (number,)) for number in range(3)]


@pytest.fixture
def provider() -> Iterator[Callable[[Answer], Provider]]:
    running: list[Provider] = []

    def start(answer: Answer) -> Provider:
        running.append(Provider(answer))
        return running[-1]

    yield start
    for each in running:
        each.close()


@pytest.fixture(autouse=True)
def _quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MIN_PAUSE", 0.001)


def client(provider: Provider, *, per_second: float = 1e6, timeout: float = 5.0) -> Rpc:
    headers = {"X-Api-Key": KEY}
    endpoint = Endpoint(f"{provider.url}/v2/{KEY}?x=1", headers, per_second)
    return Rpc(endpoint, stopping=threading.Event(), timeout=timeout)


def echo(method: str, params: Any) -> Any:
    return [method, *params]


def test_a_batch_keeps_its_order_and_its_connection(provider: Callable[[Answer], Provider]) -> None:
    serving = provider(lambda request, _: result(request, echo))
    rpc = client(serving)
    for _ in range(3):
        assert rpc.batch(CALLS) == [["echo", 0], ["echo", 1], ["echo", 2]]
    assert rpc.call("one", 1) == ["one", 1]
    assert serving.connections == 1
    assert serving.asked[0][0] == f"/v2/{KEY}?x=1"
    rpc.close()


@pytest.mark.parametrize(
    "failure",
    [
        lambda request: Raw(b"oops", 500),
        lambda request: Raw(b"<html>", 200),
        lambda request: Raw(b'{"jsonrpc": "2.0", "id"', 200),
        lambda request: Raw(b'[{"id": 0, "result"', 200, length=5000),
        lambda request: Raw(b"", 200, length=100),
        lambda request: Raw(b"[" * 100_000, 200),
        lambda request: error(request, "header not found"),
        lambda request: result(request, echo)[:-1],
        lambda request: 5,
        lambda request: [None, None, None],
    ],
)
def test_a_failed_request_is_sent_again_until_it_succeeds(
    provider: Callable[[Answer], Provider], failure: Callable[[Any], Any]
) -> None:
    left = iter(range(3))
    serving = provider(lambda request, _: result(request, echo) if next(left, None) is None else failure(request))
    rpc = client(serving)
    assert rpc.batch(CALLS) == [["echo", 0], ["echo", 1], ["echo", 2]]
    assert len(serving.asked) == 4
    rpc.close()


@pytest.mark.parametrize(
    "refusal",
    [
        lambda request: Raw(b"slow down", 429),
        lambda request: error(request, "over rate limit", -32016),
        lambda request: {"jsonrpc": "2.0", "id": None, "error": {"code": -32005, "message": "too many requests"}},
    ],
)
def test_a_batch_with_repeated_rate_errors_is_halved(
    provider: Callable[[Answer], Provider], refusal: Callable[[Any], Any]
) -> None:
    def answer(request: Any, _: Any) -> Any:
        return refusal(request) if isinstance(request, list) and len(request) > 2 else result(request, echo)

    serving = provider(answer)
    rpc = client(serving)
    assert rpc.batch([Call("echo", (n,)) for n in range(4)]) == [["echo", n] for n in range(4)]
    assert [len(request) for _, request in serving.asked] == [4, 4, 2, 2]
    rpc.close()


@pytest.mark.parametrize(("per_second", "most"), [(0.1, 1), (10, 10), (50, 50), (1e6, 100)])
def test_a_batch_has_at_most_the_calls_of_one_second(
    provider: Callable[[Answer], Provider], monkeypatch: pytest.MonkeyPatch, per_second: float, most: int
) -> None:
    monkeypatch.setattr(module.Budget, "spend", lambda *_: 0.0)
    serving = provider(lambda request, _: result(request, echo))
    rpc = client(serving, per_second=per_second)
    assert len(rpc.batch([Call("echo")] * (most + 2))) == most + 2
    sizes = [len(request) if isinstance(request, list) else 1 for _, request in serving.asked]
    assert max(sizes) == most
    rpc.close()


@pytest.mark.parametrize(
    ("userinfo", "headers"),
    [
        ("", {"Authorization": "Bearer the-key"}),
        ("", {"X-Api-Key": "the-key"}),
        ("me:the-key@", {}),
        ("me:the%2Dkey@", {}),
        ("the-key@", {}),
    ],
)
def test_errors_show_no_part_of_a_header_or_password(
    provider: Callable[[Answer], Provider], userinfo: str, headers: dict[str, str]
) -> None:
    serving = provider(lambda *_: Raw(b"invalid key the-key, or the%2Dkey", 401))
    rpc = Rpc(Endpoint(serving.url.replace("//", f"//{userinfo}"), headers, 100), stopping=threading.Event())
    with pytest.raises(ProviderError, match=r"refuses the credentials .* invalid key …") as caught:
        rpc.call("echo")
    assert "the-key" not in caught.value.detail
    rpc.close()


def test_the_last_error_shows_no_secret(provider: Callable[[Answer], Provider]) -> None:
    serving = provider(lambda request, headers: Raw(f"no {headers['X-Api-Key']} {request}".encode(), 503))
    rpc = client(serving)
    with pytest.raises(ProviderError, match="HTTP status 503: no …") as caught:
        rpc.call("echo", KEY)
    assert KEY not in caught.value.detail
    assert "127.0.0.1" in caught.value.detail
    rpc.close()


def test_the_number_of_tries_can_be_limited(provider: Callable[[Answer], Provider]) -> None:
    serving = provider(lambda request, _: Raw(b"{}", 503))
    rpc = Rpc(Endpoint(serving.url, {}, 1e6), stopping=threading.Event(), tries=2)
    with pytest.raises(ProviderError, match="HTTP status 503"):
        rpc.call("echo")
    assert len(serving.asked) == 2
    rpc.close()


def test_refused_credentials_are_not_tried_again(provider: Callable[[Answer], Provider]) -> None:
    serving = provider(lambda request, _: Raw(b"{}", 401))
    rpc = client(serving)
    with pytest.raises(ProviderError, match="refuses the credentials"):
        rpc.call("echo")
    assert len(serving.asked) == 1
    rpc.close()


def test_a_refused_range_raises_range_refused_with_the_suggestion(provider: Callable[[Answer], Provider]) -> None:
    serving = provider(lambda request, _: error(request, "range 5000 exceeds limit of 100"))
    rpc = client(serving)
    with pytest.raises(RangeRefused) as caught:
        rpc.call("eth_getLogs")
    assert caught.value.suggested == 100
    serving.answer = lambda request, _: Raw(b'{"error": "eth_getLogs is limited to a 10,000 range"}', 413)
    with pytest.raises(RangeRefused):
        rpc.call("eth_getLogs")
    rpc.close()


def test_an_unknown_error_of_a_call_is_reported_at_once(provider: Callable[[Answer], Provider]) -> None:
    serving = provider(lambda request, _: error(request, "unknown block"))
    rpc = client(serving)
    with pytest.raises(ProviderError, match="echo: unknown block") as caught:
        rpc.call("echo")
    assert caught.value.code == "call_refused"
    rpc.close()


@pytest.mark.full
def test_batches_shrink_after_an_error_and_grow_again_later(
    provider: Callable[[Answer], Provider], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FORGET", 3)

    def answer(request: Any, _: Any) -> Any:
        if isinstance(request, list) and len(request) > 3:
            return {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "batch size too large"}}
        return result(request, echo)

    serving = provider(answer)
    rpc = client(serving)
    for _ in range(6):
        assert rpc.batch([Call("echo", (n,)) for n in range(30)]) == [["echo", n] for n in range(30)]
    assert [len(request) for _, request in serving.asked if len(request) > 3] == [30, 15, 7, 6]
    rpc.close()


@pytest.mark.parametrize("refusal", [Raw(b"<html>payload too large</html>", 413), "response too large"])
def test_a_response_that_is_too_large_makes_batches_smaller(
    provider: Callable[[Answer], Provider], refusal: Raw | str
) -> None:
    def answer(request: Any, _: Any) -> Any:
        if isinstance(request, list) and len(request) > 3:
            return refusal if isinstance(refusal, Raw) else error(request, refusal)
        return result(request, echo)

    serving = provider(answer)
    rpc = client(serving)
    with pytest.raises(RangeRefused):  # the next request must ask for fewer blocks
        rpc.batch([Call("eth_getLogs", ({"fromBlock": "0x1"},)), *[Call("eth_chainId")] * 4])
    assert len(serving.asked) == 1
    for method, filter in (("eth_getBlockByNumber", "0x1"), ("eth_getLogs", {"blockHash": "0x1"})):
        assert rpc.batch([Call(method, (filter,))] * 10) == [[method, filter]] * 10
    rpc.close()


@pytest.mark.full
def test_calls_wait_for_the_budget(provider: Callable[[Answer], Provider]) -> None:
    rpc = client(provider(lambda request, _: result(request, echo)), per_second=100)
    started = time.monotonic()
    for _ in range(20):
        rpc.batch([Call("echo")] * 10)
    spent = time.monotonic() - started
    assert spent >= 0.9  # of 200 calls, the bucket holds 100, and after the last ten nothing waits
    rpc.close()


def test_connections_share_the_budget(provider: Callable[[Answer], Provider]) -> None:
    serving = provider(lambda request, _: result(request, echo))
    started = time.monotonic()
    rpc = client(serving, per_second=400)
    other = rpc.beside()
    for _ in range(10):
        for each in (rpc, other):
            assert each.batch([Call("echo")] * 10) == [["echo"]] * 10
    assert time.monotonic() - started >= 190 / 400  # after the last ten calls, nothing waits
    assert serving.connections == 2
    rpc.close()
    other.close()


def test_a_silent_provider_times_out(provider: Callable[[Answer], Provider]) -> None:
    release = threading.Event()
    serving = provider(lambda request, _: release.wait(10) and result(request, echo))
    rpc = client(serving, timeout=0.05)
    try:
        with pytest.raises(ProviderError, match="no answer: timed out"):
            rpc.call("echo")
    finally:
        release.set()
    rpc.close()


def test_stopping_ends_a_wait_and_a_request(provider: Callable[[Answer], Provider]) -> None:
    release = threading.Event()
    arrived = threading.Event()

    def answer(request: Any, _: Any) -> Any:
        arrived.set()
        release.wait(10)
        return result(request, echo)

    stopping = threading.Event()
    serving = provider(answer)
    rpc = Rpc(Endpoint(serving.url, {}, 1e6), stopping=stopping)
    ended: list[type[BaseException]] = []

    def run() -> None:
        try:
            rpc.call("echo")
        except (ProviderError, Stopped) as error:
            ended.append(type(error))

    thread = threading.Thread(target=run)
    thread.start()
    assert arrived.wait(10)
    stopping.set()
    rpc.interrupt()
    thread.join(5)
    assert ended
    assert not thread.is_alive()
    release.set()
    rpc.close()


def test_a_large_answer_for_several_blocks_is_too_many_blocks(
    provider: Callable[[Answer], Provider], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_RANGE_BYTES", 1 << 20)
    serving = provider(lambda request, _: result(request, lambda *_: "x" * (1 << 20)))
    rpc = client(serving)
    with pytest.raises(RangeRefused, match="its answer has more than 1 MiB"):
        rpc.call("eth_getLogs", {"fromBlock": "0x1", "toBlock": "0x2"})
    assert len(rpc.call("eth_getLogs", {"fromBlock": "0x1", "toBlock": "0x1"})) == 1 << 20
    assert len(rpc.call("eth_getLogs", {"blockHash": "0x1"})) == 1 << 20
    rpc.close()

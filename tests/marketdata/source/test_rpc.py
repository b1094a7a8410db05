"""JSON-RPC over real HTTP, with a provider that fails in every way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from marketdata.errors import ProviderError, RangeRefused, Stopped
from marketdata.source.rpc import Call, Rpc
from marketdata.source.rpc_file import Endpoint
from tests.marketdata.source.provider import Answer, Provider, Raw, error, result

KEY = "a-very-secret-key"
CALLS = [Call("echo", (number,)) for number in range(3)]


Serve = Callable[[Answer], Provider]


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:
        yield lambda answer: stack.enter_context(closing(Provider(answer)))


def client(provider: Provider, *, per_second: float = 1e6, **changes: Any) -> Rpc:
    headers = {"X-Api-Key": KEY}
    endpoint = Endpoint(f"{provider.url}/v2/{KEY}?x=1", headers, per_second)
    return Rpc(endpoint, stopping=threading.Event(), min_pause=0.001, **changes)


def echo(method: str, params: Any) -> Any:
    return [method, *params]


def test_a_batch_keeps_its_order_and_its_connection(serve: Serve) -> None:
    serving = serve(lambda request, _: result(request, echo))
    rpc = client(serving)
    for _ in range(3):
        assert rpc.batch(CALLS) == [["echo", 0], ["echo", 1], ["echo", 2]]
    assert rpc.call("one", 1) == ["one", 1]
    assert serving.connections == 1
    assert serving.asked[0][0] == f"/v2/{KEY}?x=1"
    rpc.close()


FAILURES: tuple[Callable[[Any], Any], ...] = (
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
)


def test_a_failed_request_is_sent_again_until_it_succeeds(serve: Serve) -> None:
    for number, failure in enumerate(FAILURES):
        left = [failure] * 3
        serving = serve(lambda request, _, left=left: left.pop()(request) if left else result(request, echo))
        with closing(client(serving)) as rpc:
            assert rpc.batch(CALLS) == [["echo", 0], ["echo", 1], ["echo", 2]], number
        assert len(serving.asked) == 4, number


RATE_ERRORS: tuple[Callable[[Any], Any], ...] = (
    lambda request: Raw(b"slow down", 429),
    lambda request: error(request, "over rate limit", -32016),
    lambda request: {"jsonrpc": "2.0", "id": None, "error": {"code": -32005, "message": "too many requests"}},
)


def test_a_batch_with_repeated_rate_errors_is_halved(serve: Serve) -> None:
    for number, refusal in enumerate(RATE_ERRORS):
        serving = serve(
            lambda request, _, refusal=refusal: refusal(request) if len(request) > 2 else result(request, echo)
        )
        with closing(client(serving)) as rpc:
            assert rpc.batch([Call("echo", (n,)) for n in range(4)]) == [["echo", n] for n in range(4)]
        assert [len(request) for _, request in serving.asked] == [4, 4, 2, 2], number


def test_a_batch_has_at_most_the_calls_of_one_second(serve: Serve) -> None:
    serving = serve(lambda request, _: result(request, echo))
    for per_second, most in ((0.1, 1), (10, 10), (50, 50), (1e6, 100)):
        with closing(client(serving, per_second=per_second)) as rpc:
            assert rpc.batch_size == most
            if most >= 50:
                serving.asked.clear()
                assert len(rpc.batch([Call("echo")] * (most + 2))) == most + 2
                assert [len(request) for _, request in serving.asked] == [most, 2]


def test_errors_show_no_part_of_a_header_or_password(serve: Serve) -> None:
    serving = serve(lambda *_: Raw(b"invalid key the-key, or the%2Dkey", 401))
    for userinfo, headers in (
        ("", {"Authorization": "Bearer the-key"}),
        ("", {"X-Api-Key": "the-key"}),
        ("me:the-key@", {}),
        ("me:the%2Dkey@", {}),
        ("the-key@", {}),
    ):
        endpoint = Endpoint(serving.url.replace("//", f"//{userinfo}"), headers, 100)
        with closing(Rpc(endpoint, stopping=threading.Event())) as rpc:
            with pytest.raises(ProviderError, match=r"refuses the credentials .* invalid key …") as caught:
                rpc.call("echo")
            assert "the-key" not in caught.value.detail, (userinfo, headers)
    assert len(serving.asked) == 5  # refused credentials are not tried again


def test_the_last_error_shows_no_secret(serve: Serve) -> None:
    serving = serve(lambda request, headers: Raw(f"no {headers['X-Api-Key']} {request}".encode(), 503))
    rpc = client(serving)
    with pytest.raises(ProviderError, match="HTTP status 503: no …") as caught:
        rpc.call("echo", KEY)
    assert KEY not in caught.value.detail
    assert "127.0.0.1" in caught.value.detail
    rpc.close()


def test_a_refused_range_raises_range_refused_with_the_suggestion(serve: Serve) -> None:
    serving = serve(lambda request, _: error(request, "range 5000 exceeds limit of 100"))
    rpc = client(serving)
    with pytest.raises(RangeRefused) as caught:
        rpc.call("eth_getLogs")
    assert caught.value.suggested == 100
    serving.answer = lambda request, _: Raw(b'{"error": "eth_getLogs is limited to a 10,000 range"}', 413)
    with pytest.raises(RangeRefused):
        rpc.call("eth_getLogs")
    rpc.close()


def test_an_unknown_error_of_a_call_is_reported_at_once(serve: Serve) -> None:
    serving = serve(lambda request, _: error(request, "unknown block"))
    rpc = client(serving)
    with pytest.raises(ProviderError, match="echo: unknown block") as caught:
        rpc.call("echo")
    assert caught.value.code == "call_refused"
    rpc.close()


def test_batches_shrink_after_an_error_and_grow_again_later(serve: Serve) -> None:
    def answer(request: Any, _: Any) -> Any:
        if isinstance(request, list) and len(request) > 3:
            return {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "batch size too large"}}
        return result(request, echo)

    serving = serve(answer)
    with closing(client(serving, forget=3)) as rpc:
        for _ in range(6):
            assert rpc.batch([Call("echo", (n,)) for n in range(30)]) == [["echo", n] for n in range(30)]
    assert [len(request) for _, request in serving.asked if len(request) > 3] == [30, 15, 7, 6]


def test_a_response_that_is_too_large_makes_batches_smaller(serve: Serve) -> None:
    for refusal in (Raw(b"<html>payload too large</html>", 413), "response too large"):

        def answer(request: Any, _: Any, refusal: Raw | str = refusal) -> Any:
            if isinstance(request, list) and len(request) > 3:
                return refusal if isinstance(refusal, Raw) else error(request, refusal)
            return result(request, echo)

        serving = serve(answer)
        with closing(client(serving)) as rpc:
            with pytest.raises(RangeRefused):  # the next request must ask for fewer blocks
                rpc.batch([Call("eth_getLogs", ({"fromBlock": "0x1"},)), *[Call("eth_chainId")] * 4])
            assert len(serving.asked) == 1, refusal
            for method, filter in (("eth_getBlockByNumber", "0x1"), ("eth_getLogs", {"blockHash": "0x1"})):
                assert rpc.batch([Call(method, (filter,))] * 10) == [[method, filter]] * 10, refusal


def test_connections_share_the_budget(serve: Serve) -> None:
    serving = serve(lambda request, _: result(request, echo))
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


def test_a_silent_provider_times_out(serve: Serve) -> None:
    release = threading.Event()
    serving = serve(lambda request, _: release.wait(10) and result(request, echo))
    rpc = client(serving, timeout=0.05)
    try:
        with pytest.raises(ProviderError, match="no answer: timed out"):
            rpc.call("echo")
    finally:
        release.set()
    rpc.close()


def test_stopping_ends_a_request_that_waits_for_its_answer(serve: Serve) -> None:
    release, stopping = threading.Event(), threading.Event()

    def answer(request: Any, _: Any) -> Any:
        stopping.set()
        rpc.interrupt()
        release.wait(30)
        return result(request, echo)

    rpc = Rpc(Endpoint(serve(answer).url, {}, 1e6), stopping=stopping)
    with closing(rpc), pytest.raises((ProviderError, Stopped)):
        rpc.call("echo")
    release.set()


def test_a_large_answer_for_several_blocks_is_too_many_blocks(serve: Serve) -> None:
    serving = serve(lambda request, _: result(request, lambda *_: "x" * (1 << 20)))
    with closing(client(serving, range_bytes=1 << 20)) as rpc:
        with pytest.raises(RangeRefused, match="its answer has more than 1 MiB"):
            rpc.call("eth_getLogs", {"fromBlock": "0x1", "toBlock": "0x2"})
        assert len(rpc.call("eth_getLogs", {"fromBlock": "0x1", "toBlock": "0x1"})) == 1 << 20
        assert len(rpc.call("eth_getLogs", {"blockHash": "0x1"})) == 1 << 20

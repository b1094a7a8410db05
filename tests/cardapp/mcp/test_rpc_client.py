"""Requests and replies of the JSON-RPC client: how long it waits, what it ignores, and what ends the connection."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest

from cardapp.errors import InvalidValue, McpCancelled, McpClosed, McpProtocolError, McpRemoteError, McpTimeout
from cardapp.mcp.jsonrpc import MAX_LINE
from cardapp.mcp.rpc_client import MAX_UNASKED, RpcClient
from cardapp.mcp.transport import Transport
from tests.cardapp.mcp.conftest import PATIENCE, ScriptedPeer

LONG = "x" * 100_000

Background = Callable[..., Future[Any]]


class Connection:
    """The client, the scripted peer at the other end, and the client's clock, which only the test moves."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self.peer, self.now = ScriptedPeer(ours), 0.0
        self.client = RpcClient(Transport(theirs, theirs), "rpc-client", clock=lambda: self.now)

    def request(self, timeout: float = PATIENCE, **options: Any) -> dict[str, Any]:
        return self.client.request("x", {"a": 1}, timeout=timeout, **options)

    def close(self) -> None:
        self.client.close()
        self.peer.close()


@contextmanager
def connection() -> Iterator[Connection]:
    found = Connection()
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def talk() -> Iterator[Connection]:
    with connection() as found:
        yield found


class Asked:
    """A request that waits for its answer in the background."""

    def __init__(self, talk: Connection, background: Background, **options: Any) -> None:
        self.peer = talk.peer
        self.running = background(talk.request, **options)
        self.message = self.peer.expect("x")

    def progress(self, **params: Any) -> None:
        self.peer.send({"method": "notifications/progress", "params": {"progressToken": self.message["id"], **params}})

    def answer(self, **result: Any) -> None:
        self.peer.answer(self.message, result)

    def result(self) -> Any:
        return self.running.result(PATIENCE)

    def is_cancelled(self) -> bool:
        """Whether the next message cancels the request."""
        note = self.peer.expect("notifications/cancelled")
        return bool(note["params"]["requestId"] == self.message["id"])


def assert_usable(talk: Connection, background: Background) -> None:
    asked = Asked(talk, background)
    asked.answer(still="here")
    assert asked.result() == {"still": "here"}


# -- replies -----------------------------------------------------------------------------------------------------------


def test_replies_are_matched_by_id_in_any_order_and_only_once(talk: Connection, background: Background) -> None:
    asked = [Asked(talk, background) for _ in range(4)]
    assert [each.message["params"] for each in asked] == [{"a": 1}] * 4
    assert len({each.message["id"] for each in asked}) == 4
    for wrong in (str(asked[0].message["id"]), 10_000, "nobody"):
        talk.peer.answer({"id": wrong}, {"n": -1})
    talk.peer.send({"id": None, "error": {"code": -32700, "message": "what?"}})
    for number, each in enumerate(reversed(asked)):
        each.answer(n=number)
        each.answer(n=-2)
    assert [each.result()["n"] for each in asked] == [3, 2, 1, 0]


def test_an_error_raises_its_code_and_data(talk: Connection, background: Background) -> None:
    asked = Asked(talk, background)
    talk.peer.refuse(asked.message, -32602, {"why": 1})
    with pytest.raises(McpRemoteError) as caught:
        asked.result()
    assert (caught.value.rpc_code, caught.value.data) == (-32602, {"why": 1})


def test_parameters_that_are_not_json_are_not_sent(talk: Connection) -> None:
    with pytest.raises(InvalidValue, match=r"the parameters of x cannot be sent"):
        talk.client.request("x", {"n": float("nan")}, timeout=PATIENCE)


# -- waiting -----------------------------------------------------------------------------------------------------------


def test_a_timeout_cancels_the_request_and_a_late_reply_is_ignored(talk: Connection, background: Background) -> None:
    """The fault of python-sdk's issue 1458: the client did not cancel the request at the server."""
    asked = Asked(talk, background, timeout=10.0, maximum=20.0, cancel=threading.Event())
    talk.now = 10.0
    assert asked.is_cancelled()
    with pytest.raises(McpTimeout, match="not answered within 10 s; it was cancelled, try again"):
        asked.result()
    asked.answer(n=1)
    assert_usable(talk, background)


def test_only_progress_that_increases_restarts_the_timeout(talk: Connection, background: Background) -> None:
    reports: list[tuple[Any, ...]] = []
    came = threading.Semaphore(0)

    def note(*report: Any) -> None:
        reports.append(report)
        came.release()

    asked = Asked(talk, background, timeout=10.0, maximum=100.0, cancel=threading.Event(), on_progress=note)
    assert asked.message["params"]["_meta"] == {"progressToken": asked.message["id"]}
    for number in (1, 2, 3):
        talk.now += 9.0
        asked.progress(progress=number)
        assert came.acquire(timeout=PATIENCE)
    talk.now += 9.0
    asked.progress(progress=3)
    asked.progress(progress=2.5)
    talk.now += 1.0
    with pytest.raises(McpTimeout, match="within 10 s"):
        asked.result()
    assert reports == [(1, None, None), (2, None, None), (3, None, None)]


def test_progress_does_not_extend_the_maximum(talk: Connection, background: Background) -> None:
    came = threading.Event()
    asked = Asked(
        talk, background, timeout=10.0, maximum=15.0, cancel=threading.Event(), on_progress=lambda *_: came.set()
    )
    talk.now = 9.0
    asked.progress(progress=1)
    assert came.wait(PATIENCE)
    talk.now = 15.0
    with pytest.raises(McpTimeout, match="within its maximum time"):
        asked.result()
    assert asked.is_cancelled()


def test_progress_is_reported_in_order_with_valid_members_only(talk: Connection, background: Background) -> None:
    reports: list[Any] = []
    asked = Asked(talk, background, on_progress=lambda *report: reports.append(report))
    token = asked.message["id"]
    for params in (
        {"progress": 1, "total": 3, "message": "one"}, {"progress": 1, "message": "again"}, {"progress": 0.5},
        {"progress": "2"}, {"progress": True}, {}, {"progress": 2, "total": "three", "message": 7},
        {"progress": 9, "progressToken": "unknown"}, {"progress": 9, "progressToken": [token]},
        {"progress": 9, "progressToken": str(token)}, {"progress": 3.5, "message": LONG},
    ):  # fmt: skip
        asked.progress(**params)
    asked.answer()
    asked.progress(progress=4, message="after the end")
    asked.result()
    assert_usable(talk, background)
    assert reports == [(1, 3, "one"), (2, None, None), (3.5, None, LONG[:1000])]


def test_a_cancel_event_or_an_exception_of_on_progress_cancels_the_request(
    talk: Connection, background: Background
) -> None:
    cancel = threading.Event()
    asked = Asked(talk, background, cancel=cancel)
    cancel.set()
    with pytest.raises(McpCancelled, match="x was cancelled"):
        asked.result()
    assert asked.is_cancelled()

    def fail(*_report: Any) -> None:
        raise LookupError("the taker failed")

    asked = Asked(talk, background, on_progress=fail)
    asked.progress(progress=1)
    with pytest.raises(LookupError):
        asked.result()
    assert asked.is_cancelled()
    assert_usable(talk, background)


# -- the end -----------------------------------------------------------------------------------------------------------


def test_all_pending_requests_fail_when_the_peer_ends(background: Background) -> None:
    """The fault of python-sdk's issues 332 and 1577: calls kept waiting after the peer had ended."""
    for last_words, reason in ((b"", "the peer is gone$"), (b'{"jsonrpc":"2.0","id":', "in the middle of a message$")):
        with connection() as talk:
            asked = [Asked(talk, background) for _ in range(3)]
            talk.peer.send_raw(last_words)
            talk.peer.close()
            for each in asked:
                with pytest.raises(McpClosed, match=reason):
                    each.result()
            assert talk.client.closed.wait(PATIENCE)
            with pytest.raises(McpClosed, match=reason):
                talk.request()


def test_a_reply_right_before_the_end_is_delivered(talk: Connection, background: Background) -> None:
    asked = Asked(talk, background)
    asked.answer(n=1)
    talk.peer.close()
    assert asked.result() == {"n": 1}


def test_close_fails_pending_requests_and_is_idempotent(talk: Connection, background: Background) -> None:
    asked = Asked(talk, background)
    talk.client.close()
    talk.client.close()
    with pytest.raises(McpClosed, match="on this side"):
        asked.result()
    assert talk.peer.receive() is None
    assert talk.client.closed.is_set()
    assert "rpc-client" not in [thread.name for thread in threading.enumerate()]


def test_an_invalid_message_ends_the_connection(background: Background) -> None:
    note = b'{"jsonrpc":"2.0","method":"notifications/x"}'
    for nonsense, batches in (
        (b"garbage", False),
        (b"\xff\xff", False),
        (b'{"jsonrpc":"2.0","id":1,"result":[]}', False),
        (b'{"jsonrpc":"2.0"}', False),
        (b"[%s]" % note, False),
        (b"[]", True),
        (b"[%s,7]" % note, True),
        (b"x" * (MAX_LINE + 1), False),
    ):
        with connection() as talk:
            talk.client.batches = batches
            asked = Asked(talk, background)
            talk.peer.send_raw(nonsense + b"\n")
            with pytest.raises(McpProtocolError, match=r"invalid message|a batch, which the negotiated"):
                asked.result()
            assert talk.client.closed.wait(PATIENCE), nonsense[:100]
            with pytest.raises(McpProtocolError):
                talk.request()


def test_a_peer_that_does_not_read_is_disconnected(talk: Connection) -> None:
    with pytest.raises(McpClosed, match="does not read"):
        talk.client.request("x", {"text": "x" * 10_000_000}, timeout=0.2)


def test_a_peer_that_floods_an_idle_connection_is_disconnected(talk: Connection) -> None:
    line = {"method": "notifications/message", "params": {"data": LONG}}
    for _ in range(MAX_UNASKED // len(LONG) - 10):
        talk.peer.send(line)
    assert not talk.client.closed.is_set()
    with contextlib.suppress(OSError):
        for _ in range(20):
            talk.peer.send(line)
    assert talk.client.closed.wait(PATIENCE)
    with pytest.raises(McpProtocolError, match="without a request"):
        talk.request()


# -- what the peer asks ------------------------------------------------------------------------------------------------


def test_requests_of_the_peer_are_answered_unless_that_is_switched_off(
    talk: Connection, background: Background
) -> None:
    requests = ({"id": "a", "method": "ping"}, {"id": 1, "method": "sampling/createMessage", "params": {}})
    talk.peer.send(*requests)
    assert talk.peer.receive() == {"jsonrpc": "2.0", "id": "a", "result": {}}
    refused = talk.peer.receive()
    assert (refused["id"], refused["error"]["code"]) == (1, -32601)
    talk.client.answers_requests = False
    talk.peer.send(*requests)
    assert_usable(talk, background)  # the answer to this request is read after both requests
    assert_usable(talk, background)  # answers to the requests would have come before this one

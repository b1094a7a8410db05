"""The credential decides when the head of a request is complete, before any of its body is kept."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
import pytest

from marketdata import token
from marketdata.api.serve import Service
from marketdata.http.connection import Connection
from marketdata.http.waitress_adapter import BODIES_BYTES, UNCOUNTED_BYTES
from marketdata.limits import MAX_BODY_BYTES
from tests.marketdata.api.conftest import Api, eventually, new_token, waiting_for_locks
from tests.marketdata.http.wire import HEALTH, answer, ask, connected

INGEST = "POST /v1/ingest/tick"
JSON = "Content-Type: application/json\r\n"
LARGE = f"Content-Length: {MAX_BODY_BYTES}\r\n"
CHUNKED = "Transfer-Encoding: chunked\r\n"
EXPECT = "Expect: 100-continue\r\n"
SOME = b" " * 100
Admin = psycopg.Connection[Any]


def head(line: str, bearer: str | None, fields: str = JSON + LARGE) -> bytes:
    authorization = f"Authorization: Bearer {bearer}\r\n" if bearer else ""
    return f"{line} HTTP/1.1\r\nHost: a\r\n{authorization}{fields}\r\n".encode()


def ticks(name: str, count: int) -> bytes:
    items = [{"symbol": "HEAD:A", "id": f"{name}-{n}", "ts": 10**12, "price": "1", "size": "1"} for n in range(count)]
    return json.dumps({"ticks": items}).encode()


def post(bearer: str, body: bytes) -> bytes:
    return head(INGEST, bearer, f"{JSON}Content-Length: {len(body)}\r\n") + body


def held(service: Service) -> list[Connection]:
    """The connections whose token is being checked."""
    return [each for each in service.listener.connections() if each.request is not None and each.request.is_held]


class Ingestion:
    """Batches that count as bodies, one after the other; ``statuses`` has the answer to each."""

    def __init__(self, port: int, bearer: str) -> None:
        self.statuses: list[int] = []
        self._port, self._bearer = port, bearer
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Ingestion:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        body = ticks("beside", 400)
        assert len(body) > UNCOUNTED_BYTES
        while not self._stopping.is_set():
            self.statuses.append(ask(self._port, post(self._bearer, body))[0])


def test_stalled_bodies_without_a_write_token_do_not_stop_ingestion(
    service: Service, read_token: str, write_token: str
) -> None:
    """Together they are larger than all bodies that may arrive."""
    with ExitStack() as stack, Ingestion(service.port, write_token) as ingestion:
        stalled = []
        for bearer, status in ((None, 401), (token.generate(), 401), (read_token, 403)) * 6:
            client = stack.enter_context(connected(service.port))
            client.sendall(head(INGEST, bearer))
            client.sendall(b" " * (MAX_BODY_BYTES - 1))
            stalled.append((client, status))
        assert len(stalled) * MAX_BODY_BYTES > BODIES_BYTES
        assert [answer(client)[0] for client, _ in stalled] == [status for _, status in stalled]
        before = len(ingestion.statuses)
        eventually(lambda: len(ingestion.statuses) > before + 5)
    assert set(ingestion.statuses) == {200}
    eventually(lambda: service.listener.bodies_left == BODIES_BYTES)


def test_a_refusal_does_not_wait_for_the_body(service: Service, read_token: str, write_token: str) -> None:
    for row in [
        (INGEST, None, JSON + LARGE, 401, "unauthorized"),
        (INGEST, None, JSON + CHUNKED, 401, "unauthorized"),
        (INGEST, None, JSON + LARGE + EXPECT, 401, "unauthorized"),
        (INGEST, "md_wrong", JSON + LARGE, 401, "invalid_token"),
        (INGEST, token.generate(), JSON + LARGE, 401, "invalid_token"),
        (INGEST, token.generate(), JSON + LARGE + EXPECT, 401, "invalid_token"),
        (INGEST, "a b", JSON + LARGE, 400, "invalid_request"),
        (INGEST, read_token, JSON + LARGE, 403, "insufficient_scope"),
        ("POST /v1/admin/tokens", write_token, JSON + LARGE, 403, "insufficient_scope"),
        ("POST /v1/nothing", write_token, JSON + LARGE, 404, "not_found"),
        ("POST /%ff", write_token, JSON + LARGE, 404, "not_found"),
        ("PATCH /v1/admin/tokens", write_token, JSON + LARGE, 405, "method_not_allowed"),
        (INGEST, write_token, "Content-Type: text/plain\r\n" + LARGE, 415, "unsupported_media_type"),
        (INGEST, write_token, JSON + f"Content-Length: {MAX_BODY_BYTES + 1}\r\n", 413, "too_large"),
        (INGEST, write_token, JSON + LARGE + "Content-Encoding: br\r\n", 415, "unsupported_media_type"),
        ("GET /healthz", None, f"Content-Length: {UNCOUNTED_BYTES + 1}\r\n", 413, "too_large"),
    ]:
        line, bearer, fields, status, code = row
        with connected(service.port) as client:
            client.sendall(head(line, bearer, fields) + SOME)
            found, headers, body = answer(client)
            assert (found, json.loads(body)["code"]) == (status, code), row
            assert headers["connection"] == "close", row
            assert status != 405 or headers["allow"] == "GET, HEAD, POST"
            assert client.recv(1) == b"", row


def test_a_refused_head_is_counted(service: Service, api: Api) -> None:
    def count() -> int:
        label = 'marketdata_requests_total{method="POST",path="/v1/ingest/tick",status="401"} '
        found = [line for line in api("GET", "/metrics").text.splitlines() if line.startswith(label)]
        return int(found[0].removeprefix(label)) if found else 0

    before = count()
    ask(service.port, head(INGEST, None))
    assert count() == before + 1


@pytest.mark.parametrize("fields", [JSON, JSON + EXPECT])
def test_100_continue_is_sent_once_the_caller_is_admitted(service: Service, database: str, fields: str) -> None:
    body = ticks("expected", 500)
    bearer = new_token(database, "write")
    for _ in range(2):  # the database is queried for the first, the cache answers the second
        with connected(service.port) as client:
            client.sendall(head(INGEST, bearer, f"{fields}Content-Length: {len(body)}\r\n"))
            if EXPECT in fields:
                assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.sendall(body)
            assert answer(client)[0] == 200
            client.sendall(HEALTH)
            assert answer(client)[0] == 200, "the connection is kept"


# -- a token that is not cached ----------------------------------------------------------------------------------------


@contextmanager
def sending(client: Any, data: bytes) -> Iterator[None]:
    sender = threading.Thread(target=client.sendall, args=(data,))
    sender.start()
    yield
    sender.join(30)
    assert not sender.is_alive()


@contextmanager
def locked_tokens(admin: Admin) -> Iterator[None]:
    """No token can be looked up meanwhile."""
    with admin.transaction():
        admin.execute("LOCK TABLE api_tokens")
        yield


def test_nothing_more_is_read_while_a_worker_checks_the_token(service: Service, database: str, admin: Admin) -> None:
    bearer = new_token(database, "write")
    body = ticks("held", 5000) + b" " * (MAX_BODY_BYTES // 2)
    eventually(lambda: service.listener.bodies_left == BODIES_BYTES)  # those of earlier clients are released
    with connected(service.port) as client, ExitStack() as sender:
        with locked_tokens(admin):
            sender.enter_context(sending(client, post(bearer, body)))
            eventually(lambda: waiting_for_locks(admin) > 0 and bool(held(service)))
            (connection,) = held(service)
            for _ in range(5):
                assert ask(service.port, HEALTH)[0] == 200, "the loop is not blocked"
            assert connection.request is not None
            assert connection.request.body_bytes_received == 0
            assert service.listener.bodies_left == BODIES_BYTES
        assert answer(client)[0] == 200


def test_requests_around_a_checked_token_are_answered_in_order(service: Service, database: str) -> None:
    body = ticks("kept", 400)
    with connected(service.port) as client:
        client.sendall(HEALTH + post(new_token(database, "write"), body) + HEALTH + post(token.generate(), body))
        assert [answer(client)[0] for _ in range(4)] == [200, 200, 200, 401]
    with connected(service.port) as client:  # here the worker that stays receives the heads
        for _ in range(20):
            client.sendall(post(new_token(database, "write"), body))
            assert answer(client)[0] == 200


def test_clients_that_leave_while_their_tokens_are_checked(service: Service, database: str, admin: Admin) -> None:
    bearer = new_token(database, "write")
    with locked_tokens(admin):
        for _ in range(5):
            with connected(service.port) as client:
                client.sendall(head(INGEST, bearer) + SOME)
                eventually(lambda: bool(held(service)))
    eventually(lambda: not service.listener.connections())
    assert ask(service.port, HEALTH)[0] == 200

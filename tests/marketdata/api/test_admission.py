"""The credential decides when the head of a request is complete, before any of its body is kept."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from marketdata import token
from marketdata.api.serve import Service
from marketdata.errors import DatabaseUnavailable
from marketdata.http.connection import RECEIVE_BYTES, Connection
from marketdata.http.waitress_adapter import BODIES_BYTES, UNCOUNTED_BYTES
from marketdata.limits import MAX_BODY_BYTES
from tests.marketdata.api.conftest import Api, eventually, new_token
from tests.marketdata.http.wire import HEALTH, answer, ask, connected

INGEST = "POST /v1/ingest/tick"
JSON = "Content-Type: application/json\r\n"
LARGE = f"Content-Length: {MAX_BODY_BYTES}\r\n"
CHUNKED = "Transfer-Encoding: chunked\r\n"
SOME = b" " * 100


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
    connections = service._listener.connections()
    return [each for each in connections if each.request is not None and each.request.is_held]


def bodies_left(service: Service) -> int:
    return service._listener._bodies._left


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


@pytest.mark.parametrize("clients", [16, pytest.param(64, marks=pytest.mark.full)])
@pytest.mark.parametrize(("kind", "status"), [("none", 401), ("forged", 401), ("read", 403)])
def test_stalled_bodies_without_a_write_token_do_not_stop_ingestion(
    service: Service, read_token: str, write_token: str, kind: str, status: int, clients: int
) -> None:
    bearers: dict[str, Callable[[], str | None]] = {
        "none": lambda: None,
        "forged": token.generate,  # its checksum is right
        "read": lambda: read_token,
    }
    with ExitStack() as held, Ingestion(service.port, write_token) as ingestion:
        stalled = [held.enter_context(connected(service.port)) for _ in range(clients)]
        for client in stalled:
            client.sendall(head(INGEST, bearers[kind]()))
            client.sendall(b" " * (MAX_BODY_BYTES - 1))
        assert {answer(client)[0] for client in stalled} == {status}
        before = len(ingestion.statuses)
        eventually(lambda: len(ingestion.statuses) > before + 5)
    assert set(ingestion.statuses) == {200}
    eventually(lambda: bodies_left(service) == BODIES_BYTES)


@pytest.mark.parametrize(
    ("line", "bearer", "fields", "status", "code"),
    [
        (INGEST, None, JSON + LARGE, 401, "unauthorized"),
        (INGEST, None, JSON + CHUNKED, 401, "unauthorized"),
        (INGEST, None, JSON + LARGE + "Expect: 100-continue\r\n", 401, "unauthorized"),
        (INGEST, "md_wrong", JSON + LARGE, 401, "invalid_token"),
        (INGEST, "forged", JSON + LARGE, 401, "invalid_token"),
        (INGEST, "forged", JSON + LARGE + "Expect: 100-continue\r\n", 401, "invalid_token"),
        (INGEST, "a b", JSON + LARGE, 400, "invalid_request"),
        (INGEST, "read", JSON + LARGE, 403, "insufficient_scope"),
        ("POST /v1/admin/tokens", "write", JSON + LARGE, 403, "insufficient_scope"),
        ("POST /v1/nothing", "write", JSON + LARGE, 404, "not_found"),
        ("POST /%ff", "write", JSON + LARGE, 404, "not_found"),
        ("PATCH /v1/admin/tokens", "write", JSON + LARGE, 405, "method_not_allowed"),
        (INGEST, "write", "Content-Type: text/plain\r\n" + LARGE, 415, "unsupported_media_type"),
        (INGEST, "write", JSON + f"Content-Length: {MAX_BODY_BYTES + 1}\r\n", 413, "too_large"),
        (INGEST, "write", JSON + LARGE + "Content-Encoding: br\r\n", 415, "unsupported_media_type"),
        ("GET /healthz", None, f"Content-Length: {UNCOUNTED_BYTES + 1}\r\n", 413, "too_large"),
    ],
)
def test_a_refusal_does_not_wait_for_the_body(
    service: Service,
    read_token: str,
    write_token: str,
    line: str,
    bearer: str | None,
    fields: str,
    status: int,
    code: str,
) -> None:
    bearer = {"read": read_token, "write": write_token, "forged": token.generate()}.get(str(bearer), bearer)
    with connected(service.port) as client:
        client.sendall(head(line, bearer, fields) + SOME)
        found, headers, body = answer(client)
        assert (found, json.loads(body)["code"]) == (status, code)
        assert headers["connection"] == "close"
        assert status != 405 or headers["allow"] == "GET, HEAD, POST"
        assert client.recv(1) == b""


def test_a_refusal_of_the_data_feed_has_its_words(service: Service) -> None:
    _, _, body = ask(service.port, head("GET /v1/udf/config", None, LARGE))
    assert json.loads(body)["s"] == "error"


def test_a_refused_head_is_counted(service: Service, api: Api) -> None:
    def count() -> int:
        label = 'marketdata_requests_total{method="POST",path="/v1/ingest/tick",status="401"} '
        found = [line for line in api("GET", "/metrics").text.splitlines() if line.startswith(label)]
        return int(found[0].removeprefix(label)) if found else 0

    before = count()
    ask(service.port, head(INGEST, None))
    assert count() == before + 1


def test_a_body_that_no_handler_reads_is_bounded_in_chunks_too(service: Service) -> None:
    with connected(service.port) as client:
        client.sendall(
            head("GET /healthz", None, CHUNKED) + b"%x\r\n" % MAX_BODY_BYTES + b" " * (UNCOUNTED_BYTES + 1000)
        )
        assert answer(client)[0] == 413
    small = b"5\r\nabcde\r\n0\r\n\r\n"
    with connected(service.port) as client:
        client.sendall(head("GET /healthz", None, CHUNKED) + small[:7])
        client.sendall(small[7:])
        assert answer(client)[0] == 200


@pytest.mark.parametrize("fields", [JSON, JSON + "Expect: 100-continue\r\n"])
def test_100_continue_is_sent_once_the_caller_is_admitted(service: Service, database: str, fields: str) -> None:
    body = ticks("expected", 500)
    bearer = new_token(database, "write")
    for _ in range(2):  # the database is queried for the first, the cache answers the second
        with connected(service.port) as client:
            client.sendall(head(INGEST, bearer, f"{fields}Content-Length: {len(body)}\r\n"))
            if "Expect" in fields:
                assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.sendall(body)
            assert answer(client)[0] == 200
            client.sendall(HEALTH)
            assert answer(client)[0] == 200, "the connection is kept"


# -- a token that is not cached ----------------------------------------------------------------------------------------


class LookUp:
    """Stands between the authenticator and the database; ``go`` lets a look-up through."""

    def __init__(self, find: Callable[[bytes], Any]) -> None:
        self.go = threading.Event()
        self.threads: list[str] = []
        self._find = find

    def __call__(self, digest: bytes) -> Any:
        self.threads.append(threading.current_thread().name)
        assert self.go.wait(30)
        return self._find(digest)


@pytest.fixture
def look_up(service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[LookUp]:
    authenticator = service.services.authenticator
    made = LookUp(authenticator._find)
    monkeypatch.setattr(authenticator, "_find", made)
    yield made
    made.go.set()


@contextmanager
def sending(client: Any, data: bytes) -> Iterator[None]:
    sender = threading.Thread(target=client.sendall, args=(data,))
    sender.start()
    yield
    sender.join(30)
    assert not sender.is_alive()


def test_nothing_more_is_read_while_a_worker_checks_the_token(service: Service, database: str, look_up: LookUp) -> None:
    bearer = new_token(database, "write")
    body = ticks("held", 5000) + b" " * (MAX_BODY_BYTES // 2)
    with connected(service.port) as client, sending(client, post(bearer, body)):
        eventually(lambda: bool(look_up.threads))
        (connection,) = held(service)
        for _ in range(5):
            assert ask(service.port, HEALTH)[0] == 200, "the loop is not blocked"
        assert len(connection._input) <= RECEIVE_BYTES
        assert connection.request is not None
        assert connection.request.body_bytes_received == 0
        assert bodies_left(service) == BODIES_BYTES
        look_up.go.set()
        assert answer(client)[0] == 200
    assert all(name != "api-listener" for name in look_up.threads)


def test_a_stalled_body_is_decided_by_a_worker_alone(service: Service, database: str, look_up: LookUp) -> None:
    """The client sends a head without any of its body, and then nothing until the token was checked."""
    look_up.go.set()
    body = ticks("stalled", 5000)
    with connected(service.port) as client:
        client.sendall(post(new_token(database, "write"), body)[: -len(body)])
        eventually(lambda: bool(look_up.threads))
        eventually(lambda: not held(service))
        client.sendall(body)
        assert answer(client)[0] == 200
    assert all(name != "api-listener" for name in look_up.threads)


def test_requests_around_a_checked_token_are_answered_in_order(
    service: Service, database: str, look_up: LookUp
) -> None:
    look_up.go.set()
    body = ticks("kept", 400)
    with connected(service.port) as client:
        client.sendall(HEALTH + post(new_token(database, "write"), body) + HEALTH + post(token.generate(), body))
        assert [answer_of(client) for _ in range(4)] == [200, 200, 200, 401]
    with connected(service.port) as client:  # here the worker that stays receives the heads
        for _ in range(20):
            client.sendall(post(new_token(database, "write"), body))
            assert answer_of(client) == 200


def answer_of(client: Any) -> int:
    """The status of one answer, read to its last byte and no further."""
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        more = client.recv(1)
        assert more, data
        data += more
    length = next(line for line in data.lower().split(b"\r\n") if line.startswith(b"content-length: "))
    left = int(length.partition(b": ")[2])
    while left:
        left -= len(client.recv(left))
    return int(data.split()[1])


def test_a_client_that_leaves_while_its_token_is_checked(service: Service, database: str, look_up: LookUp) -> None:
    bearer = new_token(database, "write")
    for _ in range(5):
        with connected(service.port) as client:
            client.sendall(head(INGEST, bearer) + SOME)
            eventually(lambda: bool(held(service)))
    look_up.go.set()
    eventually(lambda: not service._listener.connections())
    assert ask(service.port, HEALTH)[0] == 200


def test_an_unreachable_database_refuses_at_the_head(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(_digest: bytes) -> None:
        raise DatabaseUnavailable("the database does not answer")

    monkeypatch.setattr(service.services.authenticator, "_find", find)
    status, headers, body = ask(service.port, head(INGEST, token.generate()) + SOME)
    assert (status, headers["retry-after"], json.loads(body)["code"]) == (503, "1", "database_unavailable")

"""The request logs of both products, which run as programs."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from marketdata.http.waitress_adapter import UNCOUNTED_BYTES
from marketdata.postgres.cluster import conninfo
from marketdata.token import generate
from tests.functional.market_process import ApiProcess, Client
from tests.functional.serving import make_card
from tests.functional.test_crash import Server

pytestmark = pytest.mark.functional

WEBSOCKETS = {"cards": ("/api/live", "card-live.v1"), "market": ("/v1/live", "marketdata-live.v1")}
TEXT = re.compile(r"\S+Z ([0-9a-f]{16}) 127\.0\.0\.1 GET (\S+) (\d+) (\d+) B [\d.]+ ms")


class Logged:
    """A service with its port, its log, and the function that ends it."""

    def __init__(self, port: int, log: Path, end: Callable[[], object], token: str = "") -> None:
        self.port, self.log, self.end, self.token = port, log, end, token

    def ask(self, path: str, **headers: str) -> tuple[int, str | None, int]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        found = answer.status, answer.getheader("X-Request-Id"), len(answer.read())
        connection.close()
        return found


@contextmanager
def market(state_dir: Path, form: str) -> Iterator[Logged]:
    api = ApiProcess(state_dir, MARKET_LOG=form)
    api.start()
    try:
        yield Logged(api.port, api.log, api.stop, api.token("read"))
    finally:
        api.stop()


@contextmanager
def cards(state_dir: Path, environment: dict[str, str], form: str) -> Iterator[Logged]:
    log = state_dir / "log"
    card = state_dir / "card"
    if not card.exists():
        make_card(card)
    names = {"CARD_STATE_DIR": str(state_dir / "state"), "CARD_LOG": form, "CARD_SOURCE": str(card)}
    with log.open("w") as file:
        server = Server({**environment, **names}, log=file)

    def end() -> None:
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(60)
        server.process.stdout.close()  # type: ignore[union-attr]

    try:
        yield Logged(int(server.address.rpartition(":")[2]), log, end)
    finally:
        end()


PATHS = ("/openapi.json", "/api/openapi.json", "/v1/symbols?x=%0A1", "/nothing")


def assert_logged(service: Logged, product: str, form: str) -> None:
    """Each answer is a line with the id that the client got. Ends the service."""
    answers = {path: service.ask(path) for path in PATHS}
    bad = service.ask("/", Host="a b", **{"Content-Length": "x"})
    websocket = open_and_close_websocket(service, product)
    service.end()
    found = logged(service.log, form)
    assert len(found) == len(PATHS) + 2
    assert bad[1] in found, "also what the listener refuses"
    for path, (status, identity, size) in answers.items():
        assert identity is not None
        assert found[identity] == (path, status, size)
    identity, size = websocket
    assert found[identity] == (WEBSOCKETS[product][0], 101, size)


def logged(log: Path, form: str) -> dict[str, tuple[str, int, int]]:
    """Target, status and bytes of each logged request, by its id."""
    lines = log.read_text().splitlines()
    if form == "json":
        entries = [json.loads(line) for line in lines if line[0] == "{"]
        return {each["id"]: (each["target"], each["status"], each["bytes"]) for each in entries}
    matches = [match for line in lines if (match := TEXT.fullmatch(line))]
    return {each[1]: (each[2], int(each[3]), int(each[4])) for each in matches}


def test_the_cards_log_each_answer_if_the_setting_says_so(state_dir: Path, card_environment: dict[str, str]) -> None:
    for form in ("text", "json"):
        with cards(state_dir, card_environment, form) as service:
            assert_logged(service, "cards", form)
    with cards(state_dir, card_environment, "") as service:
        assert service.ask("/nothing")[1] is None
        service.end()
        assert "/nothing" not in service.log.read_text()


def test_the_market_data_logs_each_answer(state_dir: Path) -> None:
    with market(state_dir, "text") as service:
        assert_logged(service, "market", "text")


def open_and_close_websocket(service: Logged, product: str) -> tuple[str, int]:
    """The id in the response header, and the number of received bytes."""
    path, subprotocol = WEBSOCKETS[product]
    fields = [
        f"Host: 127.0.0.1:{service.port}", f"Origin: http://127.0.0.1:{service.port}", "Connection: Upgrade",
        "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        f"Sec-WebSocket-Protocol: {subprotocol}", f"Authorization: Bearer {service.token}",
    ]  # fmt: skip
    with socket.create_connection(("127.0.0.1", service.port), timeout=30) as client:
        client.sendall("\r\n".join([f"GET {path} HTTP/1.1", *fields, "", ""]).encode())
        answer = client.recv(65536)
        head = answer.partition(b"\r\n\r\n")[0].decode()
        assert head.startswith("HTTP/1.1 101 ")
        client.sendall(b"\x88\x80\0\0\0\0")  # a close frame
        while part := client.recv(65536):
            answer += part
    (identity,) = re.findall(r"(?i)\r\nx-request-id: (\S+)", head)
    return identity, len(answer)


def test_a_failure_of_the_database_has_the_id_of_its_request(state_dir: Path) -> None:
    """Every request is logged, also one that is refused before its body is read."""
    api = ApiProcess(state_dir, MARKET_LOG="json")
    api.start()
    try:
        with psycopg.connect(conninfo(state_dir)) as connection:
            connection.execute("DROP TABLE api_tokens")
        with closing(Client(api.port, generate())) as client:
            for _ in range(2):
                assert client("GET", "/v1/symbols")[0] == 503
            assert client("POST", "/v1/ingest/tick", "x" * UNCOUNTED_BYTES)[0] == 503
    finally:
        api.stop()
    lines = api.log.read_text().splitlines()
    answered = {each["id"]: each["target"] for each in map(json.loads, [x for x in lines if x[0] == "{"])}
    failed = re.findall(r"([0-9a-f]{16}) \w+ '(\S+)' failed: version_missing, SQLSTATE 42P01: ", "\n".join(lines))
    assert list(answered.values()) == ["/v1/symbols"] * 2 + ["/v1/ingest/tick"]
    assert dict(failed) == answered

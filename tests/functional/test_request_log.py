"""The logs of requests, of both products, as programs."""

from __future__ import annotations

import http.client
import json
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.functional.market_process import ApiProcess
from tests.functional.serving import make_card
from tests.functional.test_crash import Server

pytestmark = pytest.mark.functional

TEXT = re.compile(r"\S+Z ([0-9a-f]{16}) 127\.0\.0\.1 GET (\S+) (\d+) (\d+) B [\d.]+ ms")
Ask = Callable[..., tuple[int, str | None, int]]


class Logged:
    """A service with its port, its log, and how it is ended."""

    def __init__(self, port: int, log: Path, end: Callable[[], object]) -> None:
        self.port, self.log, self.end = port, log, end

    def ask(self, path: str, **headers: str) -> tuple[int, str | None, int]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        found = answer.status, answer.getheader("X-Request-Id"), len(answer.read())
        connection.close()
        return found


@pytest.fixture(params=["cards", "market"])
def start(
    request: pytest.FixtureRequest, state_dir: Path, card_environment: dict[str, str]
) -> Iterator[Callable[[str], Logged]]:
    running: list[Logged] = []

    def begin(form: str) -> Logged:
        if request.param == "market":
            api = ApiProcess(state_dir, MARKET_LOG=form)
            api.start()
            running.append(Logged(api.port, api.log, api.stop))
            return running[-1]
        log = state_dir / "log"
        environment = {
            **card_environment, "CARD_STATE_DIR": str(state_dir / "state"), "CARD_LOG": form,
            "CARD_SOURCE": str(make_card(state_dir / "card")),
        }  # fmt: skip
        with log.open("w") as file:
            server = Server(environment, log=file)

        def end() -> None:
            server.process.send_signal(signal.SIGTERM)
            server.process.wait(30)
            server.process.stdout.close()  # type: ignore[union-attr]

        running.append(Logged(int(server.address.rpartition(":")[2]), log, end))
        return running[-1]

    yield begin
    for each in running:
        each.end()


PATHS = ("/openapi.json", "/api/openapi.json", "/v1/symbols?x=%0A1", "/nothing")


@pytest.mark.parametrize("form", ["text", "json"])
def test_each_answer_is_a_line_with_the_id_that_the_client_got(start: Callable[[str], Logged], form: str) -> None:
    service = start(form)
    answers = {path: service.ask(path) for path in PATHS}
    bad = service.ask("/", Host="a b", **{"Content-Length": "x"})
    service.end()
    lines = service.log.read_text().splitlines()
    if form == "json":
        found = {
            e["id"]: (e["target"], e["status"], e["bytes"]) for e in map(json.loads, [x for x in lines if x[0] == "{"])
        }
    else:
        matches = [match for line in lines if (match := TEXT.fullmatch(line))]
        found = {each[1]: (each[2], int(each[3]), int(each[4])) for each in matches}
    assert len(found) == len(PATHS) + 1
    assert bad[1] in found, "also what the listener refuses"
    for path, (status, identity, size) in answers.items():
        assert identity is not None
        assert found[identity] == (path, status, size)


def test_it_is_off_by_default(start: Callable[[str], Logged]) -> None:
    service = start("")
    assert service.ask("/nothing")[1] is None
    service.end()
    assert "/nothing" not in service.log.read_text()

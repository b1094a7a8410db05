"""The client of the GraphQL engine: what it reads of the metadata, and that no answer takes longer than allowed.

The answers come from a stand-in, or are written as in Hasura's documentation.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from marketdata.errors import StateError
from marketdata.graphql.engine import Credential, Engine, Name
from marketdata.graphql.tracking import Schemas, untracked
from marketdata.store.version import Version
from tests.marketdata.graphql.stand_in_hasura import serving

SECRET = "the admin secret"
LATE = 0.3


def engine_at(url: str, *, source: str = "default", seconds: float = 30.0) -> Engine:
    return Engine(Credential(Path("graphql-admin.json"), url, SECRET, source, "reader"), seconds)


@contextlib.contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of a server that passes its first connection, whose request it has read, to ``answer``."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with listening.accept()[0] as accepted, contextlib.suppress(OSError):
                request = b""
                while not request.endswith(b"}}"):  # the end of the body of export_metadata, whose args are {}
                    request += accepted.recv(65536)
                answer(accepted)

        thread = threading.Thread(target=serve, name="engine")
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


def with_metadata(metadata: Any) -> Callable[[socket.socket], None]:
    content = json.dumps({"resource_version": 8, "metadata": metadata}).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(content)
    return lambda accepted: accepted.sendall(head + content)


def test_tracked_tables_and_functions_are_read(postgres: str) -> None:
    with serving(postgres, SECRET) as hasura:
        hasura.metadata.tables |= {"public.md_ticks_v1", "own.md_ticks_v1"}
        hasura.metadata.functions.add("public.md_candles_v1")
        found = engine_at(hasura.url).tracked()
        assert hasura.requests == [{"type": "export_metadata", "version": 2, "args": {}}]
    assert found.tables == {Name("public", "md_ticks_v1"), Name("own", "md_ticks_v1")}
    assert found.functions == {Name("public", "md_candles_v1")}


def test_names_without_a_schema_and_a_source_without_functions() -> None:
    tables = [{"table": "md_ticks_v1"}, {"table": {"name": "md_ticks_v2"}}]
    with answering(with_metadata({"version": 3, "sources": [{"name": "default", "tables": tables}]})) as url:
        found = engine_at(url).tracked()
    assert found.tables == {Name("public", "md_ticks_v1"), Name("public", "md_ticks_v2")}
    assert found.functions == frozenset()


@pytest.mark.parametrize("metadata", [None, [], {"sources": 1}, {"sources": [{"name": "default", "tables": [{}]}]}])
def test_other_metadata_are_no_answer_of_hasura(metadata: Any) -> None:
    with answering(with_metadata(metadata)) as url, pytest.raises(StateError, match="not as Hasura does"):
        engine_at(url).tracked()


def test_a_refusal_has_its_code_and_a_short_reason() -> None:
    content = json.dumps({"path": "$", "error": "x" * 100_000, "code": "unexpected"}).encode()
    head = b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n" % len(content)
    with (
        answering(lambda accepted: accepted.sendall(head + content)) as url,
        pytest.raises(StateError, match="does not export its metadata: unexpected: x") as caught,
    ):
        engine_at(url).tracked()
    assert len(caught.value.detail) < 500


def silent(accepted: socket.socket) -> None:
    accepted.recv(1)  # until the client closes the connection


def byte_by_byte(accepted: socket.socket) -> None:
    accepted.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    waiting = threading.Event()
    while not waiting.wait(LATE / 10):
        accepted.sendall(b" ")


@pytest.mark.parametrize("answer", [silent, byte_by_byte])
def test_an_answer_that_is_not_complete_in_time_is_none(answer: Callable[[socket.socket], None]) -> None:
    with answering(answer) as url:
        began = time.monotonic()
        with pytest.raises(StateError, match=r"does not answer: no answer within 0\.3 s"):
            engine_at(url, seconds=LATE).tracked()
        assert time.monotonic() - began < LATE + 5
    assert not any(thread.name == "graphql-deadline" for thread in threading.enumerate())


@pytest.mark.parametrize("answer", [silent, byte_by_byte])
def test_a_call_can_be_interrupted(answer: Callable[[socket.socket], None]) -> None:
    with answering(answer) as url:
        engine = engine_at(url)
        engine.interrupt()  # without a call it does nothing
        timer = threading.Timer(LATE, engine.interrupt)
        timer.start()
        with pytest.raises(StateError, match="does not answer: "):
            engine.tracked()
        timer.join()
        engine.interrupt()


def test_untracked_tables_and_functions_are_named_with_their_schema() -> None:
    version = Version.of("md", 2)
    with answering(
        with_metadata({"sources": [{"name": "default", "tables": [{"table": {"schema": "a", "name": "md_ticks_v2"}}]}]})
    ) as url:
        found = engine_at(url).tracked()
    assert untracked(version, Schemas("a", "b"), found) == ["function b.md_candles_v2"]
    assert untracked(version, Schemas("b", "b"), found) == ["table b.md_ticks_v2", "function b.md_candles_v2"]

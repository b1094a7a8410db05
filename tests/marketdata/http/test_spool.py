"""A body in a file: one at a time, never in memory, and nothing of it left."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from marketdata.api.serve import Service
from marketdata.http import spool
from marketdata.http.connection import IDLE_SECONDS, MIN_SPOOL_RATE, Connection
from marketdata.http.listener import ARRIVAL_SECONDS
from marketdata.http.waitress_adapter import BODIES_BYTES, UNCOUNTED_BYTES
from marketdata.limits import MAX_CSV_BYTES
from marketdata.settings import Settings
from tests.marketdata.api.conftest import eventually
from tests.marketdata.http.wire import ask, connected

HEADER = b"symbol,id,ts,price,size\n"
KIB = 1024


def head(bearer: str, fields: str, kind: str = "text/csv") -> bytes:
    return (
        f"POST /v1/ingest/tick HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {bearer}\r\nContent-Type: {kind}\r\n"
        f"{fields}\r\n"
    ).encode()


def length(size: int) -> str:
    return f"Content-Length: {size}\r\n"


def lines(symbol: str, count: int) -> bytes:
    return HEADER + b"".join(b"%b,%d,%d,1,1\n" % (symbol.encode(), n, 1704067200000 + n) for n in range(count))


def chunked(body: bytes, size: int = 5000) -> bytes:
    parts = [body[place : place + size] for place in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def files_of(process: str = "self") -> list[str]:
    """The deleted files that this process has open."""
    found = []
    for each in Path(f"/proc/{process}/fd").iterdir():
        with_name = os.readlink(each) if each.is_symlink() else ""
        if with_name.endswith("(deleted)"):
            found.append(with_name)
    return found


@contextmanager
def arriving(service: Service, bearer: str) -> Iterator[Any]:
    """A client that has sent the half of a body of CSV."""
    with connected(service.port) as client:
        client.sendall(head(bearer, length(1000 * KIB)) + HEADER + b"x" * 500 * KIB)
        eventually(lambda: any(each.request and each.request.spooled for each in service._listener.connections()))
        yield client
    eventually(lambda: service.services.spools._spool is None)


@pytest.mark.parametrize("coding", ["", "Content-Encoding: gzip\r\n"])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_of_csv_is_stored(service: Service, write_token: str, coding: str, is_chunked: bool) -> None:
    plain = lines(f"SPOOL:{len(coding)}{is_chunked}", 12_000)
    body = gzip.compress(plain, 0) if coding else plain
    assert len(body) > 2 * UNCOUNTED_BYTES
    sent = head(write_token, coding + ("Transfer-Encoding: chunked\r\n" if is_chunked else length(len(body))))
    status, _, found = ask(service.port, sent + (chunked(body) if is_chunked else body))
    assert (status, found) == (200, b'{"accepted":12000,"duplicates":0,"rejected":[],"rejected_count":0}')


def test_the_file_is_in_the_state_directory_and_has_no_name(
    service: Service, service_settings: Settings, write_token: str
) -> None:
    before = sorted(service_settings.state_dir.rglob("*"))
    with arriving(service, write_token):
        assert [each for each in files_of() if each.startswith(f"{service_settings.state_dir}/")]
        assert sorted(service_settings.state_dir.rglob("*")) == before
        assert bodies_left(service) == BODIES_BYTES
    eventually(lambda: not [each for each in files_of() if each.startswith(f"{service_settings.state_dir}/")])


def bodies_left(service: Service) -> int:
    left: int = service._listener._bodies._left
    return left


def test_a_second_one_is_refused_before_its_body(service: Service, write_token: str) -> None:
    with arriving(service, write_token) as first:
        for fields in (length(1000 * KIB) + "Expect: 100-continue\r\n", "Transfer-Encoding: chunked\r\n"):
            status, headers, problem = ask(service.port, head(write_token, fields))
            assert (status, b'"saturated"' in problem, "retry-after" in headers) == (429, True, True)
        small = HEADER + b"SPOOL:SMALL,1,1704067200000,1,1\n"
        assert ask(service.port, head(write_token, length(len(small))) + small)[0] == 429
        one = b'{"symbol": "SPOOL:JSON", "id": "1", "ts": 1704067200000, "price": 1, "size": 1}'
        assert ask(service.port, head(write_token, length(len(one)), "application/json") + one)[0] == 201
        first.close()
        eventually(lambda: ask(service.port, head(write_token, length(len(small))) + small)[0] == 200)


def test_without_the_write_token_nothing_is_kept(service: Service, read_token: str, write_token: str) -> None:
    for bearer, status in (("md_wrong", 401), (read_token, 403)):
        found = ask(service.port, head(bearer, length(1000 * KIB)) + b"x" * 100 * KIB)
        assert found[0] == status
    with arriving(service, write_token):
        pass


def test_a_body_above_the_limit_is_refused_by_its_length(service: Service, write_token: str) -> None:
    status, _, problem = ask(service.port, head(write_token, length(MAX_CSV_BYTES + 1)))
    assert (status, f"larger than {MAX_CSV_BYTES} bytes".encode() in problem) == (413, True)
    with arriving(service, write_token):  # the turn is free again
        pass


@pytest.mark.parametrize("fields", [length(1000 * KIB), "Transfer-Encoding: chunked\r\n"])
def test_a_full_disk_is_a_503(service: Service, write_token: str, fields: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(spool, "TemporaryFile", lambda **_options: open("/dev/full", "r+b", buffering=0))  # noqa: SIM115
        sent = head(write_token, fields) + (chunked(b"x" * 50 * KIB) if "chunked" in fields else b"x" * 50 * KIB)
        status, headers, problem = ask(service.port, sent)
        assert (status, "retry-after" in headers) == (503, True)
        assert b'"storage_unavailable"' in problem
        assert b"No space left on device" in problem
    body = lines(f"SPOOL:FULL{len(fields)}", 2000)
    assert ask(service.port, head(write_token, length(len(body))) + body)[0] == 200


def test_a_state_directory_that_cannot_be_written_is_a_503(
    service: Service, write_token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service.services.spools, "_folder", Path("/nonexistent"))
    status, _, problem = ask(service.port, head(write_token, length(1000 * KIB)))
    assert (status, b'"storage_unavailable"' in problem) == (503, True)


def test_a_slow_body_may_take_long_if_it_moves() -> None:
    """An hour for 256 MiB, but not for a body of which little has arrived, or that has stopped."""

    def overdue(spooled: int, *, began: float, moved: float) -> bool:
        now = threading.TIMEOUT_MAX
        connection: Any = SimpleNamespace(
            request=SimpleNamespace(spooled=spooled), _arriving_since=now - began, moved_at=now - moved,
            discarding_since=None,
        )  # fmt: skip
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("marketdata.http.connection.monotonic", lambda: now)
            return Connection.is_overdue(connection, ARRIVAL_SECONDS)

    assert not overdue(255 << 20, began=3600, moved=1)
    assert not overdue(MIN_SPOOL_RATE * 100, began=ARRIVAL_SECONDS + 99, moved=1)
    assert overdue(MIN_SPOOL_RATE * 100, began=ARRIVAL_SECONDS + 101, moved=1)
    assert overdue(0, began=ARRIVAL_SECONDS + 1, moved=1)
    assert overdue(255 << 20, began=100, moved=IDLE_SECONDS + 1)


def test_a_service_that_ends_stops_between_two_blocks(
    service: Service, write_token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = lines("SPOOL:END", 25_000)
    sent = head(write_token, length(len(body))) + body
    with monkeypatch.context() as patched:
        patched.setattr(service.services.spools, "is_ending", True)
        status, headers, problem = ask(service.port, sent)
        assert (status, "retry-after" in headers, b"stopping" in problem) == (503, True, True)
    assert ask(service.port, sent)[0] == 200

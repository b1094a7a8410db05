"""A body in a file: one at a time, never in memory, and nothing of it left."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from marketdata.api.serve import Service
from marketdata.errors import Saturated
from marketdata.http.spool import Spools
from marketdata.http.waitress_adapter import BODIES_BYTES, UNCOUNTED_BYTES
from marketdata.limits import MAX_CSV_BYTES
from marketdata.settings import Settings
from tests.marketdata.api.conftest import eventually
from tests.marketdata.http.wire import ask, connected, listening, quick

HEADER = b"symbol,id,ts,price,size\n"
KIB = 1024
CHUNKED = "Transfer-Encoding: chunked\r\n"


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


def files_in(folder: Path) -> list[str]:
    """The deleted files of the folder that this process has open."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(os.readlink(each))
    return [name for name in found if name.startswith(f"{folder}/") and name.endswith("(deleted)")]


def is_free(spools: Spools) -> bool:
    try:
        spools.take(1).close()
    except Saturated:
        return False
    return True


@contextmanager
def arriving(service: Service, bearer: str) -> Iterator[Any]:
    """A client that has sent the half of a body of CSV."""
    with connected(service.port) as client:
        client.sendall(head(bearer, length(1000 * KIB)) + HEADER + b"x" * 500 * KIB)
        own = client.getsockname()  # connections of earlier tests may not have ended

        def is_spooled() -> bool:
            found = [each.request for each in service.listener.connections() if each.addr == own]
            return any(request and request.spooled for request in found)

        eventually(is_spooled)
        yield client
    eventually(lambda: is_free(service.services.spools))


@pytest.mark.parametrize(("coding", "is_chunked"), [("", False), ("", True), ("Content-Encoding: gzip\r\n", True)])
def test_a_body_of_csv_is_stored(service: Service, write_token: str, coding: str, is_chunked: bool) -> None:
    plain = lines(f"SPOOL:{len(coding)}{is_chunked}", 12_000)
    body = gzip.compress(plain, 0) if coding else plain
    assert len(body) > 2 * UNCOUNTED_BYTES
    sent = head(write_token, coding + (CHUNKED if is_chunked else length(len(body))))
    status, _, found = ask(service.port, sent + (chunked(body) if is_chunked else body))
    assert (status, found) == (200, b'{"accepted":12000,"duplicates":0,"rejected":[],"rejected_count":0}')


def test_the_file_is_in_the_state_directory_and_has_no_name(
    service: Service, service_settings: Settings, write_token: str
) -> None:
    folder = service_settings.state_dir
    before = sorted(folder.rglob("*"))
    with arriving(service, write_token):
        assert files_in(folder)
        assert sorted(folder.rglob("*")) == before
        assert service.listener.bodies_left == BODIES_BYTES
    eventually(lambda: not files_in(folder))


def test_a_second_one_is_refused_before_its_body(service: Service, write_token: str) -> None:
    with arriving(service, write_token) as first:
        for fields in (length(1000 * KIB) + "Expect: 100-continue\r\n", CHUNKED):
            status, headers, problem = ask(service.port, head(write_token, fields))
            assert (status, b'"saturated"' in problem, "retry-after" in headers) == (429, True, True)
        small = HEADER + b"SPOOL:SMALL,1,1704067200000,1,1\n"
        assert ask(service.port, head(write_token, length(len(small))) + small)[0] == 429
        one = b'{"symbol": "SPOOL:JSON", "id": "1", "ts": 1704067200000, "price": 1, "size": 1}'
        assert ask(service.port, head(write_token, length(len(one)), "application/json") + one)[0] == 201
        first.close()
        eventually(lambda: ask(service.port, head(write_token, length(len(small))) + small)[0] == 200)


def test_a_refused_body_takes_no_turn(service: Service, read_token: str, write_token: str) -> None:
    for bearer, size, status in (
        ("md_wrong", 1000 * KIB, 401), (read_token, 1000 * KIB, 403), (write_token, MAX_CSV_BYTES + 1, 413),
    ):  # fmt: skip
        found, _, problem = ask(service.port, head(bearer, length(size)) + b"x" * 100 * KIB)
        assert found == status
        assert (f"larger than {MAX_CSV_BYTES} bytes".encode() in problem) == (status == 413)
    assert is_free(service.services.spools)


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_full_disk_is_a_507_that_names_the_file_system(tmp_path: Path, is_chunked: bool) -> None:
    spools = Spools(tmp_path, lambda _folder: open("/dev/full", "r+b", buffering=0))  # noqa: SIM115
    body = b"x" * 50 * KIB
    with listening(quick, body_bytes=MAX_CSV_BYTES, admit=lambda _head, _block: spools.take(MAX_CSV_BYTES)) as listener:
        sent = head("a", CHUNKED) + chunked(body) if is_chunked else head("a", length(len(body))) + body
        status, headers, problem = ask(listener.port, sent)
    assert (status, "retry-after" in headers, b'"disk_full"' in problem) == (507, True, True)
    assert b"the file system /" in problem
    assert is_free(spools)

"""The attacks of the self-test: raw requests, and state directories that an attacker has prepared.

A web page, a program or another user of the same machine could try each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cardapp.settings import Settings
from cardapp.web.gate import HEADER_BYTES, JSON_LIMIT

MOVE = b'{"level":"step","delta":1}'
_JSON = "Content-Type: application/json"


@dataclass(frozen=True)
class Attack:
    """A request, and the status that the response must have. If ``closes`` is true, the service must close the
    connection after the response."""

    name: str
    expected: int
    request: bytes
    over_unix: bool = False
    closes: bool = False
    host: str = "127.0.0.1"


@dataclass(frozen=True)
class Trap:
    """A state directory in which an attacker has made a symbolic link. ``lay`` makes the link in a new state directory;
    the link leads to the directory that is its second argument. The service must then refuse to start, with the error
    code ``expected``."""

    name: str
    expected: str
    lay: Callable[[Settings, Path], None]


def attacks(settings: Settings, port: int) -> Iterator[Attack]:
    """All attacks by requests, for a server on ``port``."""
    yield from _by_host(port)
    yield from _by_page(port)
    yield from _by_body(settings, port)
    yield from _by_path(port)
    yield from _by_framing(port)


def message(line: str, *headers: str, body: bytes = b"") -> bytes:
    """A request as bytes. If there is a body and no header gives its length, Content-Length is added."""
    framed = any(header.lower().startswith(("content-length:", "transfer-encoding:")) for header in headers)
    length = () if framed or not body else (f"Content-Length: {len(body)}",)
    return "\r\n".join([line, *headers, *length, "", ""]).encode("latin-1") + body


def _move(host: str, *headers: str, kind: str = _JSON) -> bytes:
    return message("POST /api/navigation/move HTTP/1.1", host, kind, *headers, body=MOVE)


def _by_host(port: int) -> Iterator[Attack]:
    own, evil = f"Host: 127.0.0.1:{port}", "Host: evil.example"
    forwarded = (f"X-Forwarded-Host: 127.0.0.1:{port}", f"Forwarded: host=127.0.0.1:{port}")
    state = "GET /api/state HTTP/1.1"
    yield Attack("another Host", 421, message(state, evil))
    yield Attack("no Host", 421, message(state))
    yield Attack("no Host, HTTP/1.0", 421, message("GET /api/state HTTP/1.0"))
    yield Attack("a rebound name with our port", 421, message(state, f"Host: evil.example:{port}"))
    yield Attack(
        "a rebound name as Host and Origin", 421, _move(f"{evil}:{port}", f"Origin: http://evil.example:{port}")
    )
    yield Attack("our Host and another one", 421, message(state, own, evil))
    yield Attack("our Host without its port", 421, message(state, "Host: localhost"))
    upload = ("Content-Type: image/png", "Content-Length: 1000000")
    yield Attack(
        "another Host, with a body that is not sent",
        421,
        message("POST /api/evidence HTTP/1.1", evil, *upload),
        closes=True,
    )
    yield Attack("another host in the request line", 421, message("GET http://evil.example/api/state HTTP/1.1", own))
    yield Attack("another Host, ours in X-Forwarded-Host", 421, message(state, evil, *forwarded))


def _by_page(port: int) -> Iterator[Attack]:
    own = f"Host: 127.0.0.1:{port}"
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: eHh4")
    socket = "GET /api/editor-ui HTTP/1.1"
    keys = b'{"text":":!id<CR>"}'
    yield Attack("a foreign Origin", 403, _move(own, "Origin: http://evil.example"))
    yield Attack(
        "a foreign Origin, reading", 403, message("GET /api/state HTTP/1.1", own, "Origin: http://evil.example")
    )
    yield Attack("Origin null", 403, _move(own, "Origin: null"))
    yield Attack(
        "another port of this machine as Origin", 403, _move(own, f"Origin: http://127.0.0.1:{port % 65535 + 1}")
    )
    yield Attack("https instead of http in Origin", 403, _move(own, f"Origin: https://127.0.0.1:{port}"))
    yield Attack("Sec-Fetch-Site cross-site", 403, _move(own, "Sec-Fetch-Site: cross-site"))
    yield Attack("Sec-Fetch-Site same-site", 403, _move(own, "Sec-Fetch-Site: same-site"))
    yield Attack(
        "keys for the editor from a foreign page",
        403,
        message("POST /api/editor/input HTTP/1.1", own, _JSON, "Origin: http://evil.example", body=keys),
    )
    yield Attack(
        "a preflight from a foreign page",
        403,
        message(
            "OPTIONS /api/editor/input HTTP/1.1",
            own,
            "Origin: http://evil.example",
            "Access-Control-Request-Method: POST",
            "Access-Control-Request-Headers: content-type",
        ),
    )
    yield Attack("an upgrade without Origin", 403, message(socket, own, *upgrade))
    yield Attack("an upgrade with a foreign Origin", 403, message(socket, own, *upgrade, "Origin: http://evil.example"))
    yield Attack("an upgrade with another Host", 421, message(socket, "Host: evil.example", *upgrade))


def _by_body(settings: Settings, port: int) -> Iterator[Attack]:
    own = f"Host: 127.0.0.1:{port}"
    evidence = "POST /api/evidence HTTP/1.1"
    large = b" " * (JSON_LIMIT + 1)
    chunks = b"%x\r\n" % len(large) + large + b"\r\n0\r\n\r\n"
    beyond = f"Content-Length: {settings.evidence_max_bytes + 2 * JSON_LIMIT}"
    move = "POST /api/navigation/move HTTP/1.1"
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        yield Attack(f"JSON sent as {kind.partition(';')[0]}", 415, _move(own, kind=f"Content-Type: {kind}"))
    yield Attack("JSON sent without a type", 415, message(move, own, body=MOVE))
    yield Attack("JSON sent as text/plain over the Unix socket", 415, _move(own, kind="Content-Type: text/plain"), True)
    yield Attack("a body over the limit", 413, message(move, own, _JSON, body=large))
    yield Attack(
        "a body over the limit, in chunks", 413, message(move, own, _JSON, "Transfer-Encoding: chunked", body=chunks)
    )
    yield Attack("a body over every limit", 413, message(evidence, own, "Content-Type: image/png", beyond), closes=True)
    yield Attack("headers over the limit", 431, message(f"GET /{'x' * HEADER_BYTES} HTTP/1.1", own), closes=True)
    script = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    yield Attack("an SVG as evidence", 415, message(evidence, own, "Content-Type: image/svg+xml", body=script))
    yield Attack("an SVG that says it is a PNG", 415, message(evidence, own, "Content-Type: image/png", body=script))


def _by_path(port: int) -> Iterator[Attack]:
    own = f"Host: 127.0.0.1:{port}"
    for path in (
        "../card-state",
        "..%2Fcard-state",
        "..%252Fcard-state",
        "..%5Ccard-state",
        "%2Fetc%2Fpasswd",
        "//etc/passwd",
        "%2e%2e/%2e%2e/etc/passwd",
        "%00",
        "%C0%AE%C0%AE%2Fcard-state",
    ):
        yield Attack(f"evidence/{path}", 404, message(f"GET /api/evidence/{path} HTTP/1.1", own))


def _by_framing(port: int) -> Iterator[Attack]:
    own = f"Host: 127.0.0.1:{port}"
    hidden = _move(own)
    both = (f"Content-Length: {5 + len(hidden)}", "Transfer-Encoding: chunked")
    move = "POST /api/navigation/move HTTP/1.1"
    chunked = b"0\r\n\r\n" + hidden
    yield Attack(
        "Content-Length and chunks, and a hidden request",
        400,
        message(move, own, _JSON, *both, body=chunked),
        closes=True,
    )
    old = move.replace("1.1", "1.0")
    yield Attack(
        "chunks in HTTP/1.0", 400, message(old, own, _JSON, "Transfer-Encoding: chunked", body=chunked), closes=True
    )
    chunks = {
        "a bare line feed after a chunk's size": b"1a\n\r\n" + MOVE + b"\r\n0\r\n\r\n",
        "an empty line before a chunk": b"\r\n1a\r\n" + MOVE + b"\r\n0\r\n\r\n",
        "a chunk that is longer than its size": b"19\r\n" + MOVE + b"\r\n0\r\n\r\n",
    }
    for name, body in chunks.items():
        yield Attack(name, 400, message(move, own, _JSON, "Transfer-Encoding: chunked", body=body), closes=True)
    yield Attack(
        "two lengths",
        400,
        message(move, own, _JSON, "Content-Length: 0", "Content-Length: 26", body=hidden),
        closes=True,
    )
    yield Attack(
        "an unknown coding", 501, message(move, own, _JSON, "Transfer-Encoding: xchunked", body=chunked), closes=True
    )
    yield Attack(
        "a line feed in a header", 400, message("GET / HTTP/1.1", own, "X: a\nHost: evil.example"), closes=True
    )


def traps() -> tuple[Trap, ...]:
    """All attacks by prepared state directories."""

    def linked_directory(settings: Settings, elsewhere: Path) -> None:
        settings.state_dir.rmdir()
        settings.state_dir.symlink_to(elsewhere)

    def linked_database(settings: Settings, elsewhere: Path) -> None:
        settings.state_database.symlink_to(elsewhere / "database")

    def linked_evidence(settings: Settings, elsewhere: Path) -> None:
        settings.evidence_dir.symlink_to(elsewhere)

    def linked_socket(settings: Settings, elsewhere: Path) -> None:
        settings.api_socket.symlink_to(elsewhere / "socket")

    def linked_lock(settings: Settings, elsewhere: Path) -> None:
        (settings.state_dir / "api.lock").symlink_to(elsewhere / "lock")

    return (
        Trap("the state directory is a link", "state_symlink", linked_directory),
        Trap("the database is a link", "state_symlink", linked_database),
        Trap("the evidence directory is a link", "state_symlink", linked_evidence),
        Trap("the socket is a link", "state_symlink", linked_socket),
        Trap("the lock is a link", "state_symlink", linked_lock),
    )

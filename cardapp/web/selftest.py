"""The security self-test: starts a server, attacks it over real sockets, and prints the results.

An attack counts as refused only if the response has exactly the expected status. The test also checks that the same
server answers a valid request, and that no event was recorded.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cardapp import settings as settings_module
from cardapp.errors import CardAppError
from cardapp.settings import Settings
from cardapp.web.attacks import Attack, Trap, attacks, message, traps

TIMEOUT = 10.0
"""Seconds for an answer; callers may wait less for the answer to an attack."""
_HEADERS = ("content-security-policy", "x-content-type-options", "referrer-policy", "cross-origin-resource-policy")


_OTHER_UID = 65534
"""The account ``nobody``. Any other account than the service's and root is suitable."""
_OTHER_CLIENT = """
import os, socket, sys
port, uid = map(int, sys.argv[1:])
os.setgroups([])
os.setgid(uid)
os.setuid(uid)  # nothing is imported after this, because the account may not be able to read Python's files
with socket.socket() as client:
    client.connect(("127.0.0.1", port))
    client.sendall(sys.stdin.buffer.read())
    while data := client.recv(65536):
        sys.stdout.buffer.write(data)
"""
"""A program that sends its input and prints the response. It is a program because a process that has changed its
account cannot change back."""


class _Listener(Protocol):
    @property
    def port(self) -> int: ...
    @property
    def addresses(self) -> tuple[str, ...]: ...


class Service(Protocol):
    """A whole service as ``cardapp.serve`` builds it."""

    @property
    def listener(self) -> _Listener: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...


Build = Callable[[Settings], Service]


@dataclass(frozen=True)
class Finding:
    """One row of the result. If the attack was not tried, ``got`` is the reason."""

    attack: str
    expected: str
    got: str
    is_tried: bool = True

    @property
    def verdict(self) -> str:
        if not self.is_tried:
            return "not tried"
        return "held" if self.got == self.expected else "FAILED"


def run(build: Build, say: Callable[[str], object] = print, timeout: float = TIMEOUT) -> bool:
    """Attack a server made by ``build`` and print a table. Returns False if a check failed."""
    findings = list(findings_of(build, timeout))
    widths = [max(len(text) for text in column) for column in zip(*map(_cells, findings), strict=True)]
    for cells in (("attack", "expected", "got", "verdict"), *map(_cells, findings)):
        say("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())
    verdicts = [finding.verdict for finding in findings]
    failed, missing = verdicts.count("FAILED"), verdicts.count("not tried")
    tried = len(findings) - missing
    say(
        (f"{tried} checks, {failed} of them failed" if failed else f"all {tried} checks held")
        + (f"; {missing} not tried" if missing else "")
    )
    return not failed


def findings_of(build: Build, timeout: float = TIMEOUT) -> Iterator[Finding]:
    """The rows, one by one."""
    with _state() as settings:
        service = build(settings)
        try:
            service.start()
            yield from _on_server(settings, service.listener, timeout)
        finally:
            service.stop()
    for trap in traps():
        yield _sprung(build, trap)
    yield _refused_host()


def _on_server(settings: Settings, listener: _Listener, timeout: float) -> Iterator[Finding]:
    port = listener.port
    valid = message("GET /api/identity HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Origin: http://127.0.0.1:{port}")
    yield _thrown(Attack("(a valid request)", 200, valid), settings, port, timeout)
    yield _thrown(Attack("(a valid request over the Unix socket)", 200, valid, over_unix=True), settings, port, timeout)
    if len(listener.addresses) > 1:
        yield _thrown(Attack("(a valid request over [::1])", 200, valid, host="::1"), settings, port, timeout)
    yield _of_another_account(port)
    yield Finding(
        "mode of socket and directory", "600 700", f"{_mode(settings.api_socket)} {_mode(settings.state_dir)}"
    )
    for attack in attacks(settings, port):
        yield _thrown(attack, settings, port, timeout)
    yield Finding("events recorded by all these requests", "none", _recorded(settings, port))


def _of_another_account(port: int) -> Finding:
    request = message("GET /api/identity HTTP/1.1", f"Host: 127.0.0.1:{port}", "Connection: close")
    name, expected = "a request of another account of this machine", "403"
    if os.geteuid() != 0:
        return Finding(name, expected, "only root can become another account", is_tried=False)
    command = [sys.executable, "-I", "-c", _OTHER_CLIENT, str(port), str(_OTHER_UID)]
    done = subprocess.run(command, input=request, capture_output=True, timeout=2 * TIMEOUT, check=False)
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        return Finding(name, expected, reason, is_tried=False)
    return Finding(name, expected, _outcome(_Received(done.stdout), Attack(name, 403, request)))


class _Received:
    """Takes the place of a socket for ``_outcome``. The response was received before, and is read from memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def _thrown(attack: Attack, settings: Settings, port: int, timeout: float) -> Finding:
    expected = f"{attack.expected}, closed" if attack.closes else str(attack.expected)
    try:
        with contextlib.closing(_connected(attack, settings, port, timeout)) as client:
            client.sendall(attack.request)
            got = _outcome(client, attack)
    except (OSError, http.client.HTTPException) as error:
        got = f"{type(error).__name__}: {error}"
    return Finding(attack.name, expected, got)


def _connected(attack: Attack, settings: Settings, port: int, timeout: float) -> socket.socket:
    if not attack.over_unix:
        return socket.create_connection((attack.host, port), timeout=timeout)
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(timeout)
    client.connect(str(settings.api_socket))
    return client


def _outcome(client: Any, attack: Attack) -> str:
    """The status, followed by everything that is wrong with the response."""
    response = http.client.HTTPResponse(client, method=attack.request.split(b" ", 1)[0].decode())
    response.begin()
    body = response.read()
    found = [str(response.status)]
    if attack.closes:
        found.append("closed" if _at_end(client) else "still open")
    found += [f"no {name}" for name in _HEADERS if name not in response.headers]
    found += [name for name in response.headers if name.lower().startswith("access-control-")]
    if response.status >= 400 and response.headers.get_content_type() != "application/problem+json":
        found.append("no problem")
    if b"Traceback" in body:
        found.append("traceback")
    return ", ".join(found)


def _at_end(client: socket.socket) -> bool:
    """Whether the connection was closed after the response. A smuggled request would get a second response."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def _recorded(settings: Settings, port: int) -> str:
    attack = Attack("", 200, message("GET /api/events HTTP/1.1", f"Host: 127.0.0.1:{port}"))
    with contextlib.closing(_connected(attack, settings, port, TIMEOUT)) as client:
        client.sendall(attack.request)
        response = http.client.HTTPResponse(client)
        response.begin()
        body = response.read()
    if response.status != 200:
        return f"unknown: {response.status}"
    count = json.loads(body)["last_seq"]
    return f"{count} events" if count else "none"


def _sprung(build: Build, trap: Trap) -> Finding:
    with _state() as settings, tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as elsewhere:
        trap.lay(settings, Path(elsewhere))
        got = "started"
        service = None
        try:
            service = build(settings)
            service.start()
        except CardAppError as error:
            got = error.code
        finally:
            if service is not None:
                service.stop()
        if os.listdir(elsewhere):
            got += ", wrote through the link"
        return Finding(trap.name, trap.expected, got)


def _refused_host() -> Finding:
    try:
        settings_module.load({"CARD_API_HOST": "0.0.0.0"})
    except CardAppError as error:
        return Finding("listening beyond loopback", "usage", error.code)
    return Finding("listening beyond loopback", "usage", "accepted")


@contextlib.contextmanager
def _state() -> Iterator[Settings]:
    """Settings with a new state directory. It is directly under /tmp, because the path of a socket must be short."""
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as parent:
        folder = Path(parent).resolve() / "state"
        folder.mkdir(mode=0o700)
        yield settings_module.load({"CARD_STATE_DIR": str(folder), "CARD_API_PORT": "0"})


def _mode(path: Path) -> str:
    return f"{stat.S_IMODE(path.lstat().st_mode):o}"


def _cells(finding: Finding) -> Iterable[str]:
    return finding.attack, finding.expected, finding.got, finding.verdict

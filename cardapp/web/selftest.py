"""The security self-test: starts a server of its own, attacks it over real sockets, and says what came of it.

It must be able to fail: an attack counts as refused only by the very status that was expected, on a server that answers
an honest request, and only when nothing was recorded in the end.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cardapp import settings as settings_module
from cardapp.errors import CardAppError
from cardapp.settings import Settings
from cardapp.web.attacks import Attack, Trap, attacks, message, traps

_TIMEOUT = 10.0
_HEADERS = ("content-security-policy", "x-content-type-options", "referrer-policy", "cross-origin-resource-policy")


class _Listener(Protocol):
    @property
    def port(self) -> int: ...


class Service(Protocol):
    """A whole service as the composition root builds it."""

    @property
    def listener(self) -> _Listener: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...


Build = Callable[[Settings], Service]


@dataclass(frozen=True)
class Finding:
    """One row of the result."""

    attack: str
    expected: str
    got: str

    @property
    def held(self) -> bool:
        return self.got == self.expected


def run(build: Build, say: Callable[[str], object] = print) -> bool:
    """Attack a server made by ``build``, print a table, and tell whether everything held."""
    findings = list(findings_of(build))
    widths = [max(len(text) for text in column) for column in zip(*map(_cells, findings), strict=True)]
    for cells in (("attack", "expected", "got", "verdict"), *map(_cells, findings)):
        say("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())
    broken = sum(not finding.held for finding in findings)
    say(f"{len(findings)} checks, {broken} of them failed" if broken else f"all {len(findings)} checks held")
    return not broken


def findings_of(build: Build) -> Iterator[Finding]:
    """Every row, as it is found."""
    with _state() as settings:
        service = build(settings)
        try:
            service.start()
            yield from _on_server(settings, service.listener.port)
        finally:
            service.stop()
    for trap in traps():
        yield _sprung(build, trap)
    yield _refused_host()


def _on_server(settings: Settings, port: int) -> Iterator[Finding]:
    honest = message("GET /api/identity HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Origin: http://127.0.0.1:{port}")
    yield _thrown(Attack("(an honest request)", 200, honest), settings, port)
    yield _thrown(Attack("(an honest request over the Unix socket)", 200, honest, over_unix=True), settings, port)
    yield Finding(
        "mode of socket and directory", "600 700", f"{_mode(settings.api_socket)} {_mode(settings.state_dir)}"
    )
    for attack in attacks(settings, port):
        yield _thrown(attack, settings, port)
    yield Finding("what all of it changed", "nothing", _recorded(settings, port))


def _thrown(attack: Attack, settings: Settings, port: int) -> Finding:
    expected = f"{attack.expected}, closed" if attack.closes else str(attack.expected)
    try:
        with contextlib.closing(_connected(attack, settings, port)) as client:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it may refuse before it has read all
                client.sendall(attack.request)
            got = _outcome(client, attack)
    except (OSError, http.client.HTTPException) as error:
        got = f"{type(error).__name__}: {error}"
    return Finding(attack.name, expected, got)


def _connected(attack: Attack, settings: Settings, port: int) -> socket.socket:
    if not attack.over_unix:
        return socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT)
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(_TIMEOUT)
    client.connect(str(settings.api_socket))
    return client


def _outcome(client: socket.socket, attack: Attack) -> str:
    """The status, and whatever else about the answer is not as it must be."""
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
    """Whether nothing follows the answer: no second one to a request that was smuggled in."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def _recorded(settings: Settings, port: int) -> str:
    attack = Attack("", 200, message("GET /api/events HTTP/1.1", f"Host: 127.0.0.1:{port}"))
    with contextlib.closing(_connected(attack, settings, port)) as client:
        client.sendall(attack.request)
        response = http.client.HTTPResponse(client)
        response.begin()
        body = response.read()
    if response.status != 200:
        return f"unknown: {response.status}"
    count = json.loads(body)["last_seq"]
    return f"{count} events" if count else "nothing"


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
    """Settings with a state directory of their own; right under /tmp, for a socket's path is short."""
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as parent:
        folder = Path(parent).resolve() / "state"
        folder.mkdir(mode=0o700)
        yield settings_module.load({"CARD_STATE_DIR": str(folder), "CARD_API_PORT": "0"})


def _mode(path: Path) -> str:
    return f"{stat.S_IMODE(path.lstat().st_mode):o}"


def _cells(finding: Finding) -> Iterable[str]:
    return finding.attack, finding.expected, finding.got, "held" if finding.held else "FAILED"

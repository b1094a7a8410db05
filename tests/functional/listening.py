"""A real listener in front of an application of the test, and clients that speak HTTP byte by byte."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cardapp import settings as settings_module
from cardapp.settings import Settings
from cardapp.web.http import WsgiApp
from cardapp.web.listener import Listener
from cardapp.web.waitress_adapter import Limits

WAIT = 30.0
"""Seconds after which a client gives up."""


def make_settings(state_dir: Path, **changes: str) -> Settings:
    names = {"CARD_STATE_DIR": str(state_dir), "CARD_API_PORT": "0", "CARD_EVIDENCE_MAX_BYTES": "300000"}
    return settings_module.load(names | changes)


class Served:
    """A listener and its clients. ``close`` closes all of them."""

    def __init__(self, settings: Settings, app: WsgiApp, **limits: Any) -> None:
        self.settings = settings
        self.listener = Listener(settings, app, Limits(**limits))
        self.listener.start()
        self._clients = contextlib.ExitStack()

    def connect(self, transport: str = "tcp") -> socket.socket:
        client = socket.socket(socket.AF_INET if transport == "tcp" else socket.AF_UNIX)
        self._clients.enter_context(client)
        client.settimeout(WAIT)
        client.connect(("127.0.0.1", self.listener.port) if transport == "tcp" else str(self.settings.api_socket))
        return client

    def head(self, line: str, *headers: str) -> bytes:
        return "\r\n".join([line, f"Host: 127.0.0.1:{self.listener.port}", *headers, "", ""]).encode()

    def send(self, line: str, *headers: str, body: bytes = b"", transport: str = "tcp") -> socket.socket:
        """A new client that has sent this head and body."""
        client = self.connect(transport)
        client.sendall(self.head(line, *headers) + body)
        return client

    def status(self, line: str = "GET /x HTTP/1.1", *headers: str, transport: str = "tcp") -> int:
        """The status that a new client gets."""
        with self.send(line, *headers, transport=transport) as client:
            return answer(client)[0]

    def leave(self) -> None:
        """Close every client."""
        self._clients.close()

    def close(self) -> None:
        self.leave()
        self.listener.stop()


@pytest.fixture
def serve(state_dir: Path) -> Iterator[Callable[..., Served]]:
    """Start a listener for an application, with these limits. It is stopped afterwards."""
    started: list[Served] = []

    def start(app: WsgiApp, settings: Settings | None = None, **limits: Any) -> Served:
        started.append(Served(settings or make_settings(state_dir), app, **limits))
        return started[-1]

    yield start
    for served in started:
        served.close()


def answer(client: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Read one response: status, headers, body."""
    response = http.client.HTTPResponse(client)
    response.begin()
    body = response.read()
    return response.status, {name.lower(): value for name, value in response.headers.items()}, body


def problem(client: socket.socket) -> tuple[int, str]:
    """The status of one response, and the code of the problem in it."""
    status, _, body = answer(client)
    return status, str(json.loads(body)["code"])


def ended(client: socket.socket) -> bool:
    """Read until the end of the connection. Returns False if the server does not close it in time."""
    try:
        while client.recv(1 << 20):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


def counts() -> tuple[int, int]:
    """The numbers of open descriptors and of threads in this process."""
    return len(os.listdir("/proc/self/fd")), threading.active_count()


IPV6 = "an IPv6 loopback address"


def has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False

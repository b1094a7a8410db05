"""Clients and a service that run as other accounts of this machine; only root can start them.

A child imports what it needs before it changes its account: the files of Python may be closed to the other one.
"""

from __future__ import annotations

import http.client
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
NOBODY = 65534
SOMEBODY = 65533
"""Has no name on this machine."""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")

_BECOME = """
import os, socket, sys
def become(uid):
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
"""
_CLIENT = (
    _BECOME
    + """
uid, family, host, port = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
become(uid)
with socket.socket(family) as client:
    client.connect((host, port))
    client.sendall(sys.stdin.buffer.read())
    while data := client.recv(65536):
        sys.stdout.buffer.write(data)
"""
)
_LOGINS = (
    _BECOME
    + """
import psycopg
uid, conninfo, roles = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
become(uid)
for role in roles:
    try:
        with psycopg.connect(conninfo, user=role) as connection:
            print(connection.execute("SELECT current_user").fetchone()[0])
    except psycopg.Error as error:
        print(repr(str(error)))
"""
)
_SERVICE = (
    _BECOME
    + """
import encodings.idna
from cardapp import settings
from cardapp.web.listener import Listener
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"here"]
uid, state = int(sys.argv[1]), sys.argv[2]
become(uid)
listener = Listener(settings.load({"CARD_STATE_DIR": state, "CARD_API_PORT": "0"}), app)
listener.start()
print(listener.port, flush=True)
sys.stdin.read()
listener.stop()
"""
)


def response_to(uid: int, port: int, host: str = "127.0.0.1") -> tuple[int, Any]:
    """Status and JSON (or text) of the response that a client of this account gets."""
    name = f"[{host}]" if ":" in host else host
    request = f"GET /api/identity HTTP/1.1\r\nHost: {name.replace('[::ffff:127.0.0.1]', '127.0.0.1')}:{port}\r\n"
    family = 10 if ":" in host else 2
    done = subprocess.run(
        [sys.executable, "-c", _CLIENT, str(uid), str(family), host, str(port)],
        input=f"{request}Connection: close\r\n\r\n".encode(),
        capture_output=True,
        timeout=30,
        check=True,
    )
    response = http.client.HTTPResponse(_Received(done.stdout))  # type: ignore[arg-type]
    response.begin()
    body = response.read()
    return response.status, json.loads(body) if "json" in response.headers["Content-Type"] else body


def logins(uid: int, conninfo: str, roles: Sequence[str]) -> list[str]:
    """For each role what PostgreSQL answers this account: the role when it may log in, else the error."""
    command = [sys.executable, "-c", _LOGINS, str(uid), conninfo, *roles]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=30, check=True)
    return done.stdout.splitlines()


class _Received:
    """A response that was received already, as a socket to read it from."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


@contextmanager
def service_of(uid: int, state: Path) -> Iterator[int]:
    """A listener that runs as this account; yields its port."""
    os.chown(state, uid, uid)
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVICE, str(uid), str(state)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.communicate(timeout=30)

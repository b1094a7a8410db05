"""Clients and a service that run under other accounts of this machine. Only root can start them.

A child imports its modules before it changes its account, because the other account may not be allowed to read Python's
files.
"""

from __future__ import annotations

import configparser
import http.client
import io
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from tests.capabilities import need, needs

ROOT = Path(__file__).resolve().parent.parent.parent
NOBODY = 65534
SOMEBODY = 65533
"""A user id that has no name on this machine."""
PYTHON = "/usr/bin/python3"
"""Another account cannot run a Python in root's home, where a version manager keeps it."""

needs_root = needs(os.geteuid() == 0, "root, who can become another account")

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


_MARKET = (
    _BECOME
    + """
import contextlib, importlib, io, json, pkgutil, signal, threading
import encodings.idna, sqlite3
import marketdata
for module in pkgutil.walk_packages(marketdata.__path__, "marketdata."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
from marketdata.cli import main
become(int(sys.argv[1]))
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
for command in sys.argv[2:]:
    said = io.StringIO()
    if command == "ingestor":
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)  # it ends when it would wait
    with contextlib.redirect_stderr(said):
        code = main(command.split())
    signal.sigtimedwait({signal.SIGTERM}, 0)
    print(json.dumps([command, code, said.getvalue()]))
"""
)


def response_to(uid: int, port: int, host: str = "127.0.0.1") -> tuple[int, Any]:
    """Status and JSON (or text) of the response that a client under this account gets."""
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
    """PostgreSQL's answer to this account's login for each role: the role if it may log in, else the error."""
    command = [sys.executable, "-c", _LOGINS, str(uid), conninfo, *roles]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=30, check=True)
    return done.stdout.splitlines()


def market_commands(uid: int, state_dir: Path, commands: Sequence[str]) -> list[tuple[str, int, str]]:
    """Run commands of the market data under this account. Returns each with its exit code and standard error."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", _MARKET, str(uid), *commands],
        env=os.environ | {"MARKET_STATE_DIR": str(state_dir)}, cwd=ROOT,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


class _Received:
    """A received response, as a socket from which it can be read."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


@contextmanager
def service_of(uid: int, state: Path) -> Iterator[int]:
    """A listener that runs under this account. Yields its port."""
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


def requirements(extra: str) -> list[str]:
    """The requirements of an extra in ``setup.cfg``."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    return setup["options.extras_require"][extra].split("\n")


def environment_for_all(folder: Path, required: Iterable[str]) -> Path:
    """Make a virtual environment that every account can use, with copies of the installed packages that ``required``
    names and of those that they need; returns its site-packages."""
    version = "import sysconfig; print(sysconfig.get_python_version())"
    said = subprocess.run([PYTHON, "-c", version], capture_output=True, text=True, check=False).stdout.strip()
    need(said == sysconfig.get_python_version(), f"{PYTHON} of the version that runs the tests")
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", folder], check=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    for source, name in _installed_files(list(required)):
        (packages / name.parent).mkdir(parents=True, exist_ok=True)
        shutil.copy(source, packages / name)
    return packages


def _installed_files(names: list[str]) -> Iterator[tuple[Path, Path]]:
    """The files of these packages and of their dependencies: the location of each file, and its path in
    site-packages."""
    found = set[str]()
    while names:
        name, extra, condition = re.fullmatch(r"([\w.-]*)(?:\[(\w+)\])?([^;]*;.*extra.*)?.*", names.pop()).groups()
        if name and not condition and name not in found:
            found.add(name)
            names += [f"{name}-{extra}"] if extra else []
            try:
                distribution = metadata.distribution(name)
            except metadata.PackageNotFoundError:  # required by another version of Python only
                continue
            names += distribution.requires or []
            for file in distribution.files or []:
                if ".." not in file.parts:
                    yield Path(str(distribution.locate_file(file))), Path(file)

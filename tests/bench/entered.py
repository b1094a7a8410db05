"""How many modules and functions of the service a request enters, as a measure of how far a reader has to follow it.

python -m tests.bench.entered [CHECKOUT]      (default: this one; another checkout needs a finished set-up)

The services run as programs of their own with a profile function, which records each function of the two products that
is called between two signals. Each request is sent once before it is recorded, so that first-time work is left out. It
is then recorded a few times, and the recording with the fewest functions counts: work in the background only adds some.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from tests.bench.figures import Figure, table

ROOT = Path(__file__).resolve().parent.parent.parent
SECONDS = 60.0
RECORDINGS = 3
QUIET = 0.3  # seconds that threads have to end what a request began

# The interpreter imports it at its start, before the product.
_RECORDER = """
import json, os, socket, sys, threading

seen, is_recording = set(), False

def record(frame, event, _argument):
    if event == "call" and is_recording:
        seen.add(frame.f_code)

def serve(listener):
    global is_recording
    while True:
        connection, _ = listener.accept()
        seen.clear()
        is_recording = True
        connection.sendall(b"on")
        connection.recv(1)
        is_recording = False
        connection.sendall(json.dumps([(code.co_filename, code.co_qualname) for code in list(seen)]).encode())
        connection.close()

listener = socket.socket(socket.AF_UNIX)
listener.bind(os.path.join(os.environ["ENTERED_FOLDER"], str(os.getpid())))
listener.listen()
threading.Thread(target=serve, args=(listener,), daemon=True).start()
threading.setprofile(record)
sys.setprofile(record)
"""


class Service:
    """A program of a checkout that prints its address, with its log in ``folder``."""

    def __init__(self, checkout: Path, folder: Path, *command: str, **settings: str) -> None:
        self._log = (folder / f"{command[0]}-{command[-1]}.log").open("w")
        self._process = subprocess.Popen(
            [checkout / ".venv/bin/python", "-P", "-m", *command],
            cwd=checkout, env=os.environ | settings, stdout=subprocess.PIPE, stderr=self._log, text=True,
        )  # fmt: skip
        self.pid = self._process.pid
        assert self._process.stdout is not None
        address = None
        while address is None:
            assert select.select([self._process.stdout], [], [], SECONDS)[0], self._log.name
            line = self._process.stdout.readline()
            assert line, Path(self._log.name).read_text()
            address = re.search(r"http://[0-9.]+:(\d+)", line)
        self.port = int(address[1])

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()


class Traced(Service):
    """A service that runs with the recorder."""

    def __init__(self, checkout: Path, folder: Path, *command: str, **settings: str) -> None:
        (folder / "sitecustomize.py").write_text(_RECORDER)
        recorder = {"PYTHONPATH": str(folder), "ENTERED_FOLDER": str(folder)}
        super().__init__(checkout, folder, *command, **recorder, **settings)
        self._checkout, self._folder = checkout, folder

    def entered(self, request: Callable[[], Any]) -> tuple[int, int]:
        """The numbers of modules and functions that ``request`` enters after its first time."""
        request()
        functions = min((self._recorded(request) for _ in range(RECORDINGS)), key=len)
        return len({file for file, _ in functions}), len(functions)

    def _recorded(self, request: Callable[[], Any]) -> set[tuple[str, str]]:
        """File and name of each function of the products that is called meanwhile."""
        time.sleep(QUIET)
        with socket.socket(socket.AF_UNIX) as recorder:
            recorder.settimeout(SECONDS)
            recorder.connect(str(self._folder / str(self.pid)))
            assert recorder.recv(2) == b"on"
            request()
            time.sleep(QUIET)
            recorder.sendall(b".")
            recorded = b"".join(iter(lambda: recorder.recv(1 << 16), b""))
        products = tuple(f"{self._checkout / product}/" for product in ("cardapp", "marketdata"))
        return {(file, name) for file, name in json.loads(recorded) if file.startswith(products)}


def send(port: int, method: str, path: str, body: Any = None, authorization: str = "") -> Any:
    headers = {"Content-Type": "application/json"} | ({"Authorization": authorization} if authorization else {})
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(f"http://127.0.0.1:{port}{path}", data, headers, method=method), timeout=SECONDS) as answer:
        return json.loads(answer.read())


def measure(checkout: Path) -> Iterator[Figure]:
    for name, (modules, functions) in [*card(checkout), *market(checkout)]:
        yield Figure(name, f"{modules} modules, {functions} functions")


def card(checkout: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    with folder("card-") as state, folder("entered-") as records, ExitStack() as ends:
        settings = {"CARD_STATE_DIR": str(state), "CARD_API_PORT": "0"}
        launch(checkout / "bin/card-session", "start", str(checkout / "etc/cards/arena"), **settings)
        ends.callback(launch, checkout / "bin/card-session", "stop", **settings)
        api = Traced(checkout, records, "cardapp", "serve", **settings)
        ends.callback(api.stop)
        deltas = itertools.cycle((1, 1, -1, -1))

        def move() -> Any:
            return send(api.port, "POST", "/api/navigation/move", {"level": "step", "delta": next(deltas)})

        yield "a move", api.entered(move)
        yield "a sync", api.entered(lambda: (move(), send(api.port, "POST", "/api/navigation/sync", {})))


def market(checkout: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    with folder("market-") as state, folder("entered-") as records, ExitStack() as ends:
        settings = {"MARKET_STATE_DIR": str(state), "MARKET_API_PORT": "0", "MARKET_FRONTEND_PORT": "0"}
        api = Traced(checkout, records, "marketdata", "api", **settings)
        ends.callback(api.stop)
        write, read = (
            "Bearer " + json.loads((state / "secrets" / f"{name}.json").read_text())["token"]
            for name in ("alg", "read")
        )
        ids = iter("abcdefgh")

        def tick() -> Any:
            body = {"symbol": "A:B", "id": next(ids), "ts": "2026-01-31T12:00:00Z", "price": "1", "size": "1"}
            return send(api.port, "POST", "/v1/ingest/tick", body, write)

        path = "/v1/chart?symbol=A:B&interval=1m&limit="
        limits = iter(range(10, 100))
        yield "a single tick", api.entered(tick)
        yield "a chart", api.entered(lambda: send(api.port, "GET", f"{path}{next(limits)}", None, read))
        password = "correct horse battery staple"
        launch(checkout / "bin/marketdata-user", "add", "--password-stdin", "reader", typed=password, **settings)
        settings["API_UPSTREAM"] = f"http://127.0.0.1:{api.port}"
        frontend = Traced(checkout, records, "marketdata", "frontend", **settings)
        ends.callback(frontend.stop)
        login = "Basic " + base64.b64encode(f"reader:{password}".encode()).decode()

        def proxied() -> Any:
            return send(frontend.port, "GET", f"/api{path}{next(limits)}", None, login)

        yield "a proxied chart, in the frontend", frontend.entered(proxied)


def launch(launcher: Path, *arguments: str, typed: str = "", **settings: str) -> None:
    environment = os.environ | settings
    subprocess.run([launcher, *arguments], env=environment, input=typed, text=True, check=True, capture_output=True)


@contextmanager
def folder(prefix: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix=prefix, dir="/tmp", ignore_cleanup_errors=True) as name:
        yield Path(name).resolve()


if __name__ == "__main__":
    print(table(list(measure(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT).resolve()))))

"""``marketdata api --processes N``: processes are killed, ended and frozen, under load and with live clients."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from marketdata.postgres.cluster import conninfo
from marketdata.store.pool import connect
from marketdata.store.version import Version
from tests.functional.market_process import ROOT, SECONDS, ApiProcess, Client, give_cluster
from tests.marketdata.api.conftest import eventually
from tests.marketdata.api.live_client import LiveClient
from tests.marketdata.store.brute_force import rollups
from tests.marketdata.store.conftest import stored_rollups, stored_ticks

pytestmark = pytest.mark.functional

START = 1_700_000_000_000
SYMBOLS = ("PROC:0", "PROC:1", "PROC:2", "PROC:3")
V1 = Version.of("md", 1)
PROCESSES = 4
PAUSE_SECONDS = 0.05
"""Between two requests of a client. Without it, 64 clients leave no processor time for the start of a process."""


class Processes(ApiProcess):
    """The API with several processes."""

    def __init__(self, state_dir: Path, count: int = PROCESSES, **settings: str) -> None:
        super().__init__(state_dir, MARKET_API_PROCESSES=str(count), **settings)
        give_cluster(state_dir)
        self.count = count

    def pids(self) -> list[int]:
        """The processes that serve, without the supervisor."""
        try:
            children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
            return [int(each) for each in children if b"marketdata.api.worker" in command_of(int(each))]
        except FileNotFoundError:
            return []

    def metrics(self) -> str:
        with closing(Client(self.port, "")) as client:
            status, text = client("GET", "/metrics")
        assert status == 200
        return str(text.decode())

    def figure(self, name: str) -> float:
        """The value of a metric without labels."""
        found = re.search(rf"^{name} (\S+)$", self.metrics(), re.MULTILINE)
        assert found is not None, name
        return float(found[1])

    def answered(self) -> int:
        """How many requests for all symbols were answered."""
        return answered(self.metrics())

    def all_serve(self) -> bool:
        return len(self.pids()) == self.count and self.figure("marketdata_processes") == self.count


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def answered(metrics: str) -> int:
    pattern = r'^marketdata_requests_total\{method="GET",path="/v1/symbols",status="200"\} (\d+)$'
    found = re.search(pattern, metrics, re.MULTILINE)
    return int(found[1]) if found else 0


def states_of(pid: int) -> set[str]:
    """The states of the threads as in proc(5); empty when the process has ended."""
    states = set()
    for path in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):
            states.add(path.read_text().rpartition(")")[2].split()[0])
    return states - {"Z", "X"}


def freeze(pid: int) -> None:
    """Stop the process, and wait until all its threads have stopped."""
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: states_of(pid) <= {"T"})


def peers_of(pid: int) -> set[int]:
    """The local ports of the clients whose connections the process holds."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            if (found := re.fullmatch(r"socket:\[(\d+)\]", os.readlink(descriptor))) is not None:
                inodes.add(found[1])
    rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return {int(row[2].rpartition(":")[2], 16) for row in rows if row[9] in inodes}


@pytest.fixture(scope="module")
def running() -> Iterator[Processes]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        process = Processes(Path(folder))
        process.start()
        yield process
        process.stop()


@pytest.fixture
def api(running: Processes) -> Processes:
    """The API, all of whose processes serve."""
    eventually(running.all_serve)
    return running


def tick(number: int, symbol: str = SYMBOLS[0], **members: Any) -> dict[str, Any]:
    at = START + (number * 7919 % 10_000) * 977  # not in the order of time, so that candles are corrected, too
    return {"symbol": symbol, "id": f"{number}", "ts": at, "price": f"{100 + number % 97}.5", "size": "1.25", **members}


# -- 64 clients and killed processes ----------------------------------------------------------------------------------


class Loading:
    """A client on one kept-alive connection at a time. ``broken`` has the local ports of the connections that broke."""

    def __init__(self, api: Processes, number: int) -> None:
        self._number = number
        self._writes = number % 2 == 0
        token = api.token("alg" if self._writes else "read")
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=SECONDS)
        self._stopping = threading.Event()
        self.acknowledged: list[str] = []
        self.answered = 0
        self.broken: list[int] = []
        self.trouble: list[Any] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        for count in itertools.count():
            while not self._stopping.is_set():
                port = 0
                try:
                    if self._connection.sock is None:
                        self._connection.connect()
                    port = self._connection.sock.getsockname()[1]
                    status, answer = self._ask(count)
                except (OSError, http.client.HTTPException):
                    self.broken.append(port)
                    self._connection.close()
                    continue
                self.answered += 1
                if status not in (200, 201):
                    self.trouble.append((status, answer))
                    return
                self._stopping.wait(PAUSE_SECONDS)
                break
            else:
                self._connection.close()
                return

    def _ask(self, count: int) -> tuple[int, bytes]:
        if not self._writes:
            return self._exchange("GET", f"/v1/chart?symbol={SYMBOLS[0]}&interval=1h&limit=20")
        symbol = SYMBOLS[self._number // 2 % len(SYMBOLS)]
        sent = tick(self._number * 1_000_000 + count, symbol)
        status, answer = self._exchange("POST", "/v1/ingest/tick", sent)
        if status in (200, 201):
            self.acknowledged.append(f"{symbol} {sent['id']}")
        return status, answer

    def _exchange(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        self._connection.request(method, path, body and json.dumps(body), self._headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()


@pytest.mark.full
def test_killed_processes_lose_nothing_and_disturb_no_others(api: Processes, loops: Callable[..., int]) -> None:
    token = api.token("read")
    with closing(Client(api.port, api.token("alg"))) as writer:
        for symbol in SYMBOLS:
            assert writer("POST", "/v1/ingest/tick", tick(0, symbol))[0] == 201
    with ExitStack() as stack:
        live = [stack.enter_context(Subscriber(api, token)) for _ in range(16)]
        clients = [Loading(api, number) for number in range(64)]
        pause = threading.Event()
        may_break: set[int] = set()
        for number in range(loops(quick=3, full=30)):
            pause.wait(0.7)
            victim = api.pids()[number % PROCESSES]
            freeze(victim)  # so that what it holds is known
            lost = peers_of(victim)
            os.kill(victim, signal.SIGKILL)
            may_break |= lost
            lost_live = [each for each in live if each.port in lost]
            live = [each for each in live if each.port not in lost]
            live += [stack.enter_context(Subscriber(api, token)) for _ in lost_live]
            eventually(lambda victim=victim: victim not in api.pids() and api.all_serve())  # type: ignore[misc]
        for client in clients:
            client.stop()
        assert [client.trouble for client in clients if client.trouble] == []
        assert {port for client in clients for port in client.broken} <= may_break
        assert all(client.answered for client in clients)
        with closing(Client(api.port, api.token("alg"))) as writer:
            assert writer("POST", "/v1/ingest/tick", tick(10**9, ts=START + 10**9, price="31.25"))[0] == 201
        for each in live:
            eventually(lambda each=each: each.newest == "31.25")  # type: ignore[misc]
            assert each.trouble == []
    assert_everything_is_stored(api, {each for client in clients for each in client.acknowledged})


class Subscriber:
    """A live client that reads in a thread of its own. ``newest`` is the price of the last candle."""

    def __init__(self, api: Processes, token: str) -> None:
        self._client = LiveClient(api.port, token)
        self.port: int = self._client.socket.getsockname()[1]
        self.newest = ""
        self.trouble: list[Any] = []
        assert self._client.subscribe(SYMBOLS[0], "1m")["type"] == "subscribed"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Subscriber:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.socket.shutdown(2)
        self._thread.join(SECONDS)
        self._client.close()

    def _run(self) -> None:
        try:
            while True:
                message = self._client.receive(SECONDS)
                if message["type"] == "candle":
                    self.newest = message["candle"]["c"]
                else:
                    self.trouble.append(message)
        except OSError as error:
            self.trouble.append(error)


def assert_everything_is_stored(api: Processes, acknowledged: set[str]) -> None:
    with connect(conninfo(api.state_dir)) as connection:
        held = {symbol: stored_ticks(connection, V1, symbol) for symbol in SYMBOLS}
        stored = {f"{symbol} {tick.id}" for symbol, ticks in held.items() for tick in ticks}
        assert len(acknowledged) > 100
        assert not acknowledged - stored
        for symbol, ticks in held.items():
            assert stored_rollups(connection, V1, symbol) == rollups(ticks)


def test_connections_of_one_moment_are_spread_over_the_processes(api: Processes) -> None:
    with ExitStack() as stack:
        opened = [stack.enter_context(socket.create_connection(("127.0.0.1", api.port))) for _ in range(64)]
        ports = {each.getsockname()[1] for each in opened}

        def spread() -> list[int]:
            return [len(peers_of(pid) & ports) for pid in api.pids()]

        eventually(lambda: sum(spread()) == len(opened))
        # Each has 12 to 21 of them, but fewer where other programs keep one process from running meanwhile.
        assert min(spread()) >= len(opened) / PROCESSES / 4, spread()


# -- the end of all, and of the supervisor ----------------------------------------------------------------------------


def test_sigterm_ends_all_and_stores_what_is_queued(api: Processes) -> None:
    pids = api.pids()
    with ThreadPoolExecutor(16) as threads:
        sent = [threads.submit(write_one, api.port, api.token("alg"), number) for number in range(1, 400)]
        eventually(lambda: any(each.done() for each in sent))
        began = monotonic()
        assert api.stop() == 0
        assert monotonic() - began < 15
    acknowledged = {number for each in sent if (number := each.result()) is not None}
    assert acknowledged
    assert not any(states_of(pid) for pid in pids)
    api.start()
    with closing(Client(api.port, api.token("read"))) as reader:
        page = reader("GET", "/v1/ticks?symbol=PROC:END&limit=1000")[1]
    assert acknowledged <= {int(each["id"]) for each in page["ticks"]}


def write_one(port: int, token: str, number: int) -> int | None:
    """Returns the number if the tick was acknowledged."""
    with suppress(OSError, http.client.HTTPException), closing(Client(port, token)) as client:
        return number if client("POST", "/v1/ingest/tick", tick(number, "PROC:END"))[0] == 201 else None
    return None


@pytest.mark.full
def test_a_killed_supervisor_leaves_no_process(api: Processes) -> None:
    pids = api.pids()
    assert len(pids) == PROCESSES
    api.kill()
    eventually(lambda: not any(states_of(pid) for pid in pids))
    api.start()
    assert api.all_serve()


def test_a_process_that_is_asked_to_end_is_replaced(api: Processes) -> None:
    first = api.pids()[0]
    os.kill(first, signal.SIGTERM)
    eventually(lambda: first not in api.pids() and api.all_serve())
    assert f"process {first} of the API ended with exit code 0; it is started again now" in api.log.read_text()


@pytest.mark.full
def test_a_wrong_setting_is_told_once(state_dir: Path) -> None:
    give_cluster(state_dir)
    for settings, code, said in (
        (
            {"DATABASE_URL": "postgresql://user:hidden@/x?nonsense=1"},
            2,
            "DATABASE_URL or DATABASE_READ_URL is malformed",
        ),
        ({"TICKS_TABLE": "md_ticks_v7", "CANDLES_FUNCTION": "md_candles_v7"}, 1, "md_ticks_v7"),
        ({"MARKET_API_PROCESSES": "0"}, 2, "MARKET_API_PROCESSES='0': must be a number of processes from 1 to 64"),
    ):
        done = launch(state_dir, **settings)
        assert done.returncode == code
        assert done.stdout == ""
        errors = [line for line in done.stderr.splitlines() if line.startswith("bin/marketdata-api: ")]
        assert len(errors) == 1
        assert said in errors[0]
        assert "hidden" not in done.stderr
        assert "Traceback" not in done.stderr


def launch(state_dir: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "marketdata", "api", *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS,
        env=os.environ
        | {"MARKET_STATE_DIR": str(state_dir), "MARKET_API_PORT": "0", "MARKET_API_PROCESSES": "4"}
        | settings,
    )  # fmt: skip


@pytest.mark.parametrize("number", ["0", "65", "-1", "four", "2.0"])
def test_a_number_of_processes_has_bounds(state_dir: Path, number: str) -> None:
    done = launch(state_dir, f"--processes={number}")
    assert done.returncode == 2
    assert done.stderr.endswith("argument --processes: must be a number of processes from 1 to 64\n")


# -- reports about all processes --------------------------------------------------------------------------------------


def test_metrics_are_the_sums_of_all_also_after_a_kill(api: Processes) -> None:
    token, clients = api.token("read"), 24
    before, restarts = api.answered(), api.figure("marketdata_process_restarts_total")
    with ExitStack() as stack:
        readers = [stack.enter_context(closing(Client(api.port, token))) for _ in range(clients)]
        for reader in readers:
            assert reader("GET", "/v1/symbols")[0] == 200
        assert api.answered() == before + clients
        for _ in range(2):
            os.kill(api.pids()[0], signal.SIGKILL)
            eventually(api.all_serve)
            assert api.answered() == before + clients
        assert api.figure("marketdata_process_restarts_total") == restarts + 2
        with closing(Client(api.port, token)) as another:
            assert another("GET", "/v1/symbols")[0] == 200
        assert api.answered() == before + clients + 1
    assert api.figure("marketdata_ready") == 1


def test_a_process_that_does_not_react_stops_neither_metrics_nor_new_clients(api: Processes) -> None:
    token = api.token("read")
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(Client(api.port, token))) for _ in range(16)]
        for client in clients:
            assert client("GET", "/v1/symbols")[0] == 200
        before, victim = api.answered(), api.pids()[0]
        held = peers_of(victim)
        (client, *_) = [each for each in clients if each.local_port not in held]
        freeze(victim)
        try:
            began = monotonic()
            assert answered(client("GET", "/metrics")[1].decode()) == before
            assert monotonic() - began < 2
            for _ in range(8):
                assert stack.enter_context(closing(Client(api.port, token)))("GET", "/ready")[0] == 200
        finally:
            os.kill(victim, signal.SIGCONT)

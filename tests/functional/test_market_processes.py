"""``marketdata api --processes N``: processes are killed, ended under load, and frozen."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.functional.market_process import ApiProcess, Client, command, give_cluster
from tests.marketdata.api.conftest import eventually

pytestmark = pytest.mark.functional

START = 1_700_000_000_000
PROCESSES = 3


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


def tick(number: int, symbol: str = "PROC:0", **members: Any) -> dict[str, Any]:
    at = START + (number * 7919 % 10_000) * 977  # not in the order of time, so that candles are corrected, too
    return {"symbol": symbol, "id": f"{number}", "ts": at, "price": f"{100 + number % 97}.5", "size": "1.25", **members}


def test_connections_of_one_moment_are_spread_over_the_processes(api: Processes) -> None:
    def spread() -> list[int]:
        with ExitStack() as stack:
            opened = [stack.enter_context(socket.create_connection(("127.0.0.1", api.port))) for _ in range(64)]
            ports = {each.getsockname()[1] for each in opened}
            eventually(lambda: sum(len(peers_of(pid) & ports) for pid in api.pids()) == len(opened))
            return [len(peers_of(pid) & ports) for pid in api.pids()]

    # Each gets about 21 of them, but fewer while other programs keep one process from running.
    eventually(lambda: min(spread()) >= 64 / PROCESSES / 4)


# -- the end of all, and of the supervisor ----------------------------------------------------------------------------


def test_sigterm_ends_all_and_stores_what_is_queued(api: Processes) -> None:
    pids = api.pids()
    with ThreadPoolExecutor(16) as threads:
        sent = [threads.submit(write_one, api.port, api.token("alg"), number) for number in range(1, 200)]
        eventually(lambda: any(each.done() for each in sent))
        assert api.stop() == 0
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


def test_a_wrong_setting_is_told_once(state_dir: Path) -> None:
    give_cluster(state_dir)
    for changed, code, said in (
        ({"DATABASE_URL": "postgresql://user:hidden@/x?nonsense=1"}, 2, "DATABASE_URL or DATABASE_READ_URL is malf"),
        ({"TICKS_TABLE": "md_ticks_v7", "CANDLES_FUNCTION": "md_candles_v7"}, 1, "md_ticks_v7"),
        ({"MARKET_API_PROCESSES": "65"}, 2, "MARKET_API_PROCESSES='65': must be a number of processes from 1 to 64"),
    ):
        settings = {"MARKET_API_PORT": "0", "MARKET_API_PROCESSES": "2"} | changed
        done = command(state_dir, "api", **settings)
        assert (done.returncode, done.stdout) == (code, ""), said
        (error,) = [line for line in done.stderr.splitlines() if line.startswith("bin/marketdata-api: ")]
        assert said in error
        assert "hidden" not in done.stderr
        assert "Traceback" not in done.stderr
    assert command(state_dir, "api", "--processes=0").returncode == 2


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
            killed = api.pids()[0]
            os.kill(killed, signal.SIGKILL)
            eventually(lambda killed=killed: killed not in api.pids() and api.all_serve())  # type: ignore[misc]
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
            assert answered(client("GET", "/metrics")[1].decode()) == before
            for _ in range(8):
                assert stack.enter_context(closing(Client(api.port, token)))("GET", "/ready")[0] == 200
        finally:
            os.kill(victim, signal.SIGCONT)

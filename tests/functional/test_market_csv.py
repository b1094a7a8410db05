"""A file of CSV against a process that is stopped and killed, and the memory that it takes."""

from __future__ import annotations

import http.client
import json
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.bench.figures import resident
from tests.functional.market_process import SECONDS, ApiProcess, Client
from tests.functional.session_process import eventually

pytestmark = pytest.mark.functional

TICKS = 50_000


def lines(symbol: str) -> str:
    ticks = (f"{symbol},{n},{1704067200000 + n * 100},1.5,2\n" for n in range(TICKS))
    return "symbol,id,ts,price,size\n" + "".join(ticks)


@pytest.fixture(scope="module")
def api() -> Iterator[ApiProcess]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        process = ApiProcess(Path(folder))
        process.start()
        yield process
        process.stop()


def send(api: ApiProcess, body: Any) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {api.token('alg')}", "Content-Type": "text/csv"}
    with closing(http.client.HTTPConnection("127.0.0.1", api.port, timeout=SECONDS)) as connection:
        connection.request("POST", "/v1/ingest/tick", body, headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())


def stored(api: ApiProcess, symbol: str) -> int:
    with closing(Client(api.port, api.token("read"))) as client:
        status, found = client("GET", f"/v1/chart?symbol={symbol}&interval=1M")
        return sum(each["n"] for each in found["candles"]) if status == 200 else 0


def test_the_largest_file_takes_little_memory(api: ApiProcess, tmp_path: Path) -> None:
    """256 MiB of ticks, and of lines that are too long for a tick and are refused quickly."""
    file, ticks = tmp_path / "largest.csv", lines("CSV:LARGEST")
    with file.open("w") as writer:
        writer.write(ticks)
        long = "x" * (1 << 16) + "\n"
        while writer.tell() + len(long) < 256 << 20:
            writer.write(long)
    status, answer = send(api, "symbol,id,ts,price,size\nCSV:FIRST,1,1704067200000,1,1\n")
    assert (status, answer["accepted"]) == (200, 1)
    before = resident(api.pid)
    Path(f"/proc/{api.pid}/clear_refs").write_text("5")  # the peak begins anew
    with file.open("rb") as reader:
        status, answer = send(api, reader)
    assert (status, answer["accepted"], len(answer["rejected"])) == (200, TICKS, 1000)
    assert answer["rejected_count"] == (os.path.getsize(file) - len(ticks)) // len(long)
    assert resident(api.pid, "VmHWM") - before < 40 * 1024


@pytest.mark.parametrize("way", [signal.SIGTERM, signal.SIGKILL])
def test_a_file_that_was_cut_off_is_sent_again(api: ApiProcess, way: signal.Signals) -> None:
    """After SIGTERM the request is answered at the end of the present block, and no file remains. Sending the body
    again stores the rest."""
    answers: list[tuple[int, Any] | None] = []
    symbol = f"CSV:{way.name}"
    body = lines(symbol)

    def try_to_send() -> None:
        try:
            answers.append(send(api, body))
        except (OSError, http.client.HTTPException):
            answers.append(None)

    names = {each.name for each in api.state_dir.iterdir()}
    sender = threading.Thread(target=try_to_send)
    sender.start()
    eventually(lambda: stored(api, symbol) > 0, seconds=SECONDS)
    if way == signal.SIGKILL:
        api.kill()
    else:
        assert api.stop() == 0
    sender.join(SECONDS)
    (cut_off,) = answers
    assert {each.name for each in api.state_dir.iterdir()} <= names
    api.start()
    before = stored(api, symbol)
    assert 0 < before <= TICKS
    if before < TICKS and way == signal.SIGTERM:
        assert cut_off is not None
        assert (cut_off[0], cut_off[1]["code"]) == (503, "database_unavailable")
    elif before < TICKS:
        assert cut_off is None
    status, answer = send(api, body)
    assert (status, answer["accepted"] + answer["duplicates"], answer["rejected"]) == (200, TICKS, [])
    assert answer["duplicates"] == before
    assert stored(api, symbol) == TICKS

"""An ingestor that names no version fills the current one: it goes on there after a cutover, also after a restart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from marketdata.demo.chain import BLOCK_S
from marketdata.demo.state_directory import SYMBOLS
from marketdata.errors import StateError
from marketdata.ingest.outbox import Outbox
from tests.functional.market_process import ROOT, SECONDS, ApiProcess, Client
from tests.functional.serving import until

pytestmark = pytest.mark.functional

HISTORY = 300
SOON = 2 * SECONDS
"""The ingestor asks for its table only every few seconds."""


class Demo:
    """The demo source beside the running API, as ``bin/start`` runs it."""

    def __init__(self, api: ApiProcess) -> None:
        self._api = api
        self._process: subprocess.Popen[str] | None = None
        (api.state_dir / "demo").mkdir(mode=0o700)
        (api.state_dir / "empty.env").touch()  # as /etc/marketdata.env
        chain = {"seed": "07" * 32, "genesis": int(time.time()) - HISTORY * BLOCK_S, "history": HISTORY}
        (api.state_dir / "demo" / "chain.json").write_text(json.dumps(chain))

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "marketdata", "demo", "run"], cwd=ROOT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=os.environ | {
                "MARKET_STATE_DIR": str(self._api.state_dir), "API_UPSTREAM": f"http://127.0.0.1:{self._api.port}",
                "MARKET_ENV_FILE": str(self._api.state_dir / "empty.env"),
            },
        )  # fmt: skip

    def end(self, *, kill: bool = False) -> tuple[int, str]:
        """Its exit code, and what it said."""
        process, self._process = self._process, None
        if process is None:
            return 0, ""
        process.kill() if kill else process.terminate()
        said, _ = process.communicate(timeout=SECONDS)
        return process.returncode, said


@pytest.fixture
def api(state_dir: Path) -> Iterator[ApiProcess]:
    found = ApiProcess(state_dir)
    found.start()
    yield found
    found.stop()


@pytest.fixture
def demo(api: ApiProcess) -> Iterator[Demo]:
    found = Demo(api)
    found.start()
    yield found
    found.end(kill=True)


def command(api: ApiProcess, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "marketdata", *arguments], cwd=ROOT, text=True, stdout=subprocess.PIPE,
        env=os.environ | {"MARKET_STATE_DIR": str(api.state_dir)},
    )  # fmt: skip


def cut_over(api: ApiProcess, current: int, new: int) -> None:
    """Switch while a copy follows, because the demo continues to write."""
    with command(api, "copy", str(current), str(new), "--follow") as copy:
        assert copy.stdout is not None
        assert copy.stdout.readline().startswith("caught up")
        try:
            with command(api, "cutover", str(new)) as switch:
                said, _ = switch.communicate(timeout=SECONDS)
            assert switch.returncode == 0, said
        finally:
            copy.terminate()
            copy.communicate(timeout=SECONDS)


def test_the_ingestor_continues_in_the_version_that_a_cutover_made_current(api: ApiProcess, demo: Demo) -> None:
    with closing(Client(api.port, api.token("read"))) as read:

        def newest() -> str:
            status, answer = read("GET", f"/v1/ticks?symbol={SYMBOLS[0]}&limit=1")
            return str(answer["ticks"][0]["ts"]) if status == 200 and answer["ticks"] else ""

        def delivered_to(table: str) -> bool:
            outbox = api.state_dir / "demo" / f"{table}.sqlite"
            if read("GET", "/ready")[1]["ticks_table"] != table or not outbox.exists():
                return False
            with suppress(StateError), closing(Outbox(outbox, only_reads=True)) as found:  # it may be incomplete
                return found.rows("SELECT ticks_table FROM identity") == [(table,)] and not found.count()
            return False

        until(lambda: delivered_to("md_ticks_v1"), SECONDS)
        with command(api, "version", "2") as made:
            made.communicate(timeout=SECONDS)
        cut_over(api, 1, 2)
        until(lambda: delivered_to("md_ticks_v2"), SOON)
        code, said = demo.end()
        assert (code, "into md_ticks_v2" in said) == (0, True), said
        before = newest()
        demo.start()
        until(lambda: newest() > before, SECONDS)
        demo.end(kill=True)
        cut_over(api, 2, 1)
        before = newest()
        demo.start()
        until(lambda: newest() > before, SOON)  # the outbox is of an earlier turn
        until(lambda: delivered_to("md_ticks_v1"), SOON)
        assert demo.end()[0] == 0

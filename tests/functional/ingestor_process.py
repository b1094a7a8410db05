"""The ingestor as a separate process, which a test can kill and start again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from typing import IO, Any

from tests.functional.anvil import CHAIN_ID
from tests.functional.exchanges.exchange import TestPool
from tests.functional.market_process import ROOT, SECONDS, ApiProcess


class IngestorProcess:
    """``bin/marketdata-ingestor`` without its launcher, beside the running ``api`` in the same state directory."""

    def __init__(self, api: ApiProcess, url: str, pools: Sequence[TestPool], **content: Any) -> None:
        self._api = api
        self._process: subprocess.Popen[bytes] | None = None
        self.settings: dict[str, str] = {}
        self.log = api.state_dir / "ingestor-test.log"
        self._content = {
            "url": url, "chain": "TEST", "chain_id": CHAIN_ID, "confirmations": 12, "poll_s": 0.05,
            "requests_per_s": 5000, "pools": [pool.entry() for pool in pools], **content,
        }  # fmt: skip

    def configure(self, **content: Any) -> None:
        """Write ``rpc.json`` with these values changed. None removes a value."""
        self._content = {name: value for name, value in (self._content | content).items() if value is not None}
        path = self._api.state_dir / "secrets" / "rpc.json"
        path.write_text(json.dumps(self._content))
        path.chmod(0o600)

    def start(self) -> None:
        self.configure()
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                self._command(), cwd=ROOT, env=self._environment(), stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def run(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run the ingestor with a command that ends by itself."""
        return subprocess.run(
            self._command(*arguments), cwd=ROOT, env=self._environment() | settings,
            capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip

    def begin(self, output: IO[str] | int = subprocess.PIPE, **settings: str) -> subprocess.Popen[str]:
        """Start one more ingestor, with both outputs together. The caller ends it."""
        return subprocess.Popen(
            self._command(), cwd=ROOT, env=self._environment() | settings, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """End the process with SIGKILL."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(SECONDS)

    def stop(self) -> int:
        """End the process with SIGTERM. Returns its exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        process.terminate()
        return process.wait(SECONDS)

    def said(self) -> str:
        return self.log.read_text()

    def figures(self) -> dict[str, float]:
        """The metrics of the running process, whose settings name a port for them. The chain's label is left out."""
        address = re.findall(r"metrics: (http://127\.0\.0\.1:[0-9]+/metrics)\n", self.said())[-1]
        with urllib.request.urlopen(address, timeout=SECONDS) as answer:
            lines = [line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if line[0] != "#"]
        return {
            name.removeprefix("marketdata_ingestor_").removesuffix('{chain="TEST"}').replace('chain="TEST",', ""): (
                float(value)
            )
            for name, value in lines
        }

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-P", "-m", "marketdata", "ingestor", *arguments]

    def _environment(self) -> dict[str, str]:
        return os.environ | {
            "MARKET_STATE_DIR": str(self._api.state_dir), "API_UPSTREAM": f"http://127.0.0.1:{self._api.port}",
            **self.settings,
        }  # fmt: skip


class BackfillProcess(IngestorProcess):
    """``bin/marketdata-backfill`` without its launcher."""

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-P", "-m", "marketdata", "backfill", *arguments]

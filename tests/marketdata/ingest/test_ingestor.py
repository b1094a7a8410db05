"""The ingestor's reading step and its metrics."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from marketdata.errors import MarketError, ProviderError, UsageError
from marketdata.ingest.api_client import ApiClient
from marketdata.ingest.follower import Counts, Follower
from marketdata.ingest.ingestor import Ingestor
from marketdata.ingest.metrics import MetricsServer
from marketdata.ingest.outbox import Outbox
from marketdata.source.rpc_file import Chain, ListedPool
from tests.functional.serving import until

LISTED = tuple(ListedPool(f"T:{n}", "0x" + f"{n:02x}" * 20, "uniswap-v2", (18, 18), False, n * 100) for n in (1, 2))
FILE = Chain("T", 1, (), 4, pools=LISTED)


class NoChain:
    requests = {"node:1": 3}  # noqa: RUF012
    switches = contradicted_ranges = contradictions = unproved_blocks = 0

    def interrupt(self) -> None:
        pass

    def close(self) -> None:
        pass


@contextmanager
def ingestor_of(folder: Path, *chains: Chain) -> Iterator[Ingestor]:
    """An ingestor whose threads are not started."""
    with closing(Outbox(folder / "o.sqlite")) as outbox:
        api = ApiClient("http://127.0.0.1:9", lambda: "md_token")
        found = Ingestor(chains, lambda *_: cast("Any", NoChain()), outbox, api, "md_ticks_v1")
        yield found
        for reader in found.readers:
            reader.stop(30)


class FailingFollower:
    """Its ``fails``-th call raises ``error``."""

    counts = Counts()
    head = None
    pool_count = 0

    def __init__(self, error: MarketError, fails: int) -> None:
        self._error = error
        self._fails = fails
        self.did: list[str] = []

    def look(self) -> None:
        self._call("look")

    def read_again(self) -> None:
        pass

    def step(self) -> bool:
        self._call("step")
        return True

    def catch_up(self) -> bool:
        return False

    def _call(self, name: str) -> None:
        self.did.append(name)
        if len(self.did) == self._fails:
            raise self._error


def test_after_a_failed_step_the_head_is_read_again(tmp_path: Path) -> None:
    follower = FailingFollower(ProviderError("has no block 7: the newest block is 5"), 3)
    with ingestor_of(tmp_path, FILE) as ingestor:
        [reader] = ingestor.readers
        reader.follower = cast("Follower", follower)
        reader.start()
        until(lambda: len(follower.did) >= 5)
    assert follower.did[:5] == ["look", "step", "step", "look", "step"]


def test_metrics_without_an_outbox_answer_503(tmp_path: Path) -> None:
    with ingestor_of(tmp_path, FILE) as ingestor, ExitStack() as stack:
        server = MetricsServer(0, ingestor.metrics)
        stack.callback(server.stop)
        with urllib.request.urlopen(server.address, timeout=10) as answer:
            assert answer.status == 200
        (tmp_path / "o.sqlite").rename(tmp_path / "elsewhere")
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(server.address, timeout=10)
        assert caught.value.code == 503
        assert b"cannot be used" in caught.value.read()
        assert not (tmp_path / "o.sqlite").exists()


def test_a_fault_of_one_chain_does_not_end_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    signals: list[int] = []
    monkeypatch.setattr(os, "kill", lambda _pid, number: signals.append(number))
    error = UsageError("rpc.json: T:1 is the symbol of another pool")
    with ingestor_of(tmp_path, FILE, replace(FILE, name="OTHER")) as found:
        for reader in found.readers:
            reader.follower = cast("Follower", FailingFollower(error, 1))
        first, second = found.readers
        first.start()
        until(lambda: found.metrics().chains["T"].failed)
        assert (found.error, signals, found.metrics().chains["OTHER"].failed) == (None, [], 0)
        assert "T: rpc.json: T:1 is the symbol of another pool. This chain is read again after a restart" in caplog.text
        second.start()
        until(lambda: signals)
        assert found.error is error
        assert len(signals) == 1

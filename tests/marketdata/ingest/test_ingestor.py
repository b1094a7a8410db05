"""The ingestor's reading step and its metrics."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from marketdata.errors import ProviderError, UsageError
from marketdata.ingest.api_client import ApiClient
from marketdata.ingest.follower import Follower
from marketdata.ingest.ingestor import Ingestor
from marketdata.ingest.metrics import MetricsServer
from marketdata.ingest.outbox import Outbox
from marketdata.source.rpc_file import Chain, ListedPool

LISTED = tuple(ListedPool(f"T:{n}", "0x" + f"{n:02x}" * 20, "uniswap-v2", (18, 18), False, n * 100) for n in (1, 2))
FILE = Chain("T", 1, (), 4, pools=LISTED)


class NoChain:
    requests = {"node:1": 3}  # noqa: RUF012
    switches = contradicted_ranges = 0


@pytest.fixture
def ingestor(tmp_path: Path) -> Iterator[Ingestor]:
    with closing(Outbox(tmp_path / "o.sqlite")) as outbox:
        api = ApiClient("http://127.0.0.1:9", lambda: "md_token")
        found = Ingestor([FILE], lambda *_: cast("Any", NoChain()), outbox, api, "md_ticks_v1")
        yield found
        found.readers[0]._outbox.close()  # stop() would close it, but this ingestor was never started


class FailingFollower:
    """Its second step fails."""

    def __init__(self) -> None:
        self.did: list[str] = []

    def look(self) -> None:
        self.did.append("look")

    def step(self) -> bool:
        self.did.append("step")
        if self.did.count("step") == 2:
            raise ProviderError("has no block 7: the newest block is 5")
        return True

    def catch_up(self) -> bool:
        return False


def test_after_a_failed_step_the_head_is_read_again(ingestor: Ingestor) -> None:
    follower = FailingFollower()
    [reader] = ingestor.readers
    reader.follower = cast("Follower", follower)
    reader._step()
    with pytest.raises(ProviderError):
        reader._step()
    reader._step()
    assert follower.did == ["look", "step", "step", "look", "step"]


def test_metrics_without_an_outbox_answer_503(ingestor: Ingestor, tmp_path: Path) -> None:
    server = MetricsServer(0, ingestor.metrics)
    try:
        with urllib.request.urlopen(server.address, timeout=10) as answer:
            assert answer.status == 200
        (tmp_path / "o.sqlite").rename(tmp_path / "elsewhere")
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(server.address, timeout=10)
        assert caught.value.code == 503
        assert b"cannot be used" in caught.value.read()
        assert not (tmp_path / "o.sqlite").exists()
    finally:
        server.stop()


def test_a_fault_of_one_chain_does_not_end_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    signals: list[int] = []
    monkeypatch.setattr(os, "kill", lambda _pid, number: signals.append(number))
    chains = [FILE, replace(FILE, name="OTHER")]
    with closing(Outbox(tmp_path / "o.sqlite")) as outbox:
        api = ApiClient("http://127.0.0.1:9", lambda: "md_token")
        found = Ingestor(chains, lambda *_: cast("Any", NoChain()), outbox, api, "md_ticks_v1")
        found.readers[0]._worker._fatal(UsageError("rpc.json does not fit the chain"))
        assert (found.error, signals) == (None, [])
        assert "T: rpc.json does not fit the chain. This chain is read again after a restart" in caplog.text
        assert [found.metrics().chains[name].failed for name in ("T", "OTHER")] == [1, 0]
        found.readers[1]._worker._fatal(UsageError("neither does this one"))
        assert found.error is not None
        assert len(signals) == 1
        for reader in found.readers:
            reader._outbox.close()

"""The forecast of ``bin/marketdata-ingestor check``, against a backfill that is then counted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from marketdata.ingest import check
from marketdata.ingest.api_client import ApiClient
from marketdata.ingest.backfill.coordinator import Backfill
from marketdata.ingest.outbox import Outbox
from marketdata.source import rpc_file
from tests.functional.serving import until
from tests.marketdata.ingest.test_backfill import Api
from tests.marketdata.source.provider import error
from tests.marketdata.source.synthetic_chain import SyntheticChain

HEAD = 6_002


class UnevenChain(SyntheticChain):
    """One block in ``spacing`` has a swap. Without ``names_times`` its logs name no time. A refusal of more blocks than
    ``most`` names that number if ``suggests``."""

    def __init__(self, spacing: int, most: int = 10**9, *, suggests: bool = True, names_times: bool = True) -> None:
        super().__init__(HEAD, swaps=1, most=most)
        self.spacing, self.suggests = spacing, suggests
        self.unnamed = {} if names_times else {"blockTimestamp": "0x0"}

    def logs(self, number: int) -> list[dict[str, Any]]:
        return [] if number % self.spacing else [log | self.unnamed for log in super().logs(number)]

    def _answer(self, request: Any) -> Any:
        found = super()._answer(request)
        is_refusal = "exceeds limit" in json.dumps(found)[:200]
        return error(request, "block range is too large") if is_refusal and not self.suggests else found

    def calls(self) -> int:
        return sum(len(request) if isinstance(request, list) else 1 for _, request in self.asked)


def chain_of(folder: Path, server: SyntheticChain, **content: Any) -> rpc_file.Chain:
    found = {name: value for name, value in server.rpc_file(**content).items() if value is not None}
    (folder / "rpc.json").write_text(json.dumps(found))
    (folder / "rpc.json").chmod(0o600)
    [chain] = rpc_file.load(folder / "rpc.json", warn=print)
    return chain


CHAINS: tuple[tuple[Callable[[], UnevenChain], int, int], ...] = (
    (lambda: UnevenChain(3), 30, 100_000),
    (lambda: UnevenChain(50, most=700, suggests=False), 120, 120),  # more threads would meet the limit
    (lambda: UnevenChain(100, names_times=False), 90, 100_000),
)
"""Each with the ``requests_per_s`` of its forecast and of its backfill."""


def test_the_forecast_is_within_a_quarter_of_the_backfill(tmp_path: Path) -> None:
    for number, (server, per_second, backfill_per_second) in enumerate(CHAINS):
        with closing(server()) as chain, closing(Api()) as api:
            lines = list(check.lines(chain_of(tmp_path, chain, requests_per_s=per_second), tmp_path))
            assert len(chain.asked) <= 30
            assert not [line for line in lines if line.startswith(check.WRONG)]
            said = re.fullmatch(
                r"  since block 0 \(20 h 0 min\): (\d+) s, ([\d ]+) requests for 6 000 blocks and about ([\d ]+) "
                rf"swaps \(limited by requests_per_s {per_second}\)",
                lines[-1],
            )
            assert said is not None, lines
            seconds, calls, swaps = (int(each.replace(" ", "")) for each in said.groups())
            assert swaps == pytest.approx(6_000 / chain.spacing, rel=0.05)
            assert seconds == pytest.approx(calls / per_second, rel=0.1, abs=1), lines
            chain.asked.clear()
            file, path = chain_of(tmp_path, chain, requests_per_s=backfill_per_second), tmp_path / f"{number}.sqlite"
            Outbox(path).close()
            work = Backfill(file, path, lambda api=api: ApiClient(api.url, lambda: "token"), "t")
            work.start()
            until(lambda work=work: work.finished, 60)
            work.stop()
            assert (work.error, work.counts.blocks) == (None, HEAD - 1)
            assert chain.calls() == pytest.approx(calls, rel=0.25), number


def test_a_duration_has_at_most_two_units() -> None:
    texts = {
        0.2: "1 s",
        59.4: "59 s",
        60: "1 min",
        90: "2 min",
        4200: "1 h 10 min",
        86_400: "24 h 0 min",
        200_000: "2 d",
    }
    assert {seconds: check.duration(seconds) for seconds in texts} == texts

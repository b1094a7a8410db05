"""The backfill: its plan compared with a brute-force plan, and failures of the provider and the API over real HTTP."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marketdata.ingest.api_client import ApiClient
from marketdata.ingest.backfill import plan
from marketdata.ingest.backfill.cli import Progress
from marketdata.ingest.backfill.coordinator import Backfill
from marketdata.ingest.backfill.plan import Plan
from marketdata.ingest.outbox import Outbox
from marketdata.source import rpc_file, swaps
from marketdata.source.evm import Log
from marketdata.source.pools.pool import Pool
from tests.functional.serving import until
from tests.marketdata.source.provider import Provider, Raw, error
from tests.marketdata.source.synthetic_chain import BLOCK_S, START, SyntheticChain

_BLOCK = st.integers(0, 30)
_RANGES = st.lists(st.tuples(_BLOCK, _BLOCK).map(sorted).map(tuple), max_size=4)


@given(st.dictionaries(st.sampled_from("abc"), st.tuples(_BLOCK, _BLOCK, _RANGES)), st.integers(1, 9))
def test_every_missing_block_is_handed_out_once(pools: dict[str, Any], most: int) -> None:
    wanted, gaps = set(), {}
    for symbol, (first, last, done) in pools.items():
        blocks = set(range(first, last + 1)).difference(*(range(low, high + 1) for low, high in done))
        wanted |= {(block, symbol) for block in blocks}
        gaps[symbol] = plan.gaps(first, last, sorted(done))
    left = Plan(plan.spans(gaps))
    assert left.blocks == len({block for block, _ in wanted})
    taken = []
    again = True
    while (span := left.take(most)) is not None:
        assert span.blocks <= most
        if again := not again:
            left.give_back(span)
            assert left.first() == span.first
        else:
            taken.append(span)
    merged = plan.merged(reversed(taken))
    for spans in (taken, merged):
        found = [(block, name) for span in spans for block in range(span.first, span.last + 1) for name in span.symbols]
        assert sorted(found) == sorted(wanted)
    assert not {(span.symbols, span.last + 1) for span in merged} & {(span.symbols, span.first) for span in merged}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Api(Provider):
    """Stores everything, or answers with ``failure``."""

    def __init__(self) -> None:
        super().__init__(lambda *_: None)
        self.failure: Raw | None = None
        self.ids: list[str] = []
        self.rejected: list[dict[str, Any]] = []
        self.covered: list[tuple[int, int]] = []
        self.states: list[str] = []
        self.finalized: list[int] = []

    def respond(self, method: str, path: str, body: bytes) -> Any:
        if path == "/ready":
            return {"ready": True, "ticks_table": "t"}
        if self.failure is not None:
            return self.failure
        if path == "/v1/coverage":
            found = json.loads(body)
            self.covered.append((found["from"], found["to"]))
            self.states.append(found["state"])
            return found
        items = [json.loads(line) for line in body.splitlines()]
        self.ids += [each["id"] for each in items if "id" in each]
        self.finalized += [each["finalize"]["block"] for each in items if "finalize" in each]
        rejected = self.rejected if "id" in items[0] else []
        return {"accepted": len(items) - len(rejected), "duplicates": 0, "rejected": rejected}


@pytest.fixture
def api() -> Iterator[Api]:
    with closing(Api()) as found:
        yield found


@pytest.fixture
def chain() -> Iterator[SyntheticChain]:
    with closing(SyntheticChain(head=202, swaps=1, most=30)) as found:
        yield found


def backfill(
    folder: Path, chain: SyntheticChain, api: Api, *blocks: int | None, retry_s: float = 10, **content: Any
) -> Backfill:
    """A finished backfill of ``blocks``, the first and the last one. ``content`` changes ``rpc.json``."""
    (folder / "rpc.json").write_text(json.dumps(chain.rpc_file(**content)))
    (folder / "rpc.json").chmod(0o600)
    [file] = rpc_file.load(folder / "rpc.json", warn=print)
    Outbox(folder / "o.sqlite").close()
    work = Backfill(
        file, folder / "o.sqlite", lambda: ApiClient(api.url, lambda: "token"), "t", *blocks, retry_s=retry_s
    )
    work.start()
    until(lambda: work.finished)
    work.stop()
    return work


def test_the_backfill_adapts_to_a_provider_with_small_ranges(tmp_path: Path, chain: SyntheticChain, api: Api) -> None:
    work = backfill(tmp_path, chain, api)
    assert work.error is None
    assert (work.counts.blocks, work.counts.new, work.next_block) == (201, 201, None)
    progress = Progress(work, "T", terminal := Terminal())
    progress.show()
    progress.clear()
    assert re.search(r"T \[#+\] +100%  201 of 201 blocks  [\d,]+ ticks/s  (--:--|\d+:\d\d) left", terminal.getvalue())
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert len(api.ids) == len(set(api.ids)) == 201
    assert api.finalized == [200]
    covered = sorted(api.covered)
    assert all(one[1] >= other[0] for one, other in pairwise(covered))
    assert (covered[0][0], covered[-1][1]) == (START * 1000, (START + 201 * BLOCK_S) * 1000)


def test_pruned_ticks_are_counted_and_no_dead_letters(tmp_path: Path, chain: SyntheticChain, api: Api) -> None:
    api.rejected = [{"index": 0, "code": "pruned", "detail": "why"}]
    work = backfill(tmp_path, chain, api)
    assert (work.error, work.counts.dead) == (None, 0)
    assert work.counts.pruned == work.counts.ticks - work.counts.new > 0
    assert f", {work.counts.pruned} not stored, because ticks of " in Progress(work, "T", None).summary()
    with closing(Outbox(tmp_path / "o.sqlite")) as outbox:
        assert outbox.count_dead_letters() == 0


class Unreadable(SyntheticChain):
    """The data of its events is of no swap."""

    def logs(self, number: int) -> list[dict[str, Any]]:
        return [log | {"data": "0x00"} for log in super().logs(number)]


def test_a_range_of_which_every_log_was_discarded_is_not_indexed(
    tmp_path: Path, api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(Unreadable(head=202, swaps=1)) as chain:
        work = backfill(tmp_path, chain, api)
    assert (work.error, work.counts.skipped) == (None, {"not_a_swap": 201})
    assert set(api.states) == {"failed"}
    assert "SYN:A-B: blocks 0 to 11 are not indexed: all 12 logs were discarded, the last one because" in caplog.text
    with closing(SyntheticChain(head=202, swaps=1)) as chain:  # the kind of the pool was corrected
        assert backfill(tmp_path, chain, api).counts.new == 201
    assert api.states[-1] == "indexed"


def test_no_block_is_requested_twice(tmp_path: Path, api: Api) -> None:
    with closing(SyntheticChain(head=202, swaps=1)) as chain:
        assert backfill(tmp_path, chain, api).error is None
        calls = [call for _, asked in chain.asked for call in (asked if isinstance(asked, list) else [asked])]
    ranges = sum(call["method"] == "eth_getLogs" for call in calls)
    blocks = sum(call["method"] == "eth_getBlockByNumber" for call in calls)
    # The newest block; of each range its first block, the block after it and a sample of two; and the last block, to
    # report it as final.
    assert ranges > 1
    assert blocks == 1 + 4 * ranges + 1


def test_a_backfill_without_progress_gives_up_and_the_next_run_resumes(
    tmp_path: Path, chain: SyntheticChain, api: Api
) -> None:
    api.failure = Raw(b'{"detail": "not now"}', 503)
    work = backfill(tmp_path, chain, api, retry_s=0.3)
    assert work.error is not None
    assert "HTTP status 503: not now" in work.error.detail
    assert work.next_block == 0
    api.failure = None
    assert backfill(tmp_path, chain, api).error is None
    assert len(api.ids) == len(set(api.ids)) == 201


def test_the_backfill_survives_a_provider_failure_in_the_middle(
    tmp_path: Path, chain: SyntheticChain, api: Api
) -> None:
    respond, answered = chain.answer, 0

    def answer(request: Any, headers: dict[str, str]) -> Any:
        nonlocal answered
        if "eth_getLogs" in json.dumps(request):
            answered += 1
            if answered > 4:
                return error(request, "no such luck")
        return respond(request, headers)

    chain.answer = answer
    work = backfill(tmp_path, chain, api, retry_s=0.3)
    assert work.error is not None
    assert "no such luck" in work.error.detail
    assert work.next_block is not None
    chain.answer = respond
    assert backfill(tmp_path, chain, api).error is None
    assert set(api.ids) == {f"0x{number + 1:064x}:0" for number in range(201)}


def test_a_swap_becomes_a_tick() -> None:
    pool = Pool("T:A-B", "0x" + "11" * 20, "uniswap-v2", (18, 6), True, 0)
    data = b"".join(number.to_bytes(32, "big") for number in (5 * 10**17, 0, 0, 1_234_567))
    log = Log(pool.address, (), data, 12, "0x" + "ab" * 32, "0x" + "cd" * 32, 3, 1_700_000_000)
    assert json.loads(swaps.tick_json(pool, log)) == {
        "symbol": "T:A-B",
        "id": f"{log.block_hash}:3",
        "ts": 1_700_000_000_000,
        "seq": (12 << 20) + 3,
        "price": "0.405000295650215824657552000013",
        "size": "1.234567",
        "side": "buy",
        "block": {"number": 12, "hash": log.block_hash},
        "tx": log.transaction,
    }


LATER = "newer blocks are not final yet: run it again later, or let bin/marketdata-ingestor follow the chain"
IDLE: tuple[tuple[int, int | None, int | None, str], ...] = (
    (0, None, None, f"the blocks 0 to 200 are stored, and {LATER}"),
    (0, 205, 210, "block 205 is not final yet, the newest final block is 200: run it again later"),
    (0, 195, 210, f"the blocks 195 to 200 are stored, and {LATER}"),
    (0, 195, 198, "the blocks 195 to 198 are stored"),
    (10**6, None, None, "block 1,000,000 is after the newest block, 212: correct start_block in rpc.json, or "
                        "--from-block"),
    (150, None, 100, "its start_block 150 is after --to-block 100: give a later --to-block"),
)  # fmt: skip
"""The pool's ``start_block``, the first and the last block, and what the second backfill reports."""


def test_without_blocks_to_read_the_cause_and_the_remedy_are_reported(tmp_path: Path, api: Api) -> None:
    with closing(SyntheticChain(head=212, swaps=1)) as chain:
        [pool] = chain.rpc_file()["pools"]

        def said(start: int, *blocks: int | None) -> str:
            work = backfill(tmp_path, chain, api, *blocks, confirmations=12, pools=[pool | {"start_block": start}])
            assert work.error is None
            return Progress(work, "SYN", None).summary()

        assert said(0, 195, 210).endswith("; --to-block 210 is not final yet: run it again later")
        assert "SYN: 195 blocks up to block 200 read in " in said(0)
        for start, first, last, cause in IDLE:
            assert said(start, first, last) == f"SYN: nothing to read: SYN:A-B: {cause}"

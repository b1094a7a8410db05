"""What a backfill without blocks to read reports: the cause and the remedy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from marketdata.ingest.api_client import ApiClient
from marketdata.ingest.backfill.cli import Progress
from marketdata.ingest.backfill.coordinator import Backfill
from marketdata.ingest.chain_cursor import ChainCursor
from marketdata.ingest.outbox import Outbox
from marketdata.source import rpc_file
from marketdata.source.pools.pool import Pool
from tests.functional.serving import until
from tests.marketdata.ingest.test_backfill import Api
from tests.marketdata.source.synthetic_chain import SyntheticChain

NEWEST, FINAL = 212, 200
Said = Callable[..., str]


@pytest.fixture
def said(tmp_path: Path) -> Iterator[Said]:
    """Runs a backfill of a chain whose newest block is ``NEWEST``; returns its line."""
    with closing(Api()) as api, closing(SyntheticChain(head=NEWEST, swaps=1)) as chain:

        def run(
            start_block: int = 0,
            first: int | None = None,
            last: int | None = None,
            *,
            began: int = 0,
            **content: object,
        ) -> str:
            """``began`` is the block where the ingestor began; 0 means that none ran. ``content`` replaces parts of
            ``rpc.json``."""
            file = tmp_path / "rpc.json"
            described = chain.rpc_file() | {"confirmations": NEWEST - FINAL}
            described["pools"][0]["start_block"] = start_block
            file.write_text(json.dumps(described | content))
            file.chmod(0o600)
            [found] = rpc_file.load(file, warn=print)
            with closing(Outbox(tmp_path / "o.sqlite")) as outbox:
                if began:
                    pool = found.pools[0]
                    cursor = ChainCursor(outbox, "SYN")
                    cursor.begin_at([began])
                    cursor.enter([Pool(pool.symbol, pool.address, pool.kind, (18, 18), False, began)])
            work = Backfill(found, tmp_path / "o.sqlite", lambda: ApiClient(api.url, lambda: "token"), "t", first, last)
            progress = Progress(work, found.name, None)
            work.start()
            until(lambda: work.finished)
            work.stop()
            assert work.error is None
            return progress.summary()

        yield run


LATER = "newer blocks are not final yet: run it again later, or let bin/marketdata-ingestor follow the chain"


def test_everything_is_stored(said: Said) -> None:
    assert "SYN: 150 blocks up to block 149 read in " in said(began=150)
    assert said(began=150) == (
        "SYN: nothing to read: SYN:A-B: the blocks 0 to 149 are stored, and the ingestor reads from there on"
    )


def test_everything_is_stored_and_no_ingestor_ran(said: Said) -> None:
    assert "SYN: 201 blocks up to block 200 read in " in said()
    assert said() == f"SYN: nothing to read: SYN:A-B: the blocks 0 to 200 are stored, and {LATER}"
    assert said(0, 205, 210) == (
        "SYN: nothing to read: SYN:A-B: block 205 is not final yet, the newest final block is 200: run it again later"
    )
    assert said(0, 195, 210) == f"SYN: nothing to read: SYN:A-B: the blocks 195 to 200 are stored, and {LATER}"
    assert said(0, 195, 198) == "SYN: nothing to read: SYN:A-B: the blocks 195 to 198 are stored"


def test_a_part_of_the_last_blocks_is_not_final(said: Said) -> None:
    assert said(0, 195, 210).endswith("; --to-block 210 is not final yet: run it again later")


def test_the_pool_begins_where_nothing_is_to_read(said: Said) -> None:
    assert said(1_000_000) == (
        "SYN: nothing to read: SYN:A-B: block 1,000,000 is after the newest block, 212: "
        "correct start_block in rpc.json, or --from-block"
    )
    assert said(150, None, 100) == (
        "SYN: nothing to read: SYN:A-B: its start_block 150 is after --to-block 100: give a later --to-block"
    )
    assert said(100, began=100) == (
        "SYN: nothing to read: SYN:A-B: the ingestor began at block 100 and reads from there on: an earlier "
        "start_block in rpc.json, or --from-block, reads what was before"
    )


def test_no_pool_of_a_factory_is_known(said: Said) -> None:
    factory = {"kind": "uniswap-v2", "address": "0x" + "fa" * 20, "start_block": 0}
    assert said(pools=[], factories=[factory]) == (
        "SYN: nothing to read: no pool of its factories is known yet. Run bin/marketdata-ingestor first: it finds the "
        "pools, and bin/marketdata-ingestor pools lists them"
    )

"""What ``bin/marketdata-ingestor pools`` shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from marketdata.ingest import pool_list
from tests.marketdata.ingest.test_discovery import FACTORY, SOURCE, UNREADABLE, FactoryRun, WaitingRun


@pytest.fixture
def run(tmp_path: Path) -> Iterator[FactoryRun]:
    with closing(FactoryRun(tmp_path, 2)) as found:
        found.chain.extend(60)
        found.finish()
        yield found


def shown(run: FactoryRun, **changed: Any) -> dict[str, str]:
    """The last column of each line, by the pool's address, with another factory in ``rpc.json``."""
    source = replace(SOURCE, factories=(replace(SOURCE.factories[0], **changed),))
    now = run.chain.blocks[-1].header.time + 90
    heading, *lines, _ = pool_list.lines(run.outbox, [source], None, now)
    at = heading.index("ADDRESS")
    return {line[at : at + 42]: line[at + 42 :] for line in lines}


def test_each_pool_is_shown_with_its_trades_and_its_lag(run: FactoryRun) -> None:
    chain = run.chain
    address, symbol = next(iter(chain.symbols().items()))
    lines = list(pool_list.lines(run.outbox, [SOURCE], "T", run.chain.blocks[-1].header.time + 90))
    [line] = [each for each in lines if address in each]
    trades = sum(each == symbol for each, _ in chain.ids())
    [block] = [block.header.number for block, each, _ in chain.created() if each == address]
    assert line.split()[:1] == [symbol]
    assert line.split()[-5:] == [str(block), str(trades), "1", "min", address]
    readable = len(chain.symbols())
    assert lines[-1] == f"{readable} pools are read, {len(chain.created()) - readable} are not"


def test_a_pool_that_is_not_read_is_shown_with_the_reason(run: FactoryRun) -> None:
    created = run.chain.created()
    unreadable = {address for _, address, tokens in created if UNREADABLE in tokens}
    readable = [(address, tokens) for _, address, tokens in created if address not in unreadable]
    assert unreadable
    for address, end in shown(run).items():
        assert ("does not say its decimals" in end) == (address in unreadable)
        assert (end == "") == (address not in unreadable)
    (address, tokens), *_ = readable
    assert shown(run, exclude=frozenset([address]))[address] == "  not read: it is in exclude"
    assert shown(run, exclude=frozenset(tokens[:1]))[address] == "  not read: one of its tokens is in exclude"
    assert (
        shown(run, tokens=frozenset([FACTORY]))[address] == "  not read: none of its tokens is in the factory's tokens"
    )
    assert shown(run, address="0x" + "99" * 20)[address] == "  not read: rpc.json does not name its factory"


def test_a_pool_with_too_few_swaps_is_shown_with_their_number(tmp_path: Path) -> None:
    with closing(WaitingRun(tmp_path, 2, 1000)) as run:
        run.finish()
        ends = shown(run, min_trades=1000).values()
        assert any(" of the 1000 swaps of min_trades" in end for end in ends)
        assert "  not read: it is read from the next start of the ingestor on" in shown(run).values()

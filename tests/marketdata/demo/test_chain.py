"""The demo's chain depends only on the seed, is consistent at every moment, and has plausible trades."""

from __future__ import annotations

import hashlib
import json
import random
from itertools import pairwise
from typing import Any

import pytest

from marketdata.demo.chain import BLOCK_S, DAY, HISTORY, MAX_DEPTH, POOLS, RECENT, Blocks, DemoProvider
from marketdata.errors import ProviderError
from marketdata.source import pool_check, swaps
from marketdata.source.evm import Log
from marketdata.source.log_filter import swap_filter
from marketdata.source.rpc_file import ETHER

SEED, GENESIS = bytes(range(32)), 1_790_000_000
WANTED = swap_filter(each.pool for each in POOLS)
BY_ADDRESS = {each.pool.address: each.pool for each in POOLS}
SYMBOLS = [each.pool.symbol for each in POOLS]


@pytest.fixture(scope="module")
def blocks() -> Blocks:
    return Blocks(SEED, GENESIS)


class Clock:
    """The time at which ``head`` is the newest block."""

    def __init__(self, head: int) -> None:
        self.head = head

    def __call__(self) -> float:
        return GENESIS + self.head * BLOCK_S + 1.9


def ticks(logs: list[Log]) -> list[dict[str, Any]]:
    return [json.loads(swaps.tick_json(BY_ADDRESS[log.address], log)) for log in logs]


def live(blocks: Blocks, first: int, count: int) -> list[dict[str, Any]]:
    return ticks(DemoProvider(blocks, Clock(0)).logs_between(first, first + count - 1, WANTED, ())[0])


def reorganisations(blocks: Blocks, first: int, count: int) -> list[tuple[int, int]]:
    """The newest block and the depth of each reorganisation in these blocks."""
    found = []
    for head in range(first, first + count):
        recent = range(head - 2 * MAX_DEPTH, head)
        changed = [n for n in recent if blocks.is_abandoned(n, head - 1) != blocks.is_abandoned(n, head)]
        if changed:
            found.append((head, len(changed)))
    return found


def test_the_chain_of_a_seed_never_changes() -> None:
    """The chain must not change, because a database may hold its ticks. The digest is from the first release."""
    digest = hashlib.sha256()
    for first in (0, HISTORY - RECENT - 600, HISTORY - 300, HISTORY + 12_345_678):
        made = live(Blocks(SEED, GENESIS), first, 1000)
        assert len(made) > 10
        digest.update(json.dumps(made).encode())
    assert digest.hexdigest() == "a58ba097ed143915d272cadfe260dd35b21c1df4d19a2ebb491826f07d21cf15"


def test_a_restart_has_the_same_chain(blocks: Blocks) -> None:
    again = DemoProvider(Blocks(SEED, GENESIS), Clock(HISTORY + 5000))
    numbers = range(HISTORY - 50, HISTORY + 4000)
    before = DemoProvider(blocks, Clock(HISTORY + 4000 + MAX_DEPTH))
    assert again.headers(numbers) == before.headers(numbers)
    asked = (numbers[0], numbers[-1], WANTED, (numbers[0], numbers[-1]))
    assert again.logs_between(*asked) == before.logs_between(*asked)
    other = DemoProvider(Blocks(bytes(32), GENESIS), Clock(HISTORY + 5000))
    assert not {header.hash for header in other.headers(numbers)} & {header.hash for header in again.headers(numbers)}


def test_parents_link_up_at_every_moment(blocks: Blocks) -> None:
    provider = DemoProvider(blocks, clock := Clock(0))
    moments = [*range(3), *range(HISTORY - 5, HISTORY + 3000)]
    for clock.head in moments:
        newest, final = provider.head(with_finalized=True)
        headers = provider.headers(range(max(0, clock.head - 2 * MAX_DEPTH), clock.head + 1))
        assert headers[-1] == newest
        assert newest.number == clock.head
        assert final == max(0, clock.head - MAX_DEPTH)
        for parent, child in pairwise(headers):
            assert (child.parent, child.number, child.time) == (parent.hash, parent.number + 1, parent.time + BLOCK_S)


def test_calls_before_and_after_a_reorganisation_see_different_blocks(blocks: Blocks) -> None:
    provider = DemoProvider(blocks, clock := Clock(0))
    for clock.head, depth in reorganisations(blocks, HISTORY, 3000):
        numbers = range(clock.head - depth - 1, clock.head + 1)
        after = provider.headers(numbers)
        clock.head -= 1
        before = provider.find_headers(numbers)
        assert before.pop() is None  # the newest block did not exist before
        old = [header for header in before if header is not None]
        assert old[0] == after[0]
        assert not {each.hash for each in old[1:]} & {each.hash for each in after}
        # The provider still knows the replaced blocks by their hashes. Their trades differ from the new blocks'.
        for header, logs in zip(old + after, provider.logs_of(old + after, WANTED), strict=True):
            assert bool(logs) == header.has_transactions
            assert all(log.block_hash == header.hash for log in logs)
        gone, new = ([log.data for logs in provider.logs_of(each[1:], WANTED) for log in logs] for each in (old, after))
        assert not set(gone) & set(new)


def test_a_future_block_is_refused(blocks: Blocks) -> None:
    provider = DemoProvider(blocks, Clock(100))
    assert provider.find_headers([101]) == [None]
    with pytest.raises(ProviderError, match="no block 101"):
        provider.headers([100, 101])


def test_a_range_has_the_logs_of_its_blocks(blocks: Blocks) -> None:
    provider, chance = DemoProvider(blocks, Clock(2 * HISTORY)), random.Random(5)
    for middle in (0, HISTORY - RECENT, HISTORY, HISTORY + DAY):
        for _ in range(5):
            first = max(0, middle - chance.randrange(300))
            last = first + chance.randrange(600)
            logs, headers = provider.logs_between(first, last, WANTED, (first, last + 1))
            each = [log for number in range(first, last + 1) for log in blocks.logs(number, WANTED)]
            assert logs == each
            assert headers == {number: blocks.header(number) for number in (first, last + 1)}
            assert {log.block for log in each} == {blocks.header(log.block_number).block for log in each}
            assert all(blocks.header(log.block_number).has_transactions for log in each)
            assert len({(log.block_number, log.position) for log in logs}) == len(logs)
    only, _ = provider.logs_between(HISTORY, HISTORY + 300, swap_filter([POOLS[0].pool]), ())
    assert {log.address for log in only} == {POOLS[0].pool.address}


def test_the_pools_pass_the_check(blocks: Blocks) -> None:
    for pool in BY_ADDRESS.values():
        found = pool_check.compare(DemoProvider(blocks, Clock(0)), pool, ETHER)
        assert found.faults == ()
        assert all(name in found.text for name in pool.symbol.partition(":")[2].split("-"))
        assert pool.symbol.startswith("DEMO:")

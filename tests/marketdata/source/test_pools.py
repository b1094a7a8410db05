"""The events of each kind of pools: swaps, and the creation of pools."""

from __future__ import annotations

import math

import pytest

from marketdata.source.evm import Log
from marketdata.source.pools import KINDS
from marketdata.source.pools.pool import NATIVE, Creation, Pool, PoolIndex

E18 = 10**18
AT_2500 = math.isqrt(2500 << 192)
FACTORY, POOL, A, B = ("0x" + digits * 20 for digits in ("fa", "90", "0a", "0b"))
ID = "0x" + "1d" * 32
TOPICS = {
    # The values that block explorers show.
    "uniswap-v2": ("0xd78ad95fa46c994b6551d0da85fc275fe613ce37657fb8d5e3d130840159d822",),
    "uniswap-v3": ("0xc42079f94a6350d7e6235f29174924f928cc2ac818eb64fed8004e115fbcca67",),
    "pancakeswap-v3": ("0x19b47279256b2a23a1665c810c8d55a1758940ee09377d4f8d26497a3577dc83",),
    "solidly": (
        "0xd78ad95fa46c994b6551d0da85fc275fe613ce37657fb8d5e3d130840159d822",
        "0xb3e2773606abfd36b5bd91394b3a54d1398336c65005baf7bf7a05efeffaf75b",
    ),
    "uniswap-v4": ("0x40e9cecb9f5f1f1c5b9c97dec2917b7ee92e57ba5563708daca94dd84ad7112f",),
}
CREATIONS = {
    "uniswap-v2": ("0x0d3648bd0f6ba80134a33ba9275ac585d9d315f0ad8355cddefde31afa28d0e9",),
    "uniswap-v3": ("0x783cca1c0412dd0d695e784568c96da2e9c22ff989357a2e8b1d9b2b4e6b7118",),
    "pancakeswap-v3": ("0x783cca1c0412dd0d695e784568c96da2e9c22ff989357a2e8b1d9b2b4e6b7118",),
    "solidly": (
        "0xc4805696c66d7cf352fc1d6bb633ad5ee82f6cb577c453024b6e0eb8306c6fc9",
        "0x2128d88d14c80cb081c1252a5acff7a264671bf199ce226b53788fb26065005e",
    ),
    "uniswap-v4": ("0xdd466e674ea557f56295e2d0218a125ea4b4f0f6f3307b95f85e6110838d6438",),
}


def words(*numbers: int) -> bytes:
    return b"".join((number % (1 << 256)).to_bytes(32, "big") for number in numbers)


def created(kind: str, indexed: tuple[int, ...], *data: int, event: int = 0) -> Creation:
    topics = (CREATIONS[kind][event], *(f"0x{word:064x}" for word in indexed))
    log = Log(FACTORY, topics, words(*data), 5, "0x" + "bb" * 32, "0x" + "cc" * 32, 0, 0)
    return KINDS[kind].creations[topics[0]](log)


def test_the_events_have_their_published_topics() -> None:
    assert {name: kind.swap_topics for name, kind in KINDS.items()} == TOPICS
    assert {name: tuple(kind.creations) for name, kind in KINDS.items()} == CREATIONS


def test_a_swap_of_v2_and_solidly_is_the_difference_of_both_amounts() -> None:
    """A flash swap takes and returns the same token."""
    for kind in ("uniswap-v2", "solidly"):
        assert KINDS[kind].decode(words(7 * E18, 0, 2 * E18, 9 * E18)) == (5 * E18, -9 * E18)


def test_pancakeswap_has_two_more_words_than_uniswap_v3() -> None:
    tail = (1, -5, 10, 20)
    assert KINDS["pancakeswap-v3"].decode(words(2 * E18, -5000 * E18, AT_2500, *tail)) == (2 * E18, -5000 * E18)
    with pytest.raises(ValueError, match="contradict"):
        KINDS["pancakeswap-v3"].decode(words(2 * E18, -2000 * E18, AT_2500, *tail))


def v4(amount0: int, amount1: int, fee: int, root: int = AT_2500) -> bytes:
    return words(amount0, amount1, root, 1, -5, fee)


def test_the_amounts_of_uniswap_v4_are_those_of_the_caller() -> None:
    decode = KINDS["uniswap-v4"].decode
    assert decode(v4(-2 * E18, 5000 * E18, 3000)) == (2 * E18, -5000 * E18)
    assert decode(v4(2 * E18, -5000 * E18, 3000)) == (-2 * E18, 5000 * E18)
    for amount0, amount1 in ((1 << 127, -1), (-1, -(1 << 127) - 1)):
        with pytest.raises(ValueError, match="128 bits"):
            decode(v4(amount0, amount1, 3000))


def test_the_price_check_of_uniswap_v4_allows_the_fee_of_the_swap() -> None:
    decode = KINDS["uniswap-v4"].decode
    assert decode(v4(-2 * E18, 2500 * E18, 500_000)) == (2 * E18, -2500 * E18)
    assert decode(v4(2 * E18, -10_000 * E18, 500_000)) == (-2 * E18, 10_000 * E18)
    assert decode(v4(-2 * E18, E18, 1_000_000)) == (2 * E18, -E18)
    for amounts in ((-2 * E18, 4800 * E18), (2 * E18, -5200 * E18)):
        with pytest.raises(ValueError, match="contradict"):
            decode(v4(*amounts, 3000))
    with pytest.raises(ValueError, match="fee of more than 100 %"):
        decode(v4(-2 * E18, 5000 * E18, 1_000_001))


def test_data_of_another_event_is_refused() -> None:
    sizes = {"uniswap-v2": 4, "uniswap-v3": 5, "pancakeswap-v3": 7, "solidly": 4, "uniswap-v4": 6}
    for kind, right in sizes.items():
        for size in {*range(9)} - {right}:
            with pytest.raises(ValueError, match="bytes of data"):
                KINDS[kind].decode(words(*[1] * size))
        for topic in range(len(CREATIONS[kind])):
            with pytest.raises(ValueError, match="topics instead of"):
                created(kind, (1,), 0, 0, event=topic)
            indexed = (1, 2) if kind in ("uniswap-v2", "solidly") and topic == 0 else (1, 2, 3)
            with pytest.raises(ValueError, match="bytes of data"):
                created(kind, indexed, 0, event=topic)


def test_the_creations_of_pools_are_decoded() -> None:
    a, b, pool = (int(address, 16) for address in (A, B, POOL))
    expected = Creation(POOL, (A, B))
    assert created("uniswap-v2", (a, b), pool, 7) == expected
    for kind in ("uniswap-v3", "pancakeswap-v3"):
        assert created(kind, (a, b, 3000), 60, pool) == expected
    assert created("solidly", (a, b), 1, pool, 7) == expected
    assert created("solidly", (a, b, 1), pool, 7, event=1) == expected
    with pytest.raises(ValueError, match="more than 20 bytes"):
        created("solidly", (a, b, 1), 1 << 160, 7, event=1)


def v4_created(hooks: int) -> Creation:
    return created("uniswap-v4", (int(ID, 16), 0, int(B, 16)), 3000, 60, hooks, AT_2500, -5)


def test_a_pool_of_uniswap_v4_is_named_by_the_contract_and_its_id() -> None:
    assert v4_created(0) == Creation(f"{FACTORY}#{ID}", (NATIVE, B))
    pool = Pool("T:A-B", f"{FACTORY}#{ID}", "uniswap-v4", (18, 18), invert=False, start_block=0)
    assert pool.contract == FACTORY
    log = Log(FACTORY, (*TOPICS["uniswap-v4"], ID, "0x" + "00" * 32), b"", 5, "0x" + "bb" * 32, "0x" + "cc" * 32, 0, 0)
    index = PoolIndex([pool])
    assert index.of(log) == [pool]
    assert index.of(log._replace(topics=(log.topics[0], "0x" + "00" * 32))) == ()
    assert index.of(log._replace(topics=log.topics[:1])) == ()


def test_pools_whose_hooks_change_amounts_are_unreadable() -> None:
    for flags, names in (
        (0b11_1111_1111_0011, ""),
        (1 << 3, "BEFORE_SWAP_RETURNS_DELTA"),
        (1 << 2, "AFTER_SWAP_RETURNS_DELTA"),
        (0b1100, "BEFORE_SWAP_RETURNS_DELTA, AFTER_SWAP_RETURNS_DELTA"),
    ):
        reason = f"its hooks change the amounts of swaps ({names})" if names else ""
        assert v4_created((0xABC << 148) | flags).unreadable == reason
    assert v4_created(0).unreadable == ""
    with pytest.raises(ValueError, match="more than 20 bytes"):
        v4_created(1 << 160)

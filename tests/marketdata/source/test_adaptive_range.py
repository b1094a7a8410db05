"""How the number of blocks of a request adapts to a provider."""

from __future__ import annotations

from marketdata.source.adaptive_range import MAX_BLOCKS, AdaptiveRange


def blocks_read(limit: int, total: int) -> tuple[int, int]:
    """Reads ``total`` blocks from a provider that allows ``limit`` blocks in a request. Returns the numbers of
    requests and of refused requests."""
    size, at, asked, refused = AdaptiveRange(), 0, 0, 0
    while at < total:
        count = min(size.size, total - at)
        asked += 1
        if count > limit:
            refused += 1
            assert size.refused(count)
        else:
            size.answered(count)
            at += count
    return asked, refused


def test_the_range_finds_the_limit_and_stays_near_it() -> None:
    for limit in (1, 2, 3, 100, 500, 2_000, 10_000):
        total = 400 * limit
        asked, refused = blocks_read(limit, total)
        assert asked <= 2.5 * total / limit, limit
        assert refused <= 12 + asked / 20, limit


def test_a_suggested_smaller_range_is_used() -> None:
    size = AdaptiveRange()
    assert size.refused(2_000, 499)
    assert size.size == 499
    assert size.refused(499, 600)  # the suggestion is not below the refused size, so the size is halved
    assert size.size == 249
    assert not size.refused(1)


def test_the_range_grows_up_to_its_maximum() -> None:
    size = AdaptiveRange()
    for _ in range(100):
        size.answered(size.size)
    assert size.size == MAX_BLOCKS
    size = AdaptiveRange()
    size.answered(5)
    assert size.size == 2_000

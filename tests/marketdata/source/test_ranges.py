"""Adaptive ranges, and the wordings of providers that make them smaller."""

from __future__ import annotations

import pytest

from marketdata.source.provider_errors import TABLE, Kind, meaning
from marketdata.source.ranges import LARGEST, AdaptiveRange


def blocks_read(limit: int, total: int) -> tuple[int, int]:
    """Reads ``total`` blocks from a provider that answers for ``limit`` at most; how many requests, and refused."""
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


@pytest.mark.parametrize("limit", [1, 2, 3, 100, 500, 2_000, 10_000])
def test_it_finds_the_limit_and_stays_near_it(limit: int) -> None:
    total = 400 * limit
    asked, refused = blocks_read(limit, total)
    assert asked <= 2.5 * total / limit
    assert refused <= 12 + asked / 20


def test_a_suggestion_is_taken() -> None:
    size = AdaptiveRange()
    assert size.refused(2_000, 499)
    assert size.size == 499
    assert size.refused(499, 600)  # no less than was refused: it is halved
    assert size.size == 249


def test_one_block_cannot_be_made_smaller() -> None:
    assert not AdaptiveRange().refused(1)


def test_it_grows_to_its_end() -> None:
    size = AdaptiveRange()
    for _ in range(100):
        size.answered(size.size)
    assert size.size == LARGEST
    size = AdaptiveRange()
    size.answered(5)
    assert size.size == 2_000


@pytest.mark.parametrize(
    ("message", "kind", "suggested"),
    [
        ("query returned more than 10000 results. Try with this block range [0xBDE5F8, 0xBDE607].", Kind.RANGE, 16),
        ("range 1000000 exceeds limit of 10000", Kind.RANGE, 10_000),
        (
            "You can make eth_getLogs requests with up to a 500 block range. Based on your parameters, this block "
            "range should work: [0x123c9b2, 0x123cba5]",
            Kind.RANGE,
            500,
        ),
        (
            "Log response size exceeded. You can make eth_getLogs requests with up to a 2K block range and no limit on "
            "the response size. Based on your parameters and the response size limit, this block range should work: "
            "[0x0, 0xd043b8]",
            Kind.RANGE,
            0xD043B9,
        ),
        ("Log response size exceeded. Please reduce query block range.", Kind.RANGE, None),
        ("eth_getLogs is limited to a 10,000 range", Kind.RANGE, 10_000),
        ("exceed maximum block range: 5000", Kind.RANGE, 5000),
        ("block range is larger than max block range, block range = 5120, max block range = 5000", Kind.RANGE, 5000),
        ("range 9009594 is bigger than range limit 2000", Kind.RANGE, 2000),
        ("query exceeds max results 20000, retry with the range 24383075-24383096", Kind.RANGE, 22),
        ("requested too many blocks from 1 to 5000, maximum is set to 2048", Kind.RANGE, 2048),
        ("block range is bigger than maxBlockRange", Kind.RANGE, None),
        ("logs matched by query exceeds limit of 10000", Kind.RANGE, None),
        ("Your app has exceeded its compute units per second capacity.", Kind.RATE, None),
        ("daily request count exceeded, request rate limited", Kind.RATE, None),
        ("credits limited to 6000/sec", Kind.RATE, None),
        ("over rate limit", Kind.RATE, None),
        ("header not found", Kind.LATER, None),
        ("batch size too large", Kind.BATCH, None),
        ("Batch of more than 3 requests are not allowed on free tier", Kind.BATCH, None),
    ],
)
def test_messages_that_providers_sent(message: str, kind: Kind, suggested: int | None) -> None:
    found = meaning(message)
    assert found is not None
    assert (found.kind, found.suggested) == (kind, suggested)


@pytest.mark.parametrize("message", ["execution reverted", "unknown block", "invalid argument 0"])
def test_other_errors_mean_neither(message: str) -> None:
    assert meaning(message) is None


def test_every_wording_says_where_it_is_from() -> None:
    assert all(each.origin for each in TABLE)

"""The meanings of providers' error messages."""

from __future__ import annotations

from marketdata.source.provider_errors import TABLE, Kind, meaning

MESSAGES: tuple[tuple[str, Kind, int | None], ...] = (
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
)


def test_messages_of_real_providers_are_recognised() -> None:
    for message, kind, suggested in MESSAGES:
        found = meaning(message)
        assert found is not None, message
        assert (found.kind, found.suggested) == (kind, suggested), message
    for message in ("execution reverted", "unknown block", "invalid argument 0"):
        assert meaning(message) is None, message


def test_every_wording_names_its_origin() -> None:
    assert all(each.origin for each in TABLE)

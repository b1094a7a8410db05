"""What a fresh outbox does before anything is read.

An outbox knows the blocks that it stored, and retracts those that the chain replaces. A fresh one, as after the loss of
the former, knows none. So it asks the API for the stored blocks that are not final, and retracts those that the chain
does not have.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from marketdata.ingest.api_client import ApiClient, ApiUnavailable
from marketdata.ingest.outbox import Outbox, put
from marketdata.source.provider import Provider

_BLOCKS_AT_ONCE = 100
_UNKNOWN = 404

_log = logging.getLogger("marketdata.ingestor")


def retract_replaced(chain: str, connect: Callable[[], ApiClient], provider: Provider, outbox: Outbox) -> None:
    """Put retractions into the outbox if it has read nothing of the chain yet. Raises ApiUnavailable or ProviderError;
    try again later."""
    if outbox.rows("SELECT 1 FROM chains WHERE chain = ?", chain):
        return
    with closing(connect()) as api:
        stored = list(_stored(api, chain))
    hashes = _hashes(provider, sorted({each["number"] for each in stored}))
    gone = [each for each in stored if hashes[each["number"]] != each["hash"]]
    if gone:
        with outbox.transaction() as transaction:
            put(transaction, ({"retract": {"symbol": e["symbol"], "block_hash": e["hash"]}} for e in gone))
        _log.warning(
            "%s: a new outbox: the chain does not have %d stored blocks, which are retracted", chain, len(gone)
        )


def _stored(api: ApiClient, chain: str) -> Iterator[dict[str, Any]]:
    """The stored blocks of the chain that are not final: ``{symbol, number, hash}``."""
    path = f"/v1/blocks?chain={chain}"
    query = ""
    while True:
        response = api.request("GET", f"{path}{query}")
        if response.status == _UNKNOWN:
            _log.warning("the API is of an earlier release: stored blocks are not compared with the chain")
            return
        if response.status != 200 or not isinstance(response.body, dict):
            raise ApiUnavailable(f"{api.url} named no stored blocks: {response.detail}", response.retry_after)
        found = response.body["blocks"]
        yield from found
        if not response.body["more"]:
            return
        query = f"&below={found[-1]['number'] + (found[-1]['number'] != found[0]['number'])}"


def _hashes(provider: Provider, numbers: list[int]) -> dict[int, str | None]:
    """The hash of each block of the chain; None for one that the chain does not have."""
    found: dict[int, str | None] = {}
    for at in range(0, len(numbers), _BLOCKS_AT_ONCE):
        part = numbers[at : at + _BLOCKS_AT_ONCE]
        for number, header in zip(part, provider.find_headers(part), strict=True):
            found[number] = None if header is None else header.block.hash
    return found

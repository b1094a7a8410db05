"""Stores a body of CSV in blocks, each in a transaction of its own. While a block is stored, the next one is read."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import cast

from marketdata.api.content_coding import check_size, unpacked
from marketdata.api.routing import Request
from marketdata.api.tick_writer import Stored
from marketdata.errors import DatabaseUnavailable, MarketError, PartlyStored
from marketdata.limits import MAX_CSV_BYTES
from marketdata.tick_columns import Block, reading

BLOCK_LINES = 10_000


def stored_blocks(request: Request) -> Iterator[tuple[Block, Stored]]:
    """Store the blocks of the body in their order, and return each with the outcomes of its ticks, which are durable
    then.

    Nothing is stored of a body that is too large, cannot be unpacked, or has an invalid first line. Another error
    leaves the blocks before it stored.
    """
    spools = request.services.spools
    with spools.turn_of(request.environ["wsgi.input"]), unpacked(request.environ) as stream:
        check_size(stream, MAX_CSV_BYTES)
        with reading(stream) as reader, ThreadPoolExecutor(1, "csv") as thread:
            earlier: tuple[Block, Future[Stored]] | None = None
            for block in reader.blocks(BLOCK_LINES):
                if earlier is not None:
                    yield earlier[0], earlier[1].result()
                if spools.is_ending:
                    raise DatabaseUnavailable("the service is stopping; send the file again")
                earlier = block, thread.submit(_stored, request, block)
            if earlier is not None:
                yield earlier[0], earlier[1].result()


def _stored(request: Request, block: Block) -> Stored:
    try:
        return request.services.tick_writer.store_part(block.ticks) if block.ticks else Stored((), 0)
    except PartlyStored as error:  # it counts the ticks of this block alone
        cause = cast(MarketError, error.__cause__)
        raise cause from cause.__cause__

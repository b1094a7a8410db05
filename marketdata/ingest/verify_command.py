"""``bin/marketdata-ingestor verify`` and ``repair``."""

from __future__ import annotations

import argparse
import json
import logging
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from marketdata import secretfile
from marketdata.errors import StateError, UsageError
from marketdata.ingest import verification
from marketdata.ingest.api_client import TIMEOUT, ApiClient
from marketdata.ingest.api_writer import ApiWriter, RetryLimit
from marketdata.ingest.chain_cursor import ChainCursor
from marketdata.ingest.discovery import Discovery
from marketdata.ingest.outbox import Outbox
from marketdata.ingest.verification import Bounds, Differences
from marketdata.settings import Settings
from marketdata.source import pool_check
from marketdata.source.failover import connected
from marketdata.source.pools.pool import Pool
from marketdata.source.provider import Provider, newest_and_final
from marketdata.source.rpc_file import Chain

_MIN_RATE = 0.1
RETRY_S = 60.0
"""How long a repair waits for the API."""

_log = logging.getLogger("marketdata.ingestor")


def run(
    chain: Chain,
    path: Path,
    writing: ApiClient | None,
    settings: Settings,
    options: argparse.Namespace,
    say: Callable[[str], None],
    stopping: threading.Event,
) -> int:
    """Compare one chain, mend it with ``writing``, and say what differs. ``path`` is the outbox. Returns the number of
    differences that are left. Setting ``stopping`` ends the waits."""
    reading = ApiClient(settings.api_upstream, lambda: _read_token(settings), TIMEOUT)
    with closing(connected(chain, stopping)) as provider, closing(reading), closing(Outbox(path)) as outbox:
        pools = _pools(chain, provider, outbox)
        bounds = _bounds(chain, pools, provider, outbox, options.from_block, options.to_block)
        pools = [pool for pool in pools if pool.symbol in bounds]
        if not pools:
            say(f"{chain.name}: no final block to compare")
            return 0
        on_chain = verification.read(provider, pools, bounds)
        found = verification.compare(reading, on_chain, bounds)
        say(_shown(chain.name, bounds, found, options.format))
        if writing is None:
            return found.count
        writer = ApiWriter(writing, RetryLimit(RETRY_S))
        verification.mend(writer, on_chain, found)
        left = verification.compare(reading, on_chain, bounds) if found.count else found
        if not left.count:
            verification.cover(reading, writer, on_chain)
        elif options.format == "text":
            say(f"{chain.name}: {left.count} differences are left")
        return left.count


def compare_newest(chain: Chain, path: Path, settings: Settings, stopping: threading.Event) -> int:
    """Compare the newest final blocks at a tenth of the chain's rate. Returns the number of differences."""
    endpoints = tuple(
        replace(each, requests_per_s=max(_MIN_RATE, each.requests_per_s / 10)) for each in chain.endpoints
    )
    options = argparse.Namespace(from_block=None, to_block=None, format="text")
    return run(replace(chain, endpoints=endpoints), path, None, settings, options, _log.debug, stopping)


def _read_token(settings: Settings) -> str:
    return secretfile.read_token(settings.secrets_dir / secretfile.READ_TOKEN, scope="read").token


def _pools(chain: Chain, provider: Provider, outbox: Outbox) -> list[Pool]:
    listed = [pool_check.require(provider, pool, chain.native) for pool in chain.pools]
    return [*listed, *Discovery(provider, chain, outbox).pools()]


def _bounds(
    chain: Chain, pools: list[Pool], provider: Provider, outbox: Outbox, first: int | None, last: int | None
) -> Bounds:
    """The blocks to compare of each pool: final ones that the ingestor has read. Without ``first``, a pool begins
    where the ingestor began with it."""
    _, final = newest_and_final(provider, chain.confirmations)
    if last is not None and last > final:
        raise UsageError(f"--to-block {last} is not final: the newest final block is {final}")
    cursor = ChainCursor(outbox, chain.name)
    read, late = cursor.next_block(), cursor.late()
    found = {}
    for pool in pools:
        begun = cursor.first_block(pool)
        end = final if last is None else last
        if last is None and read is not None:
            end = min(end, late.get(pool.symbol, read) - 1)
        start = max(0, end - verification.BLOCKS + 1, pool.start_block if begun is None else begun)
        start = start if first is None else first
        if start <= end:
            found[pool.symbol] = (start, end)
    return found


def _shown(chain: str, bounds: Bounds, found: Differences, kind: str) -> str:
    first, last = min(low for low, _ in bounds.values()), max(high for _, high in bounds.values())
    if kind == "json":
        return json.dumps(verification.document(chain, first, last, found))
    head, *ticks = verification.lines(found)
    return "\n".join([f"{chain}: blocks {first} to {last}: {head}", *ticks])


def raise_if_left(count: int, *, is_repaired: bool) -> None:
    """Raise StateError (exit code 1) if differences are left."""
    if count:
        advice = "see the lines above" if is_repaired else "bin/marketdata-ingestor repair mends them"
        raise StateError(f"{count} {'difference' if count == 1 else 'differences'}: {advice}")

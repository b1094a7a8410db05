"""``bin/marketdata-ingestor check``: what a chain's provider says of the pools, and what a backfill would cost."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from marketdata.errors import ProviderError
from marketdata.ingest import forecast
from marketdata.source import pool_check
from marketdata.source.failover import connected
from marketdata.source.log_filter import LogFilter
from marketdata.source.pools import KINDS
from marketdata.source.provider import RpcProvider, newest_and_final
from marketdata.source.rpc import Rpc
from marketdata.source.rpc_file import Chain, Endpoint

_TRIES = 3
"""Tries of a request. The number is small, because a person waits for the result and can run the command again."""
CONNECTION_S = 3.0
"""How long a provider's host is waited for."""
WRONG = "  WRONG: "


def lines(chain: Chain, file: Path, connection_s: float = CONNECTION_S) -> Iterator[str]:
    """The lines about a chain of ``rpc.json``, which is ``file``. A fault begins with :data:`WRONG`. Raises
    ProviderError if the only endpoint cannot be reached."""
    stopping = threading.Event()
    reached = []
    for endpoint in chain.endpoints:
        with closing(Rpc(endpoint, stopping=stopping)) as rpc:
            yield f"{chain.name}: asking {rpc.name} …"
            try:
                rpc.reach(connection_s)
                reached.append(endpoint)
            except ProviderError as error:
                about = f"{error.detail}. Check the url in {file}, and that its host runs and this machine reaches it"
                if len(chain.endpoints) == 1:
                    raise ProviderError(about) from error
                yield f"{WRONG}{about}"
    if not reached:
        return
    with closing(connected(replace(chain, endpoints=tuple(reached)), stopping, tries=_TRIES)) as provider:
        head, final = newest_and_final(provider, chain.confirmations)
        yield (
            f"{provider.name}: chain {chain.chain_id}, block {head.number} ({time.time() - head.time:.0f} s old), "
            f"final up to {max(0, final)}"
        )
        for pool in chain.pools:
            found = pool_check.report(provider, pool, chain.native)
            yield found.text
            yield from (f"{WRONG}{fault}" for fault in found.faults)
    if chain.pools and final > 0:
        for endpoint in reached:
            yield from _forecast(chain, endpoint, min(final, head.number - 1), stopping)
    yield from _factories(chain, reached[0], stopping)
    if chain.factories:
        yield f"{chain.name}: the forecast leaves out the pools of factories, which the ingestor finds when it runs"


def _factories(chain: Chain, endpoint: Endpoint, stopping: threading.Event) -> Iterator[str]:
    with closing(Rpc(endpoint, stopping=stopping, tries=_TRIES)) as rpc:
        for factory in chain.factories:
            yield f"{chain.name}: the factory {factory.address} of {factory.kind}, from block {factory.start_block}"
            if rpc.call("eth_getCode", factory.address, "latest") in (None, "0x"):
                yield f"{WRONG}there is no contract at this address: check the address and the chain"


def _forecast(chain: Chain, endpoint: Endpoint, last: int, stopping: threading.Event) -> Iterator[str]:
    with closing(RpcProvider(Rpc(endpoint, stopping=stopping, tries=_TRIES), chain.chain_id)) as provider:
        wanted = LogFilter({pool.contract: KINDS[pool.kind].swap_topics for pool in chain.pools})
        start = min(last, *(pool.start_block for pool in chain.pools))
        try:
            period = forecast.year(provider, start, last)
            found = forecast.measure(provider, wanted, period)
        except ProviderError as error:
            yield f"{WRONG}no forecast: {error.detail}"
            return
        times = "" if found.names_times else "; its logs name no time, so each block with a swap is a request more"
        most = f"{found.largest} blocks" + (" or more" if found.refused is None else f", not {found.refused}")
        yield (
            f"{provider.name}: answers ranges of {most}, and {found.batch} calls at once; "
            f"a request takes {found.request_s * 1000:.0f} ms{times}"
        )
        cost = forecast.forecast(found, period.blocks, len(chain.pools), endpoint.requests_per_s)
        since = "a year" if period.is_year else f"since block {period.first} ({duration(period.seconds)})"
        swaps = period.blocks * found.swaps / found.blocks
        yield (
            f"  {since}: {duration(cost.seconds)}, {_rounded(cost.calls)} requests for "
            f"{_rounded(period.blocks)} blocks and about {_rounded(swaps)} swaps (limited by {cost.limit})"
        )


def _rounded(number: float) -> str:
    """Two significant digits, in groups of three."""
    return f"{float(f'{number:.2g}'):,.0f}".replace(",", " ")


def duration(seconds: float) -> str:
    """The largest unit and the next smaller one."""
    minutes, hours, days = round(seconds / 60), round(seconds / 3600), round(seconds / 86_400)
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    if minutes < 60:
        return f"{minutes} min"
    if hours < 48:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{days} d"

"""The kinds of pools, one module each; pure. A new kind is a module and an entry of ``KINDS``."""

from __future__ import annotations

from marketdata.source.pools import pancakeswap_v3, solidly, uniswap_v2, uniswap_v3, uniswap_v4
from marketdata.source.pools.pool import PoolKind

KINDS: dict[str, PoolKind] = {
    "uniswap-v2": uniswap_v2.KIND,
    "uniswap-v3": uniswap_v3.KIND,
    "pancakeswap-v3": pancakeswap_v3.KIND,
    "solidly": solidly.KIND,
    "uniswap-v4": uniswap_v4.KIND,
}
"""The kinds of pools, by their name in ``rpc.json``. Forks that emit the same events are of the same kind."""

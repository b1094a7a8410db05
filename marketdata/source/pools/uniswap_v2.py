"""Uniswap V2 and pools with its event: ``Swap`` of ``UniswapV2Pair.sol``."""

from __future__ import annotations

from marketdata.source.evm import topic, words
from marketdata.source.trade import Deltas

# The sender and the recipient are indexed, so they are in topics and not in the data.
TOPIC = topic("Swap(address,uint256,uint256,uint256,uint256,address)")
STATE = "getReserves()"
STATE_WORDS = 3


def decode(data: bytes) -> Deltas:
    """A flash swap may take and return the same token in one event: only the difference is traded."""
    in0, in1, out0, out1 = words(data, 4)
    return Deltas(in0 - out0, in1 - out1)

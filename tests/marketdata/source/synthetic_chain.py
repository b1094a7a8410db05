"""A provider over HTTP with a computed chain: each block has the same number of swaps of one Uniswap V2 pool."""

from __future__ import annotations

from typing import Any

from marketdata.source.evm import selector
from marketdata.source.pools import KINDS
from tests.marketdata.source.provider import Provider, error, result

TOPIC = KINDS["uniswap-v2"].swap_topics[0]
POOL, TOKENS = "0x" + "11" * 20, ("0x" + "22" * 20, "0x" + "33" * 20)
CHAIN_ID = 7
START, BLOCK_S = 1_600_000_000, 12
_BLOOM = "0x" + "00" * 256
"""Some chains leave the bloom filter empty."""


class SyntheticChain(Provider):
    """``head`` is the newest block; ``most`` is the largest number of blocks in one request."""

    def __init__(self, head: int, swaps: int, most: int = 10**9) -> None:
        super().__init__(lambda request, _: self._answer(request))
        self.head = head
        self._swaps = swaps
        self.most = most

    def rpc_file(self, **content: Any) -> dict[str, Any]:
        pool = {"symbol": "A-B", "address": POOL, "kind": "uniswap-v2", "decimals": [18, 18]}
        return {
            "url": self.url, "chain": "SYN", "chain_id": CHAIN_ID, "confirmations": 2, "poll_s": 0.05,
            "requests_per_s": 100_000, "pools": [pool], **content,
        }  # fmt: skip

    def _answer(self, request: Any) -> Any:
        for call in request if isinstance(request, list) else [request]:
            if call["method"] == "eth_getLogs" and "fromBlock" in call["params"][0]:
                first, last = (int(call["params"][0][name], 16) for name in ("fromBlock", "toBlock"))
                if last - first >= self.most:
                    return error(request, f"range {last - first + 1} exceeds limit of {self.most}", -32602)
        return result(request, self._value)

    def _value(self, method: str, params: Any) -> Any:
        if method == "eth_chainId":
            return hex(CHAIN_ID)
        if method == "eth_call":
            return self._contract(params[0]["data"])
        if method == "eth_getLogs" and "fromBlock" in params[0]:
            first, last = (int(params[0][name], 16) for name in ("fromBlock", "toBlock"))
            return [log for number in range(first, min(last, self.head) + 1) for log in self.logs(number)]
        if method == "eth_getLogs":
            return self.logs(int(params[0]["blockHash"], 16) - 1)
        if method == "eth_getBlockByHash":
            return self.block(int(params[0], 16) - 1)
        number = self.head if params[0] in ("latest", "finalized") else int(params[0], 16)
        return self.block(number) if number <= self.head else None

    def _contract(self, data: str) -> str:
        words = {
            selector("getReserves()"): (1, 1, 1), selector("token0()"): (int(TOKENS[0], 16),),
            selector("token1()"): (int(TOKENS[1], 16),), selector("decimals()"): (18,),
        }.get(data, ())  # fmt: skip
        return "0x" + "".join(f"{word:064x}" for word in words)

    def block(self, number: int) -> dict[str, Any]:
        return {
            "number": hex(number), "hash": _hash(number), "parentHash": _hash(number - 1),
            "timestamp": hex(START + number * BLOCK_S), "logsBloom": _BLOOM, "transactions": ["0x" + "44" * 32],
        }  # fmt: skip

    def logs(self, number: int) -> list[dict[str, Any]]:
        shared = {
            "address": POOL, "topics": [TOPIC], "blockHash": _hash(number), "blockNumber": hex(number),
            "blockTimestamp": hex(START + number * BLOCK_S), "removed": False,
        }  # fmt: skip
        return [
            shared
            | {
                "transactionHash": f"0x{number:032x}{place:032x}", "logIndex": hex(place),
                "data": f"0x{10**18 + number:064x}{0:064x}{0:064x}{10**18 + place:064x}",
            }
            for place in range(self._swaps)
        ]  # fmt: skip


class ForkedChain(SyntheticChain):
    """From block 100 on, it has other hashes than a :class:`SyntheticChain`."""

    def block(self, number: int) -> dict[str, Any]:
        found = super().block(number)
        return found | {"hash": found["hash"][:-4] + "beef"} if number >= 100 else found

    def logs(self, number: int) -> list[dict[str, Any]]:
        return [log | {"blockHash": self.block(number)["hash"]} for log in super().logs(number)]


def _hash(number: int) -> str:
    return f"0x{number + 1:064x}"

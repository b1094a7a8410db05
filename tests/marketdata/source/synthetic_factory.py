"""A provider over HTTP with a computed chain: a factory of Uniswap V2 announces pools, and they are traded.

Half of the pools have a token whose name is hostile. Old blocks have few swaps, so that a long chain costs little.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from marketdata.source.evm import selector
from marketdata.source.pools import KINDS
from tests.marketdata.source.provider import Provider, error, result

CHAIN_ID = 7
START, BLOCK_S = 1_600_000_000, 12
FACTORY, QUOTE = "0x" + "fa" * 20, "0xee" + "0" * 38
_SWAP = KINDS["uniswap-v2"].swap_topics[0]
_CREATED = next(iter(KINDS["uniswap-v2"].creations))
_BLOOM = "0x" + "00" * 256
"""Some chains leave the bloom filter empty."""
_SYMBOL, _DECIMALS = selector("symbol()"), selector("decimals()")


class Name(NamedTuple):
    """The symbol that a token reports, and the part of the pool's symbol that is made of it. None means the end of the
    token's address."""

    says: str
    reduced: str | None


HOSTILE = (
    Name("", None), Name("\N{PILE OF POO}", None), Name("<script>alert(1)</script>", "scriptalert1"),
    Name("QUOTE", "QUOTE"), Name("../../../etc/passwd", "......etcpas"), Name("A" * 5000, "A" * 12),
    Name("x:y\0\n\x1b[31m", "xy31m"), Name("\N{RIGHT-TO-LEFT OVERRIDE}DSU", "DSU"),
    Name("'; DROP TABLE pools; --", "DROPTABLEpoo"),
)  # fmt: skip


@dataclass(frozen=True)
class SyntheticPool:
    """A pool of one token and :data:`QUOTE`. ``decimals`` are those of the token; None if it does not say them."""

    at: int
    block: int
    name: Name
    decimals: int | None

    @property
    def address(self) -> str:
        return f"0xbb{self.at:038x}"

    @property
    def token(self) -> str:
        return f"0xaa{self.at:038x}"

    @property
    def plain(self) -> str:
        """The symbol if no earlier pool has it."""
        return f"{self.token[-6:] if self.name.reduced is None else self.name.reduced}-QUOTE"


@dataclass
class _Block:
    created: list[SyntheticPool] = field(default_factory=list)
    traded: list[SyntheticPool] = field(default_factory=list)


class FactoryChain(Provider):
    """``head`` is the newest block. ``most`` is the largest number of logs in an answer."""

    def __init__(self, pools: int, head: int, *, quiet: int = 100, swaps: int = 4, most: int = 10_000) -> None:
        """The first ``pools`` are announced in the blocks 1 to ``head // 10``. Later, one block in ``quiet`` has
        ``swaps`` swaps."""
        super().__init__(lambda request, _: self._answer(request))
        self.chain = "TEST"
        self.head = 0
        self.pools: list[SyntheticPool] = []
        self._random = random.Random(5)
        self._most = most
        self._blocks: dict[int, _Block] = {}
        self._busy: list[int] = []
        """The blocks with logs."""
        self._trades: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        """The blocks of each pool's swaps, with the places of the logs."""
        past = head // 10
        for at in range(pools):
            self._announce(1 + at * past // pools)
        for number in range(past + 1, head + 1, quiet):
            self._trade(number, self._random.choices(self.pools, k=swaps))
        self.head = head

    def rpc_file(self, **content: Any) -> dict[str, Any]:
        factory = {"kind": "uniswap-v2", "address": FACTORY, "start_block": 0}
        return {
            "url": self.url, "chain": self.chain, "chain_id": CHAIN_ID, "confirmations": 2, "poll_s": 0.05,
            "requests_per_s": 100_000, "factories": [factory], **content,
        }  # fmt: skip

    def mine(self, blocks: int = 1, *, new: int = 0, swaps: int = 4) -> None:
        """Add blocks. Each announces ``new`` pools, which are traded in the same block, too."""
        for number in range(self.head + 1, self.head + 1 + blocks):
            made = [self._announce(number) for _ in range(new)]
            self._trade(number, [*made, *self._random.choices(self.pools, k=swaps)])
            self.head = number

    def symbols(self) -> dict[str, SyntheticPool]:
        """The readable pools by the symbols that they must have."""
        found: dict[str, SyntheticPool] = {}
        for pool in self.pools:
            if pool.decimals is not None:
                symbol = f"{self.chain}:{pool.plain}"
                found[symbol if symbol not in found else f"{symbol}-{pool.address[-6:]}"] = pool
        return found

    def ticks(self, symbol: str, pool: SyntheticPool, first: int = 0) -> list[dict[str, Any]]:
        """What ``GET /v1/ticks`` must show of a pool from the block ``first`` on."""
        return [
            {
                "symbol": symbol, "id": f"{_hash(number)}:{place}",
                "ts": datetime.fromtimestamp(self.time(number), UTC).strftime("%Y-%m-%dT%H:%M:%S.000000Z"),
                "seq": number * 2**20 + place, "price": str(pool.at + 1), "size": str(number), "side": "sell",
                "block": {"number": number, "hash": _hash(number)}, "tx": _transaction(number, place),
            }
            for number, place in self._trades[pool.at]
            if number >= first
        ]  # fmt: skip

    @staticmethod
    def time(number: int) -> int:
        """The time of a block, in seconds since 1970."""
        return START + number * BLOCK_S

    def ranges(self) -> list[dict[str, Any]]:
        """The filters of the requests so far that asked for the logs of a range."""
        return [asked for _, request in self.asked for asked in _filters(request) if "fromBlock" in asked]

    # -- the chain ---------------------------------------------------------------------------------------------------

    def _announce(self, number: int) -> SyntheticPool:
        at = len(self.pools)
        name = HOSTILE[at // 2 % len(HOSTILE)] if at % 2 else Name(f"T{at}", f"T{at}")
        pool = SyntheticPool(at, number, name, None if at % 50 == 7 else at % 19)
        self.pools.append(pool)
        self._block(number).created.append(pool)
        return pool

    def _trade(self, number: int, pools: Sequence[SyntheticPool]) -> None:
        block = self._block(number)
        for pool in pools:
            self._trades[pool.at].append((number, len(block.created) + len(block.traded)))
            block.traded.append(pool)

    def _block(self, number: int) -> _Block:
        if number not in self._blocks:
            self._blocks[number] = _Block()
            self._busy.append(number)
        return self._blocks[number]

    def _logs(self, number: int) -> Iterator[dict[str, Any]]:
        block = self._blocks.get(number, _Block())
        events = [(pool, _CREATED) for pool in block.created] + [(pool, _SWAP) for pool in block.traded]
        for place, (pool, topic) in enumerate(events):
            if topic == _CREATED:
                address, tokens, words = FACTORY, (pool.token, QUOTE), (int(pool.address, 16), pool.at)
            else:
                address, tokens = pool.address, ()
                words = (number * 10 ** (pool.decimals or 0), 0, 0, (pool.at + 1) * number * 10**18)
            yield {
                "address": address, "topics": [topic, *("0x" + each[2:].rjust(64, "0") for each in tokens)],
                "data": _words(*words), "blockHash": _hash(number),
                "blockNumber": hex(number), "blockTimestamp": hex(self.time(number)), "removed": False,
                "transactionHash": _transaction(number, place), "logIndex": hex(place),
            }  # fmt: skip

    # -- the answers -------------------------------------------------------------------------------------------------

    def _answer(self, request: Any) -> Any:
        if any("fromBlock" in asked and len(self._wanted(asked)) > self._most for asked in _filters(request)):
            return error(request, f"query returned more than {self._most} results", -32005)
        return result(request, self._value)

    def _value(self, method: str, params: Any) -> Any:
        if method == "eth_chainId":
            return hex(CHAIN_ID)
        if method == "eth_call":
            return self._contract(params[0]["to"], params[0]["data"])
        if method == "eth_getLogs":
            return self._wanted(params[0])
        if method == "eth_getBlockByHash":
            return self._header(int(params[0], 16) - 1)
        number = self.head if params[0] in ("latest", "finalized") else int(params[0], 16)
        return self._header(number) if number <= self.head else None

    def _wanted(self, asked: dict[str, Any]) -> list[dict[str, Any]]:
        if "blockHash" in asked:
            numbers = [int(asked["blockHash"], 16) - 1]
        else:
            first, last = (int(asked[name], 16) for name in ("fromBlock", "toBlock"))
            numbers = self._busy[bisect_left(self._busy, first) : bisect_right(self._busy, min(last, self.head))]
        addresses, topics = frozenset(asked.get("address", ())), frozenset(asked["topics"][0])
        return [
            log
            for number in numbers
            for log in self._logs(number)
            if log["topics"][0] in topics and (not addresses or log["address"] in addresses)
        ]

    def _contract(self, address: str, data: str) -> str:
        at = int(address[4:], 16)
        pool = self.pools[at] if address.startswith("0xaa") and at < len(self.pools) else None
        name, decimals = ("QUOTE", 18) if pool is None else (pool.name.says, pool.decimals)
        if data == _SYMBOL:
            text = name.encode()
            return _words(32, len(text)) + text.ljust(-(-len(text) // 32) * 32, b"\0").hex()
        return _words(decimals) if data == _DECIMALS and decimals is not None else "0x"

    def _header(self, number: int) -> dict[str, Any]:
        return {
            "number": hex(number), "hash": _hash(number), "parentHash": _hash(number - 1),
            "timestamp": hex(self.time(number)), "logsBloom": _BLOOM, "transactions": ["0x" + "44" * 32],
        }  # fmt: skip


def _filters(request: Any) -> list[dict[str, Any]]:
    calls = request if isinstance(request, list) else [request]
    return [call["params"][0] for call in calls if call["method"] == "eth_getLogs"]


def _words(*values: int) -> str:
    return "0x" + "".join(f"{value:064x}" for value in values)


def _transaction(number: int, place: int) -> str:
    return f"0x{number:032x}{place:032x}"


def _hash(number: int) -> str:
    return f"0x{number + 1:064x}"

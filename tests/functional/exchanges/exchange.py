"""A pool of a test, the tokens on its chain, and the operations that every exchange has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from tests.functional.anvil import Anvil, words
from tests.functional.evm_packages import EvmPackages

NATIVE = "0x" + "00" * 20
DEADLINE = 1 << 40
SUPPLY = 1 << 200
MAX = (1 << 256) - 1
MAX_TICK = 887_272
DECIMALS_OF_ERC20 = "5b60128156"
"""The position of the number of decimals, 18, in the code of Uniswap V2's test token."""


@dataclass(frozen=True)
class TestPool:
    """A pool and its entry in ``rpc.json``."""

    __test__ = False

    name: str
    address: str
    kind: str
    tokens: tuple[str, str]
    decimals: tuple[int, int]
    amounts: tuple[int, int]
    """The initial reserves, in the smallest units."""
    invert: bool
    key: tuple[Any, ...] = ()
    """What identifies the pool on the exchange in addition to its tokens."""

    @property
    def contract(self) -> str:
        return self.address.partition("#")[0]

    def entry(self) -> dict[str, Any]:
        return {
            "symbol": self.name, "address": self.address, "kind": self.kind, "decimals": list(self.decimals),
            "invert": self.invert,
        }  # fmt: skip


class Tokens:
    """The tokens on a chain, all owned by the chain's account, and the native currency."""

    def __init__(self, chain: Anvil, packages: EvmPackages) -> None:
        self.chain = chain
        self._packages = packages
        self.decimals = {NATIVE: 18}
        self.weth = self.deploy("WETH9")

    def deploy(self, contract: str, *arguments: Any) -> str:
        return self.chain.deploy(self._packages.bytecode(contract) + words(*arguments))

    def deploy_data(self, contract: str) -> str:
        """An account whose code is the code that creates the contract."""
        code = self._packages.bytecode(contract)
        return self.chain.deploy("600d380380600d6000396000f3" + code)

    def create(self, decimals: int, *spenders: str) -> str:
        code = self._packages.bytecode("ERC20")
        assert code.count(DECIMALS_OF_ERC20) == 1
        address = self.chain.deploy(code.replace(DECIMALS_OF_ERC20, f"5b60{decimals:02x}8156") + words(SUPPLY))
        self.decimals[address] = decimals
        self.allow(address, *spenders)
        return address

    def create_any(self, symbol: bytes, decimals: bytes, *spenders: str) -> str:
        """A token with these answers to ``symbol()`` and ``decimals()``; see ``contracts/AnyToken.sol``."""
        address = self.deploy("AnyToken", symbol, decimals, SUPPLY)
        self.decimals[address] = int.from_bytes(decimals, "big")
        self.allow(address, *spenders)
        return address

    def allow(self, token: str, *spenders: str) -> None:
        for spender in spenders:
            self.chain.invoke(token, "approve(address,uint256)", spender, MAX)
        self.chain.mine()

    def spent(self, receipt: dict[str, Any], token: str) -> int:
        """How much of the token the account spent in a transaction that is alone in its block, without the cost of the
        gas."""
        number = int(receipt["blockNumber"], 16)
        before, after = (self._balance(token, each) for each in (number - 1, number))
        gas = int(receipt["gasUsed"], 16) * int(receipt["effectiveGasPrice"], 16) if token == NATIVE else 0
        return before - after - gas

    def _balance(self, token: str, block: int) -> int:
        if token == NATIVE:
            return int(self.chain("eth_getBalance", self.chain.account, hex(block)), 16)
        data = self.chain.encoded("balanceOf(address)", self.chain.account)
        return int(self.chain("eth_call", {"to": token, "data": data}, hex(block)), 16)

    def pool(
        self, kind: str, name: str, address: str, amounts: dict[str, int], *key: Any, invert: bool = False
    ) -> TestPool:
        (a, amount_a), (b, amount_b) = in_order(amounts)
        decimals = (self.decimals[a], self.decimals[b])
        return TestPool(name, address, kind, (a, b), decimals, (amount_a, amount_b), invert, key)


class Exchange(Protocol):
    """An exchange on a chain. Trades are transactions of the next block."""

    def pool(self, name: str, amounts: dict[str, int], *, invert: bool = False) -> TestPool:
        """A new pool with these amounts of two tokens in their smallest units, in separate blocks."""

    def swap(self, pool: TestPool, amount: int, *, sell: bool) -> str:
        """Give ``amount`` of token0 (``sell``) or token1. Returns the transaction."""


def in_order(amounts: dict[str, int]) -> list[tuple[str, int]]:
    """Token0 and token1 with their amounts."""
    return sorted(amounts.items(), key=lambda each: int(each[0], 16))


def path(token: str, *pools: TestPool) -> list[str]:
    """The tokens of a route that begins with ``token``."""
    found = [token]
    for pool in pools:
        [following] = set(pool.tokens) - {found[-1]}
        found.append(following)
    return found


def last_word(answer: str) -> str:
    """The address that a function returned."""
    return "0x" + answer[-40:]

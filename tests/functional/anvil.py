"""A private chain for the tests: an anvil node, and helpers that deploy and call contracts."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.functional.evm_packages import EvmPackages
from tests.functional.serving import until

CHAIN_ID = 31337
SECONDS = 30.0
GAS = 0x1000000
BALANCE = 10**9
"""The initial balance of each account, in whole units of the native currency."""
START, BLOCK_S = 1_700_000_000, 13


class Anvil:
    """A running node whose blocks the test mines; ``close`` ends it."""

    def __init__(self, packages: EvmPackages, *arguments: str) -> None:
        # The log is a file. A full pipe that nobody reads would block the node.
        self._log = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115
        self._home = packages.folder
        self._command = [
            str(packages.anvil), "--no-mining", "--chain-id", str(CHAIN_ID), "--accounts", "2", "--timestamp",
            str(START), "--balance", str(BALANCE), "--gas-limit", str(16 * GAS), *arguments,
        ]  # fmt: skip
        self.port = 0
        self.start()
        self.url = f"http://127.0.0.1:{self.port}"
        self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        self.account, self.other = self("eth_accounts")
        self._selectors: dict[str, str] = {}
        self._held: list[str] | None = None

    def start(self) -> None:
        """Start the node. It can be started again after ``stop``; with the argument ``--state`` it keeps its chain."""
        self._log.seek(0)
        self._log.truncate()
        self._process = subprocess.Popen(
            [*self._command, "--port", str(self.port)],
            env=os.environ | {"HOME": str(self._home)}, stdout=self._log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.port = int(until(self._announced)[1])

    def stop(self) -> None:
        self._connection.close()
        self._process.terminate()
        self._process.wait(SECONDS)

    def __call__(self, method: str, *params: Any) -> Any:
        return self.batch((method, *params))[0]

    def batch(self, *calls: tuple[Any, ...]) -> list[Any]:
        """The results of calls, each a method and its parameters, that are sent in one request."""
        names = ({"jsonrpc": "2.0", "id": 1, "method": method, "params": params} for method, *params in calls)
        body = json.dumps(list(names))
        self._connection.request("POST", "/", body, {"Content-Type": "application/json"})
        answers = json.loads(self._connection.getresponse().read())
        assert all("result" in each for each in answers), f"{calls}: {answers}"
        return [each["result"] for each in answers]

    def blocks(self) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
        """The blocks with transactions, each with its receipts."""
        numbers = map(hex, range(int(self("eth_blockNumber"), 16) + 1))
        blocks = self.batch(*(("eth_getBlockByNumber", number, False) for number in numbers))
        blocks = [block for block in blocks if block["transactions"]]
        receipts = self.batch(*(("eth_getBlockReceipts", block["number"]) for block in blocks)) if blocks else []
        return list(zip(blocks, receipts, strict=True))

    def close(self) -> None:
        self.stop()
        self._log.close()

    def _announced(self) -> re.Match[str] | None:
        self._log.seek(0)
        return re.search(r"Listening on 127\.0\.0\.1:(\d+)\n", self._log.read())

    def mine(self, blocks: int = 1) -> None:
        """The time of each block is :data:`BLOCK_S` after that of its parent, whatever the clock says."""
        if self._held is not None:
            return
        newest = int(self("eth_getBlockByNumber", "latest", False)["timestamp"], 16)
        for number in range(blocks):
            self("evm_mine", newest + (number + 1) * BLOCK_S)

    @contextmanager
    def one_block(self) -> Iterator[None]:
        """Put all calls that are :meth:`done` in this context, and other transactions, into one block."""
        self._held = []
        try:
            yield
        finally:
            held, self._held = self._held, None
        self.mine()
        for transaction in held:
            self.receipt(transaction)

    def send(self, to: str | None, data: str, value: int = 0) -> str:
        """Put a transaction into the pool, for the next block. Returns its hash."""
        transaction = {"from": self.account, "data": data, "gas": hex(GAS), "value": hex(value)}
        return str(self("eth_sendTransaction", transaction | ({"to": to} if to else {})))

    def deploy(self, code: str) -> str:
        """Create a contract in a separate block. Returns its address."""
        transaction = self.send(None, "0x" + code)
        self.mine()
        return str(self.receipt(transaction)["contractAddress"])

    def invoke(self, to: str, signature: str, *arguments: Any, value: int = 0) -> str:
        """Put the call of a function into the next block. Returns the transaction's hash."""
        return self.send(to, self.encoded(signature, *arguments), value)

    def done(self, to: str, signature: str, *arguments: Any, value: int = 0) -> None:
        """Call a function in a separate block, except within :meth:`one_block`. The call must succeed."""
        transaction = self.invoke(to, signature, *arguments, value=value)
        self.mine()
        if self._held is None:
            self.receipt(transaction)
        else:
            self._held.append(transaction)

    def ask(self, to: str, signature: str, *arguments: Any) -> str:
        """The value that a function returns after all transactions, including those for the next block."""
        return str(self("eth_call", {"to": to, "data": self.encoded(signature, *arguments)}, "pending"))

    def receipt(self, transaction: str) -> dict[str, Any]:
        found = until(lambda: self("eth_getTransactionReceipt", transaction))  # after a reorganisation it may be late
        assert found["status"] == "0x1", found
        return dict(found)

    def encoded(self, signature: str, *arguments: Any) -> str:
        """The call data. The arguments are encoded by :func:`words`."""
        if signature not in self._selectors:
            self._selectors[signature] = self("web3_sha3", "0x" + signature.encode().hex())[:10]
        return self._selectors[signature] + words(*arguments)


def words(*arguments: Any) -> str:
    """ABI words of addresses, integers, booleans, bytes, lists, and tuples, which are structs with a member of variable
    length. A struct of fixed length is given as its members."""
    heads: list[str] = []
    tails: list[str] = []
    size = len(arguments) * 32
    for each in arguments:
        tail = _tail(each)
        heads.append(f"{_number(each) if tail is None else size:064x}")
        tails.append(tail or "")
        size += len(tails[-1]) // 2
    return "".join(heads + tails)


def _tail(argument: Any) -> str | None:
    """The tail of an argument, which follows all heads in the ABI encoding; None for an argument without a tail."""
    match argument:
        case bytes():
            return f"{len(argument):064x}{argument.hex()}{'00' * (-len(argument) % 32)}"
        case list():
            return f"{len(argument):064x}{words(*argument)}"
        case tuple():
            return words(*argument)
    return None


def _number(argument: Any) -> int:
    return int(argument, 16) if isinstance(argument, str) else int(argument) % (1 << 256)

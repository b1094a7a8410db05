"""A chain of the test's own: anvil, from the npm registry, and what is needed to put contracts on it."""

from __future__ import annotations

import http.client
import json
import os
import platform
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.functional.registry import npm_install
from tests.functional.serving import until

ANVIL = f"@foundry-rs/anvil-linux-{'arm64' if platform.machine() == 'aarch64' else 'amd64'}"
PACKAGES = (
    f"{ANVIL}@1.7.1", "@uniswap/v2-core@1.0.1", "@uniswap/v2-periphery@1.1.0-beta.0", "@uniswap/v3-core@1.0.1",
    "@uniswap/v3-periphery@1.4.4",
)  # fmt: skip
CHAIN_ID = 31337
SECONDS = 30.0
GAS = 0x1000000
START, BLOCK_S = 1_700_000_000, 13


@dataclass(frozen=True)
class EvmPackages:
    """The folder in which :data:`PACKAGES` are installed."""

    folder: Path

    @classmethod
    def install(cls, folder: Path) -> EvmPackages:
        npm_install(PACKAGES, folder)
        return cls(folder)

    @property
    def anvil(self) -> Path:
        return self.folder / "node_modules" / ANVIL / "bin" / "anvil"

    def bytecode(self, path: str) -> str:
        """The code that creates the contract of a compiled artifact."""
        text: str = json.loads((self.folder / "node_modules" / "@uniswap" / path).read_text())["bytecode"]
        return text.removeprefix("0x")


class Anvil:
    """A running node whose blocks the test mines; ``close`` ends it."""

    def __init__(self, packages: EvmPackages, *arguments: str) -> None:
        # A file, for a pipe that nobody reads would stop the node when it is full.
        self._log = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115
        self._home = packages.folder
        self._command = [
            str(packages.anvil), "--no-mining", "--chain-id", str(CHAIN_ID), "--accounts", "2", "--timestamp",
            str(START), *arguments,
        ]  # fmt: skip
        self.port = 0
        self.start()
        self.url = f"http://127.0.0.1:{self.port}"
        self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        self.account, self.other = self("eth_accounts")
        self._selectors: dict[str, str] = {}

    def start(self) -> None:
        """Also again, after ``stop``: with the argument ``--state`` the chain is the same."""
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

    def kill(self) -> None:
        """SIGKILL. The state file stays as the last ``stop`` has left it."""
        self._connection.close()
        self._process.kill()
        self._process.wait(SECONDS)

    def __call__(self, method: str, *params: Any) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        self._connection.request("POST", "/", body, {"Content-Type": "application/json"})
        answer = json.loads(self._connection.getresponse().read())
        assert "result" in answer, f"{method}: {answer}"
        return answer["result"]

    def close(self) -> None:
        self.stop()
        self._log.close()

    def _announced(self) -> re.Match[str] | None:
        self._log.seek(0)
        return re.search(r"Listening on 127\.0\.0\.1:(\d+)\n", self._log.read())

    def mine(self, blocks: int = 1) -> None:
        """Each block is :data:`BLOCK_S` after the one before it, whatever the clock says."""
        for _ in range(blocks):
            newest = self("eth_getBlockByNumber", "latest", False)
            self("evm_setNextBlockTimestamp", int(newest["timestamp"], 16) + BLOCK_S)
            self("evm_mine")

    def send(self, to: str | None, data: str) -> str:
        """Put a transaction into the pool, for the next block; its hash."""
        transaction = {"from": self.account, "data": data, "gas": hex(GAS)}
        return str(self("eth_sendTransaction", transaction | ({"to": to} if to else {})))

    def deploy(self, code: str) -> str:
        """Create a contract in a block of its own; its address."""
        transaction = self.send(None, "0x" + code)
        self.mine()
        return str(self.receipt(transaction)["contractAddress"])

    def invoke(self, to: str, signature: str, *arguments: Any) -> str:
        """Put the call of a function into the next block; the transaction's hash."""
        return self.send(to, self.encoded(signature, *arguments))

    def ask(self, to: str, signature: str, *arguments: Any) -> str:
        """What a function returns now."""
        return str(self("eth_call", {"to": to, "data": self.encoded(signature, *arguments)}, "latest"))

    def receipt(self, transaction: str) -> dict[str, Any]:
        found = self("eth_getTransactionReceipt", transaction)
        assert found is not None
        assert found["status"] == "0x1", found
        return dict(found)

    def encoded(self, signature: str, *arguments: Any) -> str:
        """Call data, with arguments as :func:`words` takes them."""
        if signature not in self._selectors:
            self._selectors[signature] = self("web3_sha3", "0x" + signature.encode().hex())[:10]
        return self._selectors[signature] + words(*arguments)


def words(*arguments: Any) -> str:
    """ABI words of addresses, integers, booleans and lists of them."""
    heads: list[int] = []
    tail: list[int] = []
    for each in arguments:
        if isinstance(each, list):
            heads.append((len(arguments) + len(tail)) * 32)
            tail += [len(each), *map(_number, each)]
        else:
            heads.append(_number(each))
    return "".join(f"{each:064x}" for each in heads + tail)


def _number(argument: Any) -> int:
    return int(argument, 16) if isinstance(argument, str) else int(argument) % (1 << 256)

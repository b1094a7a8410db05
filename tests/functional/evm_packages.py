"""anvil and the exchanges' contracts, from the npm registry. Some packages contain compiled contracts. For the others,
the sources are compiled."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.functional.registry import npm_install

ANVIL = f"@foundry-rs/anvil-linux-{'arm64' if platform.machine() == 'aarch64' else 'amd64'}"
AERODROME = "sphere-mezo-solidity-files"
"""This package has the contracts of Aerodrome, a fork of Velodrome V2. They differ from Aerodrome's own repository only
as required by another version of OpenZeppelin's contracts."""
PACKAGES = (
    f"{ANVIL}@1.7.1", "@uniswap/v2-core@1.0.1", "@uniswap/v2-periphery@1.1.0-beta.0", "@uniswap/v3-core@1.0.1",
    "@uniswap/v3-periphery@1.4.4", "@pancakeswap/v3-core@1.0.2", "@uniswap/v4-core@1.0.2",
    "@uniswap/v4-periphery@1.0.3", f"{AERODROME}@1.2.0", "@openzeppelin/contracts@5.4.0", "solc@0.8.26",
)  # fmt: skip
ARTIFACTS = (
    "@uniswap/v2-core/build/UniswapV2Factory.json",
    "@uniswap/v2-periphery/build/UniswapV2Router02.json",
    "@uniswap/v2-periphery/build/WETH9.json",
    "@uniswap/v2-periphery/build/ERC20.json",
    "@uniswap/v3-core/artifacts/contracts/UniswapV3Factory.sol/UniswapV3Factory.json",
    "@uniswap/v3-periphery/artifacts/contracts/SwapRouter.sol/SwapRouter.json",
    "@uniswap/v3-periphery/artifacts/contracts/NonfungiblePositionManager.sol/NonfungiblePositionManager.json",
    "@pancakeswap/v3-core/artifacts/contracts/PancakeV3Factory.sol/PancakeV3Factory.json",
    "@pancakeswap/v3-core/artifacts/contracts/PancakeV3Pool.sol/PancakeV3Pool.json",
    "@uniswap/v4-core/out/PoolManager.sol/PoolManager.json",
    "@uniswap/v4-core/out/PoolModifyLiquidityTest.sol/PoolModifyLiquidityTest.json",
    "@uniswap/v4-core/out/DynamicFeesTestHook.sol/DynamicFeesTestHook.json",
    "@uniswap/v4-core/out/DeltaReturningHook.sol/DeltaReturningHook.json",
    "@uniswap/v4-periphery/foundry-out/MockV4Router.sol/MockV4Router.json",
)
"""Compiled contracts. Each contract has the name of its file."""
SOURCES = tuple(
    f"{AERODROME}/domains/aerodrome/contracts/{path}.sol"
    for path in ("Pool", "Router", "factories/PoolFactory", "factories/FactoryRegistry")
)
OWN = Path(__file__).parent / "contracts"
COMPILER = OWN / "compile.cjs"
COMPILING = 300.0  # seconds
FIRST_INSTALL_SECONDS = 600
"""The time limit of a test that may be the first one that installs the packages."""


@dataclass(frozen=True)
class EvmPackages:
    """The folder that has anvil and the code that creates each contract."""

    folder: Path

    @classmethod
    def cached(cls) -> EvmPackages:
        """The packages in the user's cache, into which the first run installs them: some contracts take long to
        compile."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        cache.mkdir(parents=True, exist_ok=True)
        made_of = [
            repr((PACKAGES, ARTIFACTS, SOURCES)).encode(),
            *(path.read_bytes() for path in sorted(OWN.iterdir())),
        ]
        return cls.install(cache / f"marketdata-evm-{hashlib.sha256(b''.join(made_of)).hexdigest()[:16]}")

    @classmethod
    def install(cls, folder: Path) -> EvmPackages:
        """Install the packages into ``folder``, or use those that another process has installed there."""
        found = cls(folder)
        folder.mkdir(exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not found._codes.exists():
                npm = folder / "npm"
                npm.mkdir(exist_ok=True)
                npm_install(PACKAGES, npm, "--legacy-peer-deps")  # without peer dependencies, such as Hardhat
                modules = npm / "node_modules"
                shutil.move(modules / ANVIL / "bin" / "anvil", found.anvil)
                codes = {Path(path).stem: _code(json.loads((modules / path).read_text())) for path in ARTIFACTS}
                found._codes.write_text(json.dumps(codes | _compiled(modules)))
                shutil.rmtree(npm)
        return found

    @property
    def anvil(self) -> Path:
        return self.folder / "anvil"

    @property
    def _codes(self) -> Path:
        return self.folder / "contracts.json"

    def bytecode(self, contract: str) -> str:
        """The code that creates the contract."""
        code: str = json.loads(self._codes.read_text())[contract]
        return code


def _code(artifact: dict[str, Any]) -> str:
    """The creation code in a build artifact of Hardhat, Truffle or Foundry."""
    found = artifact["bytecode"]
    code: str = found if isinstance(found, str) else found["object"]
    return code.removeprefix("0x")


def _compiled(modules: Path) -> dict[str, str]:
    own = [str(path) for path in sorted(OWN.glob("*.sol"))]
    done = subprocess.run(
        ["node", COMPILER, modules, *SOURCES, *own],
        capture_output=True, text=True, timeout=COMPILING, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    codes: dict[str, str] = json.loads(done.stdout)
    return codes

"""From version 1 to version 2 and back while ticks and reorganisations arrive through the APIs; nothing is lost or
stored twice."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from tests.functional.chain_market import Market
from tests.functional.evm_packages import EvmPackages
from tests.functional.ingestor_process import IngestorProcess
from tests.functional.market_process import ROOT, SECONDS, ApiProcess
from tests.functional.market_versions import Chain, Versions, assert_holds
from tests.functional.serving import until

pytestmark = pytest.mark.functional


@pytest.fixture(params=["plain", "citus"])
def versions(request: pytest.FixtureRequest, state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Versions]:
    """Version 1 is plain, and version 2 is too, or is distributed over the workers of a Citus."""
    with ExitStack() as stack:
        current, options = ApiProcess(state_dir), ()
        if request.param == "citus":
            url = request.getfixturevalue("citus").fresh_database().url
            monkeypatch.setenv("DATABASE_URL", url)
            make_first_version(state_dir)
            current, options = ApiProcess(state_dir, DATABASE_URL=url), ("--shards", "6")
        current.start()
        yield stack.enter_context(closing(Versions(current, *options)))


def make_first_version(state_dir: Path) -> None:
    """Do what an API does at its first start on its own PostgreSQL, in the database of ``DATABASE_URL``."""
    secrets = state_dir / "secrets"
    secrets.mkdir(0o700)
    for command in (
        ("version", "1"),
        ("token", "create", "--name", "read", "--scope", "read", "--output", str(secrets / "read.json")),
        ("token", "create", "--name", "alg", "--scope", "write", "--output", str(secrets / "alg.json")),
    ):
        subprocess.run(
            [sys.executable, "-P", "-m", "marketdata", *command], cwd=ROOT, check=True, capture_output=True,
            env=os.environ | {"MARKET_STATE_DIR": str(state_dir)},
        )  # fmt: skip


@pytest.fixture
def chain(versions: Versions) -> Chain:
    return Chain(lambda: versions.current.port, versions.current.token("alg"))


def test_a_cutover_and_a_rollback_under_load_lose_and_double_nothing(versions: Versions, chain: Chain) -> None:
    chain.grow(200)
    chain.start()
    for current, new in ((1, 2), (2, 1)):
        versions.follow(current, new)
        before = chain.sent
        said = versions.run("cutover", str(new))
        assert f"version {new} is the current one, and version {current} is kept" in said
        until(lambda new=new: versions.served(versions.current) == f"md_ticks_v{new}", SECONDS)
        until(lambda before=before: chain.sent > before + 200, SECONDS)
        versions.end_copy()
    chain.stop()
    assert chain.reorganisations > 10
    assert_holds(versions.current, chain)


@pytest.fixture
def market(evm_packages: EvmPackages) -> Iterator[Market]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        found = Market(evm_packages, Path(folder), full=True)
        found.api.start()
        yield found
        found.close()


@contextmanager
def ingestor(market: Market, api: ApiProcess, n: int, start_block: int = 0) -> Iterator[IngestorProcess]:
    """An ingestor that writes to version ``n``. The ingestor of another version may run at the same time."""
    found = IngestorProcess(api, market.chain.url, market.pools)
    found.configure(pools=[pool.entry() | {"start_block": start_block} for pool in market.pools])
    found.settings = {"MARKET_ENV_FILE": str(api.state_dir / f"v{n}.env")}
    found.start()
    try:
        yield found
    finally:
        found.stop()


def test_the_ingestor_of_the_new_version_starts_before_the_other_one_stops(market: Market) -> None:
    def reorganise(blocks: int = 3) -> None:
        market.trade(blocks + 1)
        market.chain("anvil_reorg", blocks, [])
        market.trade(2)

    market.trade(8)
    with closing(Versions(market.api)) as versions:
        first = versions.api(1)
        with ingestor(market, first, 1) as old:
            market.assert_complete()
            reorganise()
            market.assert_complete()
            market.assert_covered()  # now, since version 1 refuses writes when another one has become the current one
            versions.follow(1, 2)
            recent = int(market.chain("eth_blockNumber"), 16) - 5  # older ticks come only through the copy
            with ingestor(market, versions.second, 2, recent):
                reorganise()
                switching = versions.begin("cutover", "2")
                while switching.poll() is None:
                    reorganise(1)
                said, _ = switching.communicate(timeout=SECONDS)
                assert switching.returncode == 0, said
                reorganise()
                assert old.stop() == 0
                versions.end_copy()
                reorganise()
                until(lambda: versions.served(market.api) == "md_ticks_v2", SECONDS)
                market.assert_complete()
                market.assert_covered()
                assert versions.served(first) == "md_ticks_v1"

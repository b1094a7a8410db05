"""One ingestor for two chains, each with a real node, of which one is away for a time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.functional.evm_packages import FIRST_INSTALL_SECONDS, EvmPackages
from tests.functional.ingestor_process import BackfillProcess
from tests.functional.serving import until
from tests.functional.two_chains import SECONDS, Chains, running_chains

pytestmark = [pytest.mark.functional, pytest.mark.timeout(FIRST_INSTALL_SECONDS)]


@pytest.fixture(scope="module")
def chains(evm_packages: EvmPackages) -> Iterator[Chains]:
    with running_chains(evm_packages) as found:
        yield found


def test_a_chain_that_is_dead_delays_no_other_and_catches_up(chains: Chains) -> None:
    chains.start()
    for _ in range(2):  # the coverage of a chain begins where the coverage of its first pool ends
        chains.trade_other()
        chains.assert_other()
    before = chains.chain_metrics("OTHER")
    chains.other.stop()
    until(lambda: "OTHER: 127.0.0.1:" in chains.market.ingestor.said(), SECONDS)
    for _ in range(3):
        chains.trade_live()
    assert chains.chain_metrics("OTHER")["read_until"] == before["read_until"]
    assert chains.chain_metrics("TEST")["head_block"] == int(chains.market.chain("eth_blockNumber"), 16)
    until(lambda: chains.covered() == {"TEST", "OTHER"})
    chains.other.start()
    chains.trade_other()
    chains.assert_other()
    assert chains.chain_metrics("OTHER")["read_until"] > before["read_until"]
    chains.market.assert_complete()


def test_the_backfill_reads_the_chains_one_after_the_other(chains: Chains) -> None:
    chains.start()
    chains.market.ingestor.stop()
    first, second = chains.listed
    # Without its outbox, the backfill treats all blocks as unread.
    (chains.market.api.state_dir / "ingestor" / "md_ticks_v1.sqlite").unlink()
    chains.market.chain.mine(5)
    chains.trade_other()
    backfill = BackfillProcess(chains.market.api, "", ())
    backfill.configure(**dict.fromkeys(first), chains=[second, first])
    done = backfill.run()
    assert done.returncode == 0, done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["OTHER", "TEST"]
    assert backfill.run("--chain", "TEST").stdout.startswith("TEST: nothing to read: ")
    done = backfill.run("--chain", "NONE")
    assert (done.returncode, done.stderr.endswith("rpc.json has no chain NONE: it has OTHER, TEST\n")) == (2, True)
    assert "add --chain" in backfill.run("--to-block", "5").stderr
    chains.other.stop()
    chains.market.trade(5)
    chains.market.chain.mine(5)
    done = backfill.run()
    assert (done.returncode, done.stdout.startswith("TEST: ")) == (1, True)
    assert "OTHER: 127.0.0.1:" in done.stderr
    chains.other.start()

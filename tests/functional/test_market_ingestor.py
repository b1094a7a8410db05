"""The ingestor on a real node with exchanges' contracts. The stored ticks are compared with the chain's receipts."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import product

import pytest

from tests.functional.anvil import CHAIN_ID
from tests.functional.chain_market import Market, kill_in_turn, running
from tests.functional.evm_packages import FIRST_INSTALL_SECONDS, EvmPackages
from tests.functional.exchanges.exchanges import trade
from tests.functional.exchanges.uniswap_v4 import AFTER_SWAP, AFTER_SWAP_RETURNS_DELTA
from tests.functional.market_process import SECONDS, Client
from tests.functional.serving import until

pytestmark = [pytest.mark.functional, pytest.mark.timeout(FIRST_INSTALL_SECONDS)]


@pytest.fixture(scope="module")
def module_market(evm_packages: EvmPackages) -> Iterator[Market]:
    with running(partial(Market, full=True), evm_packages) as found:
        yield found


@pytest.fixture
def market(module_market: Market) -> Iterator[Market]:
    """The tests share a chain: each test continues where the previous one ended, with a running ingestor."""
    module_market.ingestor.start()
    yield module_market
    module_market.ingestor.stop()


def test_live_ticks_and_candles_are_those_of_the_receipts(market: Market) -> None:
    for _ in range(2):
        market.trade(15)
        market.assert_complete()


def test_a_tick_is_the_change_of_the_traders_balances(market: Market) -> None:
    exchanges = market.exchanges
    made = {}
    for pool, sell, part in product(market.pools, (True, False), (150, 3000)):
        swapped = exchanges.swap(pool, pool.amounts[not sell] // part, sell=sell)
        market.chain.mine()
        receipt = market.chain.receipt(swapped)
        made[swapped] = trade(pool, *(exchanges.tokens.spent(receipt, token) for token in pool.tokens))
        assert made[swapped]["side"] == ("sell" if sell != pool.invert else "buy")
    market.assert_complete()
    ticks = {
        tick["tx"]: {name: tick[name] for name in ("price", "size", "side")} for tick in exchanges.ticks(*market.pools)
    }
    assert {transaction: ticks[transaction] for transaction in made} == made


def test_check_finds_what_is_wrong(market: Market) -> None:
    done = market.ingestor.run("check")
    assert done.returncode == 0, done.stderr
    assert f"chain {CHAIN_ID}, block " in done.stdout
    assert done.stdout.count("with 18 decimals") == sum(pool.decimals.count(18) for pool in market.pools)
    decimals, address, kind, *rest = [pool.entry() for pool in market.pools]
    decimals["decimals"] = [18, 18]
    address["address"] = "0x" + "ab" * 20
    kind["kind"] = "uniswap-v2"
    [id] = [entry for entry in rest if entry["symbol"] == "ETH-SIX"]
    id["address"] = id["address"][:-64] + "ab" * 32
    market.ingestor.configure(pools=[decimals, address, kind, *rest])
    done = market.ingestor.run("check")
    market.ingestor.configure(pools=[pool.entry() for pool in market.pools])
    assert done.returncode == 1
    wrong = [line for line in done.stdout.splitlines() if "WRONG" in line]
    expected = ("and rpc.json says 18", "no pool", "it is a uniswap-v3 pool", "no pool with this id was ever created")
    assert [part in line for part, line in zip(expected, wrong, strict=True)] == [True] * 4


def test_of_two_ingestors_one_is_a_standby_and_takes_over(market: Market) -> None:
    """It says once who holds the lease."""
    market.ingestor.stop()
    # On another machine: the same table, but neither the lock nor the outbox.
    state = market.api.state_dir
    elsewhere = {"MARKET_STATE_DIR": str(state / "elsewhere"), "MARKET_SECRETS_DIR": str(state / "secrets")}
    for holder, settings in ((r"process [0-9]+", {}), (r"\S+ \S+", elsewhere)):
        said = re.compile(f"standby: {holder} holds the lease\n")
        running = market.ingestor.begin()
        begun = [running]
        try:
            market.trade(1)
            market.assert_complete()
            with (state / "standby.log").open("w+") as log:
                standby = market.ingestor.begin(log, **settings)
                begun.append(standby)
                until(lambda said=said: said.search((state / "standby.log").read_text()), 30)
                running.kill()
                market.trade(1)
                began = time.monotonic()
                market.assert_complete()
                assert time.monotonic() - began < 35
                standby.terminate()
                assert standby.wait(SECONDS) == 0
                assert len(re.findall("standby", (state / "standby.log").read_text())) == 1
        finally:
            for each in begun:
                each.kill()
                each.communicate()


def test_what_somebody_may_mend_is_waited_for_and_said_once(market: Market) -> None:
    market.ingestor.stop()
    token = market.api.state_dir / "secrets" / "alg.json"
    content = token.read_text()
    token.unlink()
    market.ingestor.start()
    waited = f"waiting for a usable file: the secret file {token} does not exist"
    until(lambda: waited in market.ingestor.said(), 30)
    token.write_text(content)
    token.chmod(0o600)
    market.trade(1)
    market.assert_complete()
    assert market.ingestor.said().count(waited) == 1
    market.ingestor.stop()
    entry = market.pools[0].entry()
    of_native = {
        "quotes": {"usd": [], "native": [entry["address"]]},
        "factories": [{"kind": "uniswap-v2", "address": market.exchanges.v2.factory, "start_block": 0}],
    }
    for changes, words in (
        ({"chain_id": 999}, "is on the chain"),
        ({"pools": [entry | {"address": "0x" + "ab" * 20}]}, "there is no pool"),
        ({"pools": [entry | {"decimals": [1, 1]}]}, "and rpc.json says 1"),
        ({"pools": [entry | {"kind": "uniswap-v3"}]}, "it is a uniswap-v2 pool"),
        (of_native, "must be in quotes/usd"),
        (None, "rpc.json does not exist"),
    ):
        if changes is None:
            (market.api.state_dir / "secrets" / "rpc.json").unlink()
        else:
            market.ingestor.configure(**changes)
        process = market.ingestor.begin()
        try:
            assert process.stdout is not None
            until(lambda process=process, words=words: words in process.stdout.readline(), 30)
            assert process.poll() is None
            process.terminate()
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()
            process.communicate()
            pools = [pool.entry() for pool in market.pools]
            market.ingestor.configure(chain_id=CHAIN_ID, pools=pools, quotes=None, factories=None)
    token.write_text(content.replace("write", "read"))
    assert market.ingestor.run().returncode == 2
    token.write_text(content)


def test_candles_are_finalized_up_to_the_block_that_the_chain_calls_final(market: Market) -> None:
    market.ingestor.stop()
    market.ingestor.configure(confirmations="finalized")
    try:
        market.ingestor.start()
        market.trade(8)  # the last of these blocks are not final
        market.assert_complete()
        last = int(market.chain("eth_blockNumber"), 16) - 4
        end = int(market.chain("eth_getBlockByNumber", hex(last), False)["timestamp"], 16) * 1000
        with closing(Client(market.api.port, market.api.token("read"))) as read:
            until(lambda: {each["finalized_block"] for each in read("GET", "/v1/symbols")[1]["symbols"]} == {last})
            for pool in market.pools:
                path = f"/v1/chart?symbol=TEST:{pool.name}&interval=1s&fill=previous&limit=10000"
                candles = read("GET", f"{path}&startTime={end - 600_000}")[1]["candles"]
                assert {each["T"] < end for each in candles} == {True, False}
                assert [each["finalized"] for each in candles] == [each["T"] < end for each in candles]
    finally:
        market.ingestor.stop()
        market.ingestor.configure(confirmations=12)
        market.ingestor.start()


def test_announced_blocks_are_read_at_once_also_after_the_node_was_away(market: Market) -> None:
    market.ingestor.stop()
    # Without announcements, a block would be read a minute later.
    market.ingestor.configure(ws_url=f"ws://127.0.0.1:{market.chain.port}", poll_s=60)
    lost = "does not announce new blocks"
    try:
        market.ingestor.start()
        for _ in range(3):
            market.trade(1)
            market.assert_complete()
        market.chain.stop()
        until(lambda: lost in market.ingestor.said(), SECONDS)
        market.chain.start()
        market.trade(1)  # possibly before the ingestor has connected again
        market.assert_complete()
        market.trade(1)
        market.assert_complete()
        assert market.ingestor.stop() == 0
    finally:
        market.ingestor.kill()
        market.ingestor.configure(ws_url=None, poll_s=0.05)
    assert market.ingestor.said().count(lost) == 1


def test_reorganisations_of_any_depth_are_followed(market: Market) -> None:
    market.trade(30)
    market.assert_complete()
    before = market.ingestor.said().count("reorganisation: ")
    for depth in (1, 5, 30):
        market.chain("anvil_reorg", depth, [])
        market.trade(2)
        market.assert_complete()
    assert market.ingestor.said().count("reorganisation: ") >= before + 3
    market.ingestor.kill()  # the next one happens while it is down
    market.chain("anvil_reorg", 7, [])
    market.trade(3)
    market.chain.mine(150)  # enough blocks that the ingestor reads ranges
    market.ingestor.start()
    market.assert_complete()
    assert market.ingestor.said().count("reorganisation: ") >= before + 4
    assert market.ingestor.stop() == 0  # a stop reports the coverage without delay
    market.assert_covered()


def test_a_lost_outbox_leaves_no_ticks_of_replaced_blocks(market: Market) -> None:
    market.trade(6)
    market.assert_complete()
    market.ingestor.stop()
    outbox = market.api.state_dir / "ingestor" / "md_ticks_v1.sqlite"
    market.chain("anvil_reorg", 5, [])
    market.trade(2)
    outbox.unlink()
    market.ingestor.start()
    market.assert_complete()
    assert "does not have" in market.ingestor.said()


def test_a_damaged_outbox_is_named_once_and_rebuilt(market: Market) -> None:
    market.trade(6)
    market.assert_complete()
    assert market.ingestor.run("outbox", "rebuild").returncode == 4, "it is in use"
    market.ingestor.stop()
    outbox = market.api.state_dir / "ingestor" / "md_ticks_v1.sqlite"
    pages = bytearray(outbox.read_bytes())
    pages[4096:] = b"\xa5" * (len(pages) - 4096)
    outbox.write_bytes(pages)
    market.chain("anvil_reorg", 5, [])
    market.trade(2)
    before = market.ingestor.said()
    market.ingestor.start()
    until(lambda: f"{outbox} is damaged" in market.ingestor.said()[len(before) :], 30)
    assert "bin/marketdata-ingestor outbox rebuild" in market.ingestor.said()[len(before) :]
    assert market.ingestor.stop() == 0
    assert market.ingestor.said()[len(before) :].count("is damaged") == 1
    done = market.ingestor.run("outbox", "rebuild")
    assert (done.returncode, done.stderr) == (0, "")
    assert "could not be read: dead_letters" in done.stdout
    market.ingestor.start()
    market.assert_complete()


def test_it_stops_while_the_api_does_not_answer(market: Market) -> None:
    market.trade(1)
    market.assert_complete()  # it runs
    os.kill(market.api.pid, signal.SIGSTOP)  # the kernel accepts connections nevertheless
    try:
        market.trade(2)
        assert market.ingestor.stop() == 0
    finally:
        os.kill(market.api.pid, signal.SIGCONT)
    market.ingestor.start()
    market.assert_complete()


def test_a_pool_whose_hooks_change_amounts_is_not_read_but_listed_with_the_reason(market: Market) -> None:
    v4 = market.exchanges.v4
    [listed] = [pool for pool in market.pools if pool.name == "ETH-SIX"]
    hooks = v4.hooks("DeltaReturningHook", AFTER_SWAP | AFTER_SWAP_RETURNS_DELTA, v4.manager)
    pool = v4.pool("DELTA", dict(zip(listed.tokens, listed.amounts, strict=True)), hooks=hooks)
    market.ingestor.stop()
    market.ingestor.configure(factories=[{"kind": "uniswap-v4", "address": v4.manager, "start_block": 0}])
    market.ingestor.start()
    v4.swap(pool, 10**6, sell=False)
    market.trade(2)
    market.assert_complete()
    done = market.ingestor.run("pools")
    reason = "its hooks change the amounts of swaps (AFTER_SWAP_RETURNS_DELTA)"
    assert f"{pool.address}  not read: {reason}\n" in done.stdout, done.stdout + done.stderr
    assert done.stdout.endswith(f"\n{len(market.pools)} pools are read, 1 are not\n")
    assert market.ingestor.run("pools", "--chain", "TEST").stdout == done.stdout
    done = market.ingestor.run("pools", "--chain", "NONE")
    assert (done.returncode, done.stderr.endswith("rpc.json has no chain NONE: it has TEST\n")) == (2, True)
    with closing(Client(market.api.port, market.api.token("read"))) as read:
        symbols = {each["symbol"] for each in read("GET", "/v1/symbols")[1]["symbols"]}
    assert symbols == {f"TEST:{each.name}" for each in market.pools}
    market.ingestor.configure(factories=[])


def test_kills_lose_nothing_and_double_nothing(market: Market) -> None:
    kill_in_turn(market, 6)

"""How a final block and the coverage of a chain appear to readers of its symbols over HTTP and WebSocket."""

from __future__ import annotations

from typing import Any

import pytest

from tests.marketdata.api.conftest import Api, Make
from tests.marketdata.api.live_client import LiveClient
from tests.marketdata.api.test_live import MINUTE, T, block, settle


def final(chain: str, number: int, ts: int) -> dict[str, Any]:
    return {"finalize": {"chain": chain, "block": number, "ts": ts}}


def minutes(tick: Make, symbol: str, count: int = 4) -> list[dict[str, Any]]:
    return [tick(symbol=symbol, id=f"{n}", ts=T + n * MINUTE, block=block(n)) for n in range(count)]


def cover(api: Api, start: int, end: int, state: str = "indexed", status: int = 200, **named: Any) -> Any:
    return api("PUT", "/v1/coverage", {**named, "from": start, "to": end, "state": state}, status=status).json


def test_a_final_block_names_a_symbol_or_a_chain_with_its_time(api: Api) -> None:
    both = {"symbol": "CH:A", "chain": "CH", "block": 1, "ts": T}
    answer = api.ingest(
        final("CH", 1, T), {"finalize": {"chain": "CH", "block": 1}}, final("C:H", 1, T), {"finalize": both}
    )
    assert answer["accepted"] == 1
    assert [each["index"] for each in answer["rejected"]] == [1, 2, 3]
    pointers = [each["detail"].partition(" ")[0] for each in answer["rejected"]]
    assert pointers == ["/finalize/ts", "/finalize/chain", "/finalize/symbol"]


def test_the_stored_blocks_that_are_not_final_are_named(api: Api, tick: Make) -> None:
    def named(more: str = "") -> list[tuple[str, int, str]]:
        found = api.get(f"/v1/blocks?chain=OPEN{more}")
        assert (found["chain"], found["more"]) == ("OPEN", False)
        return [(each["symbol"], each["number"], each["hash"]) for each in found["blocks"]]

    assert named() == []
    fork = tick(symbol="OPEN:A", id="fork", ts=T + 3 * MINUTE, block={"number": 3, "hash": "0xfork"})
    api.ingest(*minutes(tick, "OPEN:A"), *minutes(tick, "OPEN:B"), *minutes(tick, "OPENX:A"), fork)
    api.ingest(tick(symbol="OPEN:PLAIN", ts=T))
    assert len(named()) == 9
    api.ingest({"finalize": {"symbol": "OPEN:B", "block": 3}}, final("OPEN", 1, T + MINUTE))
    hashes = {n: block(n)["hash"] for n in range(4)}
    newest = [("OPEN:A", 3, each) for each in sorted(("0xfork", hashes[3]))]
    assert named() == [*newest, ("OPEN:A", 2, hashes[2])]
    assert named("&below=3") == [("OPEN:A", 2, hashes[2])]


@pytest.mark.parametrize(
    "query", ["interval=1m&format=csv", f"interval=5m&fill=previous&format=columns&startTime={T}&limit=9"]
)
def test_the_tag_of_candles_changes_with_the_finality_of_the_chain(api: Api, tick: Make, query: str) -> None:
    chain = f"TAG{len(query)}"
    symbol, trades, other = f"{chain}:A", f"{chain}:B", f"{chain}X:A"
    api.ingest(*minutes(tick, symbol), *minutes(tick, other), tick(symbol=trades, ts=T))
    paths = {name: f"/v1/chart?symbol={name}&{query}" for name in (symbol, trades, other)}
    before = {name: api("GET", path, status=200) for name, path in paths.items()}
    for _ in range(2):  # also from the response cache
        for name, path in paths.items():
            api("GET", path, headers={"If-None-Match": before[name].headers["ETag"]}, status=304)
    api.ingest(final(chain, 3, T + 5 * MINUTE))
    found = api("GET", paths[symbol], headers={"If-None-Match": before[symbol].headers["ETag"]}, status=200)
    assert found.headers["ETag"] != before[symbol].headers["ETag"]
    assert found.text != before[symbol].text
    assert api("GET", paths[symbol], status=200).headers["ETag"] == found.headers["ETag"]
    for name in (trades, other):
        api("GET", paths[name], headers={"If-None-Match": before[name].headers["ETag"]}, status=304)
    # Within a bucket nothing changes for a reader.
    api.ingest(final(chain, 4, T + 5 * MINUTE + 1000))
    api("GET", paths[symbol], headers={"If-None-Match": found.headers["ETag"]}, status=304)


def test_subscribers_of_a_chain_get_the_candles_that_became_final_once(
    api: Api, client: LiveClient, tick: Make
) -> None:
    for symbol in ("LIVECHAIN:A", "LIVECHAIN:B", "LIVECHAINX:A"):
        api.ingest(*minutes(tick, symbol))
        api.ingest(final(symbol.partition(":")[0], 0, T))
        client.subscribe(symbol, "1m")
    client.subscribe("LIVECHAIN:A", "ticks")
    client.subscribe("LIVECHAIN:A", "1h")
    settle(api, client, tick)
    api.ingest(final("LIVECHAIN", 1, T + MINUTE - 1))
    api.ingest(final("LIVECHAIN", 2, T + 2 * MINUTE))
    received = [client.receive() for _ in range(4)]
    found = {(each["symbol"], each["candle"]["t"]): each["candle"]["finalized"] for each in received}
    assert found == {(f"LIVECHAIN:{name}", T + n * MINUTE): True for name in "AB" for n in (0, 1)}
    settle(api, client, tick)  # nothing else was sent


def settled(api: Api, symbol: str) -> list[tuple[int, int]]:
    """The shown ranges of a symbol, in minutes after T."""
    found = api.get(f"/v1/coverage?symbol={symbol}")["ranges"]
    return [((each["from"] - T) // MINUTE, (each["to"] - T) // MINUTE) for each in found]


def test_coverage_of_a_list_and_of_a_chain(api: Api) -> None:
    names = ["COV:A", "COV:B"]
    assert cover(api, T, T + MINUTE, "joined", symbols=names) == {
        "symbols": names, "from": T, "to": T + MINUTE, "state": "joined"
    }  # fmt: skip
    assert cover(api, T + MINUTE, T + 3 * MINUTE, chain="COV")["chain"] == "COV"
    assert settled(api, "COV:A") == settled(api, "COV:B") == [(0, 3)]
    assert "symbols join a chain" in cover(api, T, T + MINUTE, "joined", 422, chain="COV")["detail"]
    cover(api, T + 2 * MINUTE, T + 3 * MINUTE, "failed", chain="COV")
    assert settled(api, "COV:A") == [(0, 2)]
    api.problem("GET", "/v1/coverage?symbol=COV:C", status=404, code="unknown_symbol")


def test_coverage_names_exactly_one(api: Api) -> None:
    for named, message in [
        ({}, "is missing symbol or symbols or chain"),
        ({"symbol": "A:A", "chain": "A"}, "send one of them"),
        ({"symbols": []}, "must have at least 1"),
        ({"symbols": ["A:A", "A A"]}, "pattern"),
        ({"symbols": ["A:A"] * 10_001}, "must have at most 10000 items"),
        ({"chain": "A:"}, "pattern"),
        ({"chain": ""}, "pattern"),
    ]:
        assert message in cover(api, T, T + MINUTE, status=422, **named)["detail"], message

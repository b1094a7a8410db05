"""The response to a request with items in several shards, with stand-ins for the nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from marketdata.errors import DatabaseDefect, DatabaseUnavailable, InvalidValue, MarketError, PartlyStored
from marketdata.store import ticks
from marketdata.store.placement import Placement
from marketdata.store.pool import Pool
from marketdata.store.shard_ingest import ShardIngest
from marketdata.store.ticks import Ingested, Outcome
from marketdata.store.version import Version
from marketdata.tick import Tick, parse_tick

VERSION = replace(Version.of("md", 1), shards=2)
Refused = Callable[[MarketError, Sequence[Tick]], MarketError]
GOOD, BAD = "GOOD:A", "BAD:A"


class Shards:
    """A placement in which each symbol is a shard, and the one of ``BAD`` fails with ``error``."""

    def __init__(self, error: MarketError) -> None:
        self._error = error

    def grouped(self, _version: Version, names: Iterable[str]) -> list[list[str]]:
        return [[name] for name in names]

    def begin(self, work: Callable[[], Any]) -> Callable[[], Any]:
        return work

    def write(self, version: Version, names: Sequence[str], work: Callable[[Any, Version], Any]) -> Any:
        if BAD in names:
            raise self._error
        return work(None, version)


@pytest.fixture
def ingest(monkeypatch: pytest.MonkeyPatch) -> Refused:
    """The error of a request with these ticks."""

    def stored(_connection: object, _version: Version, items: Sequence[Tick]) -> Ingested:
        return Ingested([Outcome.DUPLICATE if each.id == "again" else Outcome.CREATED for each in items], {})

    def raised_by(error: MarketError, items: Sequence[Tick]) -> MarketError:
        with pytest.raises(MarketError) as raised:
            ShardIngest(cast(Placement, Shards(error)), cast(Pool, None)).ingest(VERSION, items)
        return raised.value

    monkeypatch.setattr(ticks, "ingest", stored)
    return raised_by


def tick(symbol: str, identity: str) -> Tick:
    return parse_tick({"symbol": symbol, "id": identity, "ts": 1_700_000_000_000, "price": "1", "size": "1"})


REQUEST = [tick(GOOD, "new"), tick(BAD, "new"), tick(GOOD, "again")]


def test_the_items_of_other_shards_are_counted_when_a_node_does_not_answer(ingest: Refused) -> None:
    error = ingest(DatabaseUnavailable("down"), REQUEST)
    assert isinstance(error, PartlyStored)
    assert error.extra == {"accepted": 1, "duplicates": 1, "refused": 0}
    assert error.detail.startswith("2 of 3 items")


def test_an_item_that_is_never_stored_is_no_reason_to_send_the_request_again(ingest: Refused) -> None:
    for kind in (InvalidValue, DatabaseDefect):
        assert type(ingest(kind("refused"), REQUEST)) is kind

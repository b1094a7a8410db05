"""Reads of a distributed version by clients that know of a counter, with a stand-in for the nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, cast

import pytest

from marketdata.api.current_reads import CurrentReads
from marketdata.api.replicas import Replicas
from marketdata.store import symbols
from marketdata.store.placement import IsCurrent, Placement
from marketdata.store.pool import Pool
from marketdata.store.symbols import StoredCounter
from marketdata.store.version import Version

VERSION = replace(Version.of("md", 1), shards=2)
SYMBOL = "X:A"
FORMER, NOW = "former node", "node"
COUNTERS = {FORMER: 3, NOW: 4}


class Nodes:
    """A placement that knows the former node of the shard until it is read again."""

    def __init__(self) -> None:
        self.reads: list[str] = []

    def read(
        self,
        version: Version,
        _names: Collection[str],
        work: Callable[[Any, Version], Any],
        is_current: IsCurrent,
        **_options: bool,
    ) -> Any:
        for node in (FORMER, NOW, NOW, NOW):
            self.reads.append(node)
            result = work(node, version)
            if is_current is None or is_current(cast(Any, node), version):
                return result
        pytest.fail("the read was repeated again and again")


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Nodes:
    def counters(node: str, _version: Version, names: Collection[str]) -> dict[str, StoredCounter]:
        return {name: StoredCounter(name, COUNTERS[node]) for name in names}

    monkeypatch.setattr(symbols, "counters", counters)
    return Nodes()


@pytest.fixture
def reads(nodes: Nodes) -> CurrentReads:
    pool = cast(Pool, None)
    return CurrentReads(pool, Replicas(pool, []), cast(Placement, nodes))


def node(connection: Any, _version: Version) -> Any:
    return connection


@pytest.mark.parametrize(
    ("known", "asked"),
    [(0, [FORMER]), (3, [FORMER]), (4, [FORMER, NOW]), (1000, [FORMER, NOW])],
    ids=["nothing known", "current", "written on the new node", "of another symbol"],
)
def test_the_placement_is_read_again_once_for_a_greater_counter(
    nodes: Nodes, reads: CurrentReads, known: int, asked: list[str]
) -> None:
    assert reads.read(VERSION, [SYMBOL], known, node) == asked[-1]
    assert nodes.reads == asked


def test_own_writes_need_no_header_until_their_symbol_is_removed(nodes: Nodes, reads: CurrentReads) -> None:
    reads.note(VERSION, {SYMBOL: 9})
    assert reads.read(VERSION, [SYMBOL], 0, node) == NOW
    assert not reads.is_current(VERSION, SYMBOL, 3, 0)
    assert reads.is_current(VERSION, SYMBOL, 4, 0)

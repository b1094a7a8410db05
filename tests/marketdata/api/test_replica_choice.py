"""Which replica is read, and which errors of a replica the primary answers for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from marketdata import errors
from marketdata.api.database_health import ReplicaHealth
from marketdata.api.log_position import Lag
from marketdata.api.replicas import Replica, Replicas, is_of_replica
from marketdata.store.pool import Pool


@dataclass
class Host:
    """A replica's check and its pool in one."""

    name: str
    usable_lag: Lag | None
    failure: errors.MarketError | None = None

    def error(self) -> errors.MarketError | None:
        return self.failure


PRIMARY = Host("primary", None)


def chosen(*hosts: Host, process: int | None = None) -> str:
    pairs = [Replica(cast(ReplicaHealth, host), cast(Pool, host)) for host in hosts]
    found: Any = Replicas(cast(Pool, PRIMARY), pairs, process).pool
    return str(found.name)


def lagging(name: str, seconds: float, failure: errors.MarketError | None = None) -> Host:
    return Host(name, Lag(seconds, 0), failure)


def test_the_least_lagging_of_the_usable_ones_is_read() -> None:
    assert chosen(lagging("a", 2.0), lagging("b", 0.5), Host("c", None)) == "b"
    assert chosen(lagging("a", 0.5), lagging("b", 2.0)) == "a"
    stalled = errors.DatabaseStalled("it does not react")
    assert chosen(lagging("a", 0.0, stalled), lagging("b", 2.0)) == "b"


def test_without_a_usable_one_the_primary_is_read() -> None:
    assert chosen() == "primary"
    assert chosen(Host("a", None), Host("b", None)) == "primary"


def test_processes_share_those_of_equal_lag() -> None:
    found = [chosen(lagging("a", 0.0), lagging("b", 0.0), process=number) for number in range(100, 104)]
    assert found == ["a", "b", "a", "b"]
    assert chosen(lagging("a", 0.0)) == "a"


def test_the_primary_answers_for_a_broken_replica_and_not_for_a_busy_one() -> None:
    broken = (
        errors.DatabaseUnavailable, errors.DatabaseStalled, errors.Contended, errors.VersionMissing,
        errors.DatabaseDefect,
    )  # fmt: skip
    busy = (errors.DatabaseExhausted, errors.TooSlow, errors.NotFound, errors.InvalidValue)
    assert [kind for kind in (*broken, *busy) if is_of_replica(kind(""))] == list(broken)

"""Leases: one holder at a time, by the database's clock, and a fencing number that identifies former holders."""

from __future__ import annotations

import uuid

import pytest

from marketdata.errors import Conflict
from marketdata.store import leases
from marketdata.store.pool import Connection


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex


def run_out(conn: Connection, name: str) -> None:
    conn.execute("UPDATE market_leases SET expires_at = clock_timestamp() WHERE name = %s", (name,))


def test_a_renewal_keeps_the_number(conn: Connection, name: str) -> None:
    first = leases.take(conn, name, "one", 60)
    second = leases.take(conn, name, "one", 120)
    assert second.fencing == first.fencing
    assert second.expires_at > first.expires_at


def test_an_expired_lease_is_taken_with_a_greater_fencing_number(conn: Connection, name: str) -> None:
    """This holds for the former holder, too: it may have been suspended while another one had the lease."""
    numbers = [leases.take(conn, name, "one", 60).fencing]
    for holder in ("one", "two", "two", "one"):
        run_out(conn, name)
        numbers.append(leases.take(conn, name, holder, 60).fencing)
        with pytest.raises(Conflict) as refused:
            leases.take(conn, name, "three", 60)
        assert refused.value.extra == {"holder": holder}
    assert numbers == sorted(set(numbers))


def test_an_expired_lease_cannot_be_released(conn: Connection, name: str) -> None:
    leases.take(conn, name, "one", 60)
    run_out(conn, name)
    assert not leases.release(conn, name, "one")
    assert not leases.release(conn, name, "two")


def test_a_released_lease_is_taken_with_a_greater_fencing_number(conn: Connection, name: str) -> None:
    first = leases.take(conn, name, "one", 60)
    assert leases.release(conn, name, "one")
    assert leases.take(conn, name, "one", 60).fencing > first.fencing

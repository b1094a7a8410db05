"""Candles in named time zones against the clock of the standard library, around changes of the offset."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime

import pytest

from marketdata.errors import InvalidValue
from marketdata.interval import DAY, SECOND, WIDTHS, Zone, bucket_end, bucket_open
from marketdata.store import ticks
from marketdata.store.pool import Connection, Pool
from marketdata.store.postgres_errors import translated
from marketdata.store.time_zones import TimeZones
from marketdata.store.version import Version
from marketdata.tick import Finalize

from . import brute_force
from .brute_force import Asked
from .conftest import new_symbol, tick
from .test_candles import check
from .zone_oracle import Window

CHANGES = {
    "an hour forward": ("America/New_York", date(2024, 3, 10)),
    "an hour back": ("America/New_York", date(2024, 11, 3)),
    "an hour forward, east": ("Europe/Berlin", date(2024, 3, 31)),
    "an hour back, east": ("Europe/Berlin", date(2023, 10, 29)),
    "half an hour forward": ("Australia/Lord_Howe", date(2023, 10, 1)),
    "half an hour back": ("Australia/Lord_Howe", date(2024, 4, 7)),
    "midnight skipped, west": ("America/Sao_Paulo", date(2018, 11, 4)),
    "back from midnight": ("America/Sao_Paulo", date(2018, 2, 18)),
    "midnight skipped": ("Africa/Cairo", date(2024, 4, 26)),
    "back from the next midnight": ("Asia/Beirut", date(2023, 10, 29)),
    "fifteen minutes for good": ("Asia/Kathmandu", date(1986, 1, 1)),
    "a skipped day": ("Pacific/Apia", date(2011, 12, 30)),
    "midnight twice": ("America/Havana", date(2024, 11, 3)),
    "back from a minute after midnight": ("America/St_Johns", date(2010, 11, 7)),
    "three hours back": ("Antarctica/Casey", date(2010, 3, 5)),
    "forty minutes forward": ("Pacific/Kiritimati", date(1979, 10, 1)),
    "no change": ("Asia/Kolkata", date(2024, 2, 29)),
    "no change in months": ("Australia/Lord_Howe", date(2024, 1, 10)),
    "no change in years": ("Asia/Kathmandu", date(2024, 2, 29)),
}
"""A zone, and a date within a day of a change of its offset, or far from one."""


@pytest.fixture(scope="module")
def zones(database: str, version: Version) -> Iterator[TimeZones]:
    pool = Pool(database, application_name="zones", size=1)
    yield TimeZones(pool)
    pool.close(5.0)


def moment(change: str) -> int:
    return int(datetime.combine(CHANGES[change][1], datetime.min.time(), UTC).timestamp()) * SECOND


def test_buckets_are_those_of_the_local_clock(zones: TimeZones) -> None:
    for change, (name, around) in CHANGES.items():
        zone, window = zones.find(name), Window(name, around)
        for interval in WIDTHS:
            buckets = window.buckets(interval, every={"1s": 1013, "1m": 31, "3m": 11, "5m": 7}.get(interval, 1))
            assert len(buckets) >= 2, (change, interval)
            for opened, end in buckets:
                found = bucket_open(opened, interval, zone), bucket_open(end - 1, interval, zone)
                assert found == (opened, opened), (change, interval)
                assert bucket_end(opened, interval, zone) == end, (change, interval)


def test_a_day_of_a_change_has_23_or_25_hours(zones: TimeZones) -> None:
    zone = zones.find("America/New_York")
    for change, hours in (("an hour forward", 23), ("an hour back", 25)):
        opened = bucket_open(moment(change) + 12 * 3600 * SECOND, "1d", zone)
        assert bucket_end(opened, "1d", zone) - opened == hours * 3600 * SECOND, change


def test_candles_around_every_change_are_exact(conn: Connection, version: Version, zones: TimeZones) -> None:
    for change, (name, _) in CHANGES.items():
        zone, around, symbol = zones.find(name), moment(change), new_symbol()
        held = [
            tick(symbol, str(n), around + n * 3541 * SECOND, str(n + 61), block_number=n + 60) for n in range(-60, 60)
        ]
        ticks.ingest(conn, version, [*held, Finalize(symbol, 60)])
        for interval in WIDTHS:
            asked = Asked(interval, start=around - 2 * DAY, limit=150, zone=zone)
            check(conn, version, symbol, brute_force.candles(held, interval, zone), asked, held[60].ts)


def test_the_function_knows_the_buckets_of_every_zone(conn: Connection, version: Version, zones: TimeZones) -> None:
    """Clients of SQL call it with the name of a zone, also for intervals whose buckets are those of UTC."""
    symbol, zone = new_symbol(), zones.find("Asia/Kathmandu")
    held = [tick(symbol, str(n), moment("fifteen minutes for good") + n * 777 * SECOND) for n in range(-99, 99)]
    ticks.ingest(conn, version, held)
    query = version.query("SELECT {ms}(t), {ms}(t_end), n FROM {candles}(%s, %s, time_zone => %s) ORDER BY t")
    for interval in WIDTHS:
        made = brute_force.candles(held, interval, zone)
        rows = conn.execute(query, (symbol, interval, "asia/kathmandu")).fetchall()
        assert rows == [(each.opened // 1000, each.end // 1000, each.n) for each in made]


def test_an_unknown_name_is_refused_in_words(zones: TimeZones) -> None:
    for name in ("Europe/Brlin", "CEST", "EST5EDT4", "UTC+3", "posix/Europe/Berlin", "localtime", "x"):
        with pytest.raises(InvalidValue, match="send an offset from UTC like ") as refused:
            zones.find(name)
        assert refused.value.errors[0].pointer == "/timeZone"
        assert name in refused.value.detail


def test_a_name_may_be_written_in_any_case(zones: TimeZones) -> None:
    assert zones.find("europe/BERLIN") is zones.find("Europe/Berlin")
    assert zones.find("europe/berlin").name == "Europe/Berlin"
    assert zones.find("Etc/GMT 5").name == "Etc/GMT+5"
    assert zones.find("Etc/GMT+5").for_buckets("1d") == Zone.fixed(-300)
    assert zones.find("UTC").for_buckets("1M") == Zone.fixed(0)
    assert zones.find("5:30") == Zone.fixed(330)


def test_the_function_refuses_an_unknown_name(conn: Connection, version: Version) -> None:
    with pytest.raises(InvalidValue, match="Europe/Brlin"), translated():
        conn.execute(version.query("SELECT * FROM {candles}('s', '1m', time_zone => 'Europe/Brlin')"))

"""Copy and comparison of versions whose ticks were pruned: stored candles stay the same, byte for byte."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from marketdata.errors import Pruned
from marketdata.interval import DAY, SECOND
from marketdata.operations import comparison
from marketdata.operations.comparison import EVERYTHING
from marketdata.operations.copy import Carried, Copy
from marketdata.operations.day_states import DAY_ROWS, Day, read_days
from marketdata.operations.version_pair import Pair
from marketdata.settings import Settings
from marketdata.store import candles as store_candles
from marketdata.store import prune, ticks
from marketdata.store.pool import Connection
from marketdata.store.ticks import Outcome
from marketdata.store.version import Version
from marketdata.tick import Item, Restore, Retract, Tick
from tests.marketdata.conftest import Command
from tests.marketdata.operations.accessed import access, pairs, store
from tests.marketdata.operations.test_copy import FIRST, SYMBOLS, carry
from tests.marketdata.store.conftest import START, stored_rollups, tick

Candles = dict[str, list[tuple[Any, ...]]]

DAYS = 5
PER_DAY = 30


def history(symbol: str = "A", *, seed: int = 1) -> list[Tick]:
    """Ticks of some days, in blocks of up to three, in any order."""
    rng = random.Random(seed)
    made = [
        tick(symbol, f"{day}:{n}", START + day * DAY + n * 977 * SECOND + rng.randrange(SECOND),
             f"{rng.randint(1, 10**6)}.{rng.randrange(100)}", f"{rng.randrange(1000)}.50", seq=n,
             side=rng.choice([None, "buy", "sell"]), block_number=day * PER_DAY + n // 3,
             block_hash=f"0x{day}-{n // 3}")
        for day in range(DAYS) for n in range(PER_DAY)
    ]  # fmt: skip
    rng.shuffle(made)
    return made


def draw(connection: Connection, version: Version, days: int, *symbols: str) -> None:
    """Prune up to this day, whatever is final, but delete nothing yet."""
    for symbol in symbols or SYMBOLS:
        line = prune.Line(symbol, None, FIRST + timedelta(days=days))
        access(connection).write(version, [symbol], partial(prune.draw, line=line))


def delete(connection: Connection, version: Version, batches: int | None = None) -> None:
    """Delete ticks below the lines, all or some batches of a few."""
    for symbol in SYMBOLS:
        access(connection).write(version, [symbol], partial(_delete, symbol, batches))


def _delete(symbol: str, batches: int | None, connection: Connection, version: Version) -> None:
    for below in prune.below(connection, version, [symbol]):
        for done, _ in enumerate(prune.delete(connection, version, below, 7), 1):
            if done == batches:
                break


def pruned(connection: Connection, version: Version, days: int, *symbols: str) -> None:
    draw(connection, version, days, *symbols)
    delete(connection, version)


def candles(connection: Connection, version: Version) -> Candles:
    return {symbol: stored_rollups(connection, version, symbol) for symbol in SYMBOLS}


def ids(connection: Connection, version: Version, symbol: str = "A") -> set[str]:
    rows = connection.execute(version.query("SELECT id FROM {ticks} WHERE symbol = %s"), (symbol,))
    return {id for (id,) in rows}


def lines(connection: Connection, version: Version) -> list[int | None]:
    """The numbers of pruned days, by symbol."""
    rows = connection.execute(
        version.query("SELECT (nullif(pruned_until, '-infinity') - %s) FROM {symbols} ORDER BY symbol"), (FIRST,)
    ).fetchall()
    return [None if since is None else since.days for (since,) in rows]


def hashes(connection: Connection, version: Version) -> set[tuple[str, int]]:
    rows = connection.execute(version.query("SELECT symbol, unnest(blocks) FROM {pruned}"))
    return set(rows.fetchall())


def differences(connection: Connection, pair: Pair) -> list[Any]:
    both = pairs(connection, pair)
    return [
        *comparison.compare(both, sorted(both.overview(DAY_ROWS, read_days)), EVERYTHING),
        *comparison.orphans(both, EVERYTHING),
    ]


@pytest.fixture
def conn(two_versions: Connection) -> Connection:
    return two_versions


@pytest.fixture
def pair(conn: Connection) -> Pair:
    return Pair.of(conn, "md", 1, 2)


@pytest.fixture
def filled(conn: Connection, pair: Pair) -> Candles:
    """The candles of version 1, which has the history of both symbols."""
    for symbol in SYMBOLS:
        store(conn, pair.source, *history(symbol))
    return candles(conn, pair.source)


def outcomes(connection: Connection, version: Version) -> list[Outcome]:
    """The outcomes of a late tick, and of retractions of a block of the first day and of the last day."""
    late = tick("A", "late", START + DAY, "7")
    items = [late, Retract("A", "0x0-1"), Retract("A", f"0x{DAYS - 1}-1")]

    def tried(conn: Connection, of_symbol: Version) -> list[Outcome]:
        with conn.transaction(force_rollback=True):
            return ticks.ingest(conn, of_symbol, items).outcomes

    return access(connection).write(version, ["A"], tried)


def assert_has_seconds_from(connection: Connection, version: Version, day: int) -> None:
    """Candles of a second exist from this day on, and are refused for the time before."""
    read = partial(store_candles.read, symbol="A", interval="1s")
    assert access(connection).read(version, ["A"], partial(read, start=START + day * DAY)).count
    with pytest.raises(Pruned):
        access(connection).read(version, ["A"], partial(read, start=START + day * DAY - SECOND))


REFUSED = [Outcome.PRUNED, Outcome.PRUNED, Outcome.DONE]


@pytest.mark.parametrize("batches", [None, 3], ids=["pruned", "being-pruned"])
def test_a_new_version_gets_the_same_candles_and_refuses_the_same(
    conn: Connection, pair: Pair, filled: Candles, batches: int | None
) -> None:
    source, target = pair.source, pair.target
    draw(conn, source, 3)
    delete(conn, source, batches)
    assert carry(conn, pair) == Carried(ticks=2 * 2 * PER_DAY, days=2 * 3)
    assert candles(conn, target) == filled
    assert lines(conn, target) == [3, 3]
    assert ids(conn, target) == {each.id for each in history() if each.ts >= START + 3 * DAY}
    assert outcomes(conn, source) == outcomes(conn, target) == REFUSED
    assert_has_seconds_from(conn, source, 3)
    assert_has_seconds_from(conn, target, 3)
    before = sorted(conn.execute("SELECT symbol, version FROM md_symbols_v2"))
    assert carry(conn, pair) == Carried()
    assert sorted(conn.execute("SELECT symbol, version FROM md_symbols_v2")) == before
    delete(conn, source)
    carry(conn, pair)
    assert hashes(conn, source) <= hashes(conn, target)


def test_days_that_the_target_has_keep_their_ticks(conn: Connection, pair: Pair, filled: Candles) -> None:
    carry(conn, pair)
    pruned(conn, pair.source, 3)
    assert carry(conn, pair) == Carried()
    assert candles(conn, pair.target) == candles(conn, pair.source) == filled
    assert ids(conn, pair.target) == {each.id for each in history()}
    assert lines(conn, pair.target) == [None, None]
    assert differences(conn, pair) == []


def test_days_that_were_copied_in_part_are_replaced_and_their_ticks_deleted(
    conn: Connection, pair: Pair, filled: Candles
) -> None:
    """The copy was killed in the middle of the first symbol."""
    source, target = pair.source, pair.target
    store(conn, target, *sorted(history(), key=lambda each: each.ts)[: PER_DAY + 10])
    pruned(conn, source, 3)
    carry(conn, pair)
    assert candles(conn, target) == filled
    assert lines(conn, target) == [3, 3]
    assert min(each.ts for each in history() if each.id in ids(conn, target)) >= START + 3 * DAY
    assert outcomes(conn, target) == REFUSED
    assert differences(conn, pair) == []


def test_a_late_tick_goes_back_as_candles_to_the_version_whose_ticks_are_pruned(
    conn: Connection, pair: Pair, filled: Candles
) -> None:
    """For a rollback: version 2 keeps its ticks, and stores one below the line of version 1."""
    back = Pair(pair.target, pair.source)
    carry(conn, pair)
    pruned(conn, pair.source, 3)
    late = tick("A", "late", START + DAY + 1, "9", "2", block_number=10**6, block_hash="0xlate")
    store(conn, pair.target, late, tick("A", "new", START + DAYS * DAY))
    assert carry(conn, back) == Carried(ticks=1, days=1)
    assert candles(conn, pair.source) == candles(conn, pair.target) != filled
    assert lines(conn, pair.source) == [3, 3]
    retract = access(conn).write(pair.source, ["A"], lambda c, v: ticks.ingest(c, v, [Retract("A", "0xlate")]))
    assert retract.outcomes == [Outcome.PRUNED]
    assert differences(conn, back) == differences(conn, pair) == []


def test_ticks_below_the_targets_line_are_never_stored_in_it(conn: Connection, pair: Pair, filled: Candles) -> None:
    """The target was pruned by itself. Its days have all ticks, so they stay as they are."""
    carry(conn, pair)
    pruned(conn, pair.target, 4)
    store(conn, pair.source, Retract("A", "0x1-1"))
    assert carry(conn, pair) == Carried(retracted=1)
    assert candles(conn, pair.target) == filled
    assert conn.execute("SELECT FROM md_retracted_v2").fetchall() == []
    assert {each.day.start for each in differences(conn, pair)} == {FIRST + timedelta(days=1)}


@pytest.mark.parametrize("batches", [0, 2, None])
def test_a_prune_during_a_pass_is_repaired(conn: Connection, pair: Pair, filled: Candles, batches: int | None) -> None:
    calls = iter(range(1000))

    def progress(_done: Carried, _day: Day) -> None:
        if next(calls) == 2:
            draw(conn, pair.source, 4)
            if batches != 0:
                delete(conn, pair.source, batches)

    task = Copy(pairs(conn, pair), progress, batch=10)
    task.carry()
    assert task.is_overtaken
    task.carry()
    assert not task.is_overtaken
    assert candles(conn, pair.target) == filled
    if batches is None:
        assert lines(conn, pair.target) == [4, 4]
        assert outcomes(conn, pair.target) == REFUSED
    else:  # the first symbol was carried with all its ticks
        assert lines(conn, pair.target)[0] is None


def test_a_killed_copy_goes_on(conn: Connection, pair: Pair, filled: Candles) -> None:
    pruned(conn, pair.source, 3)
    store(conn, pair.target, *sorted(history(), key=lambda each: each.ts)[:10])
    for kill in range(30):
        left = iter(range(kill, -1, -1))

        def progress(_done: Carried, _day: Day, left: Iterator[int] = left) -> None:
            if next(left) == 0:
                raise KeyboardInterrupt

        try:
            Copy(pairs(conn, pair), progress, batch=10).carry()
            break
        except KeyboardInterrupt:
            pass
    assert kill > 2
    assert candles(conn, pair.target) == filled
    assert lines(conn, pair.target) == [3, 3]
    assert outcomes(conn, pair.target) == REFUSED
    assert not ids(conn, pair.target) & {each.id for each in history() if each.ts < START + 3 * DAY}


def test_a_cutover_says_that_lines_differ(conn: Connection, pair: Pair, filled: Candles, command: Command) -> None:
    carry(conn, pair)
    pruned(conn, pair.source, 3)
    done = command("cutover", "2")
    assert done.returncode == 0, done
    assert done.stdout.splitlines()[1] == (
        "note: ticks of 2 symbols are pruned up to different days: "
        "A from 2024-02-03 on in version 1, from the beginning on in version 2, and 1 more"
    )
    store(conn, pair.target, *(tick("B", f"new {n}", START + DAYS * DAY + n * SECOND) for n in range(9)))
    assert command("copy", "2", "1").returncode == 0
    assert command("cutover", "1").returncode == 0
    assert candles(conn, pair.source) == candles(conn, pair.target)


def test_the_minute_of_the_newest_tick_is_left_out_if_it_is_pruned_in_the_target(conn: Connection, pair: Pair) -> None:
    source, target = pair.source, pair.target
    store(conn, source, tick("A", "1", START), tick("A", "2", START + 70 * SECOND))
    store(conn, target, tick("A", "1", START), *(tick("A", f"{n}", START + (68 + n) * SECOND) for n in range(2, 9)))
    assert differences(conn, pair) == []
    pruned(conn, target, 1)
    assert differences(conn, pair) == []
    store(conn, source, tick("B", "1", START + 1))
    store(conn, target, tick("B", "2", START + 2 * DAY))
    pruned(conn, target, 1)
    assert differences(conn, pair) != [], "the target has no tick in the minute of the source's newest one"


def test_versions_with_random_writes_prunes_copies_and_switches_stay_equal(
    conn: Connection, pair: Pair, rng: random.Random
) -> None:
    """Only the current version receives. After a copy, and before each switch, every stored candle is equal."""
    current = pair
    for made in range(120):
        action = rng.random()
        if action < 0.5:
            store(conn, current.source, *random_items(rng, current, conn, made))
        elif action < 0.7:
            days = rng.randrange(1, DAYS)
            draw(conn, current.source, days, *[name for name in SYMBOLS if rng.random() < 0.7])
            delete(conn, current.source, rng.choice([1, 2, None]))
        elif action < 0.8:
            pruned(conn, current.target, rng.randrange(1, DAYS - 1))
        else:
            carry(conn, current)
            assert candles(conn, current.target) == candles(conn, current.source)
            assert differences(conn, current) == []
            if rng.random() < 0.5:
                current = Pair(current.target, current.source)


def random_items(rng: random.Random, pair: Pair, connection: Connection, made: int) -> list[Item]:
    """Ticks of a block at any time, below the line, too. Above both lines, where a reorganisation is possible, it may
    also be a retraction, or the restoration of the block with its ticks."""
    symbol = rng.choice(SYMBOLS)
    number = rng.randrange(DAYS * PER_DAY)
    block = tick(symbol, "", START, block_number=number, block_hash=f"0x{number}")
    of_block: list[Item] = [
        block._replace(id=f"{number}:{n}", ts=START + number * DAY // PER_DAY, seq=n, price=f"{number + 1}.{n}")
        for n in range(3)
    ]
    pruned_days = [each or 0 for version in (pair.source, pair.target) for each in lines(connection, version)]
    if number < (max(pruned_days, default=0) + 1) * PER_DAY:
        return [tick(symbol, f"late {made}", START + number * DAY // PER_DAY + made, "3")]
    return rng.choice([of_block, [Retract(symbol, f"0x{number}")], [Restore(symbol, f"0x{number}"), *of_block]])


def test_a_copy_that_follows_while_ticks_are_stored_and_pruned(
    conn: Connection, pair: Pair, fresh: Settings, command: Command, rng: random.Random
) -> None:
    with following(fresh, 1, 2) as process:
        for made in range(60):
            store(conn, pair.source, *random_items(rng, pair, conn, made))
            if made % 20 == 10:
                draw(conn, pair.source, rng.randrange(1, DAYS - 1), rng.choice(SYMBOLS))
                delete(conn, pair.source, rng.choice([1, None]))
        process.send_signal(signal.SIGTERM)
        said, refused = process.communicate(timeout=60)
    if process.returncode == 1:  # the signal came before it had caught up
        assert "stopped before it had caught up, nothing is lost: " in refused
        assert command("copy", "1", "2").returncode == 0
    else:
        assert (process.returncode, "stopped after a last pass" in said) == (0, True), (said, refused)
    assert candles(conn, pair.source) == candles(conn, pair.target)
    done = command("cutover", "2")
    assert (done.returncode, "all are equal" in done.stdout) == (0, True), done


@contextmanager
def following(fresh: Settings, source: int, target: int) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "marketdata", "copy", str(source), str(target), "--follow"],
        env=os.environ | {"DATABASE_URL": fresh.database_url}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout.readline().startswith("caught up: ")
        yield process
    finally:
        process.kill()
        process.communicate()

"""Commands that change or read what a distributed version stores: each has the result that it has on a plain version of
the same ticks. The database has both, and an API serves each."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from marketdata import secretfile
from marketdata.api.serve import Service
from marketdata.interval import DAY, SECOND
from marketdata.operations import aliases
from marketdata.operations.symbol_access import SymbolAccess
from marketdata.settings import Settings, load
from marketdata.store import coverage, ticks
from marketdata.store.coverage import Range
from marketdata.store.pool import Connection, connect
from marketdata.store.version import Version, registered
from marketdata.tick import Finalize, FinalizeChain, Retract
from tests.functional.killed import KILLED
from tests.marketdata.api.conftest import ADMIN_SECRET, Api, new_token
from tests.marketdata.conftest import Command, Done
from tests.marketdata.store.conftest import START, tick
from tests.release.citus.cluster import Database
from tests.release.citus.commands import Prepared

SYMBOLS = [f"X{n}:A-USD" for n in range(10)]
PLAIN, DISTRIBUTED = "v1.env", "v2.env"
LINE = "2024-02-03"
AT_LINE = (START + 3 * DAY) // 1000


class Twins(NamedTuple):
    """Version 1, which is plain, and version 2, which is distributed, with the same ticks."""

    database: Database
    command: Command
    connection: Connection
    state: Path

    @property
    def versions(self) -> list[Version]:
        return [each.version for each in registered(self.connection, "md")]

    def run(self, *arguments: str) -> list[Done]:
        """What a command says about each version."""
        return [
            self.command(arguments[0], "--env-file", str(self.state / file), *arguments[1:])
            for file in (PLAIN, DISTRIBUTED)
        ]

    def settings(self, n: int, **changed: object) -> Settings:
        given = {"MARKET_STATE_DIR": str(self.state), "DATABASE_URL": self.database.url, "MARKET_API_PORT": "0"}
        loaded = load(given | {"TICKS_TABLE": f"md_ticks_v{n}"})
        return replace(loaded, **changed)  # type: ignore[arg-type]


def fill(connection: Connection, version: Version) -> None:
    """Ticks of five days, partly of final blocks, of which some are retracted."""
    with SymbolAccess(connection) as access:
        for number, symbol in enumerate(SYMBOLS):
            items = [
                tick(symbol, f"{day}-{n}", START + day * DAY + n * 977 * SECOND, f"{n + 1}.5", side="buy",
                     **({} if number % 3 == 0 else {"block_number": day, "block_hash": f"0x{day}"}))
                for day in range(5) for n in range(30)
            ]  # fmt: skip
            more = [Retract(symbol, "0x2")] if number % 3 else []
            final = [Finalize(symbol, 4, START + 4 * DAY)] if number % 3 == 1 else []
            access.write(version, [symbol], lambda c, v: ticks.ingest(c, v, [*items, *more, *final]))  # noqa: B023
    ticks.ingest(connection, version, [FinalizeChain("X2", 4, START + 4 * DAY)])
    for symbol in SYMBOLS[:4]:
        coverage.record(connection, version, [symbol], Range(START, START + 5 * DAY, "indexed"))


@pytest.fixture
def twins(prepared: Prepared, state_dir: Path) -> Iterator[Twins]:
    assert prepared.command("version", "1").returncode == 0
    assert prepared.command("version", "2", "--shards", "6").returncode == 0
    with connect(prepared.database.url) as connection:
        found = Twins(prepared.database, prepared.command, connection, state_dir)
        for version in found.versions:
            fill(connection, version)
        yield found


@pytest.fixture
def apis(twins: Twins) -> Iterator[list[Api]]:
    """The API of each version."""
    secretfile.make_folder(twins.state / "secrets", "MARKET_SECRETS_DIR")
    secretfile.write(twins.state / "secrets" / secretfile.ADMIN_SECRET, {"token": ADMIN_SECRET})
    services = [Service(twins.settings(n)) for n in (1, 2)]
    tokens = [new_token(twins.database.url, scope) for scope in ("read", "write")]
    for service in services:
        service.start()
    yield [Api(service, *tokens) for service in services]
    for service in services:
        service.stop()


PATHS = (
    *(f"/v1/chart?symbol={{symbol}}&interval={interval}&limit=500&endTime=1707955200000{more}"
      for interval in ("1s", "1m", "15m", "1h", "4h", "1d", "1w") for more in ("", "&fill=previous")),
    "/v1/chart?symbol={symbol}&interval=1s&startTime=1706659200000&limit=5",
    "/v1/chart?symbol={symbol}&interval=1h&timeZone=Europe/Berlin&limit=40",
    "/v1/ticks?symbol={symbol}&limit=100", "/v1/ticks?symbol={symbol}&format=csv", "/v1/coverage?symbol={symbol}",
)  # fmt: skip
OF_ALL = ("/v1/symbols", "/v1/summary?sort=volume&limit=20", "/api/v3/ticker/price")


def answers(api: Api, names: list[str]) -> dict[str, tuple[int, str]]:
    """The answers that the API gives about these symbols."""
    paths = [path.format(symbol=name) for name in names for path in PATHS] + list(OF_ALL)
    header = {"Authorization": f"Bearer {api.tokens['read']}"}
    found = {path: api.app.get(path, headers=header, expect_errors=True) for path in paths}
    return {path: (reply.status_int, without_clock(reply.text)) for path, reply in found.items()}


def without_clock(text: str) -> str:
    """The text without ``as_of``, which is the time of the answer."""
    head, mark, rest = text.partition('"as_of":')
    return head + mark + rest.lstrip("0123456789") if mark else text


def assert_same(apis: list[Api], names: list[str] = SYMBOLS) -> dict[str, tuple[int, str]]:
    plain, distributed = (answers(api, names) for api in apis)
    different = [path for path, answer in plain.items() if distributed[path] != answer]
    if different:  # pytest would compare megabytes
        path = different[0]
        pytest.fail(f"{different}\n{plain[path][0]} {plain[path][1][:500]}\n{distributed[path][1][:500]}")
    return plain


def test_a_prune_deletes_the_same_ticks_and_keeps_the_same_candles(twins: Twins, apis: list[Api]) -> None:
    assert_same(apis)
    aliases.add(twins.connection, "NICK", SYMBOLS[0])
    for arguments in (["--before", "2024-02-02", "--symbol", "NICK"], ["--before", f"{LINE}T07:00:00Z"]):
        plain, distributed = twins.run("prune", *arguments)
        assert (plain.returncode, plain.stderr) == (distributed.returncode, distributed.stderr) == (0, "")
        assert without_seconds(plain.stdout) == without_seconds(distributed.stdout)
    assert "deleted 0 ticks" not in plain.stdout
    found = assert_same(apis)
    refused = [path for path, (status, _) in found.items() if status == 409]
    assert any("interval=1s" in path for path in refused)
    for api in apis:
        late = {"symbol": SYMBOLS[0], "id": "late", "ts": AT_LINE - 1, "price": "1", "size": "1"}
        api.problem("POST", "/v1/ingest/tick", late, status=409, code="pruned")


def without_seconds(text: str) -> str:
    return text.partition(" in ")[0]


def test_a_prune_that_was_killed_goes_on_also_where_its_shard_has_moved(twins: Twins, apis: list[Api]) -> None:
    script = KILLED.replace(
        "import importlib, os, sys", "import importlib, os, sys, marketdata.operations.prune as p; p.BATCH = 7"
    )
    place = ("marketdata.store.prune", "_delete", "5", "after")
    run_killed(twins, script, *place, "prune", "--env-file", str(twins.state / DISTRIBUTED), "--before", LINE)
    for symbol in SYMBOLS[:3]:
        twins.database.move("md_ticks_v2", symbol)
    assert all(done.returncode == 0 for done in twins.run("prune", "--before", LINE))
    assert_same(apis)
    assert stored(twins, "ticks") == stored(twins, "ticks", 0)
    assert stored(twins, "pruned") > 0


def run_killed(twins: Twins, script: str, *arguments: str) -> None:
    """A command that is killed at a place in the program."""
    killed = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=os.environ | {"DATABASE_URL": twins.database.url, "MARKET_STATE_DIR": str(twins.state)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert killed.returncode == -9, killed.stderr


def stored(twins: Twins, part: str, n: int = 1) -> int:
    version = twins.versions[n]
    with SymbolAccess(twins.connection) as access:
        counted = access.read_each(
            version, None, lambda c, v, _: c.execute(v.query(f"SELECT count(*) FROM {{{part}}}"))
        )
        return sum(count for rows in counted for (count,) in rows)


def test_a_dropped_symbol_is_gone_with_all_that_it_had(twins: Twins, apis: list[Api]) -> None:
    gone = SYMBOLS[1]
    aliases.add(twins.connection, "NICK", gone)
    first, second = twins.run("symbol", "drop", gone, "--yes")
    assert (first.returncode, first.stderr) == (second.returncode, second.stderr) == (0, "")
    assert "aliases: NICK; kept, because md_ticks_v2 has the symbol, too" in first.stdout
    assert "and its aliases NICK" in second.stdout
    deleted = [done.stdout.splitlines()[-1].partition(": ")[2].partition(", and")[0] for done in (first, second)]
    assert deleted[0] == deleted[1] != "0 ticks and 0 candles"
    assert aliases.all_of(twins.connection) == {}
    found = assert_same(apis)
    assert found[f"/v1/chart?symbol={gone}&interval=1d&limit=500&endTime=1707955200000"][0] == 404
    for table in ("coverage", "symbols", "ticks", "rollups", "retracted", "pruned"):
        rows = twins.database.execute(f"SELECT count(*) FROM md_{table}_v2 WHERE symbol = %s", gone)
        assert rows == [(0,)], table


def test_an_export_and_its_import_carry_all_ticks(twins: Twins, tmp_path: Path) -> None:
    assert twins.command("version", "3", "--shards", "3").returncode == 0
    for format in ("csv", "parquet"):
        plain, distributed = (tmp_path / f"{name}.{format}" for name in ("plain", "distributed"))
        for file, path in ((PLAIN, plain), (DISTRIBUTED, distributed)):
            done = twins.command(
                "export", "--env-file", str(twins.state / file), "--format", format, "-o", str(path)
            )  # fmt: skip
            assert (done.returncode, done.stderr) == (0, "")
        if format == "csv":
            assert distributed.read_bytes() == plain.read_bytes()
            assert len(plain.read_bytes().splitlines()) > 1000
        into = ("import", "--env-file", str(twins.state / "v3.env"))
        done = twins.command(*into, str(distributed))
        assert (done.returncode, done.stderr) == (0, "")
        count = "0 known" if format == "csv" else "0 new ticks"
        assert count in done.stdout
        assert "already imported" in twins.command(*into, str(distributed)).stdout
    twins.command("export", "--env-file", str(twins.state / "v3.env"), "--format", "csv", "-o", str(tmp_path / "again"))
    assert (tmp_path / "again").read_bytes() == (tmp_path / "plain.csv").read_bytes()


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_import_that_was_killed_sends_ticks_again_as_known(twins: Twins, tmp_path: Path, when: str) -> None:
    path = tmp_path / "ticks.csv"
    lines = [f"{SYMBOLS[n % 10]},{n},{START // 1000 + n * 1000},1.5,{n}\n" for n in range(6000)]
    path.write_text("symbol,id,ts,price,size\n" + "".join(lines))
    assert twins.command("version", "3", "--shards", "3").returncode == 0
    into = ("import", "--env-file", str(twins.state / "v3.env"), str(path))
    run_killed(twins, KILLED, "marketdata.operations.symbol_access", "SymbolAccess.ingest", "2", when, *into)
    done = twins.command(*into)
    assert (done.returncode, done.stderr) == (0, "")
    known = 2500 if when == "after" else 0
    assert f"6,000 rows: {6000 - known:,} new ticks, {known:,} known, 0 rejected" in done.stdout
    assert "it went on after row 2,500" in done.stdout
    assert stored(twins, "ticks", 2) == 6000


def test_coverage_is_recorded_for_symbols_and_for_chains(twins: Twins, apis: list[Api]) -> None:
    for api in apis:
        for name in (*SYMBOLS[:3], "NEW:A"):
            failed = {"symbol": name, "from": AT_LINE, "to": AT_LINE + 1000, "state": "failed"}
            api("PUT", "/v1/coverage", failed, status=200)
        api("PUT", "/v1/coverage", {"chain": "X1", "from": AT_LINE, "to": AT_LINE + 9 * 86_400_000, "state": "indexed"})
    assert_same(apis)

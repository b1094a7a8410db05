"""``bin/marketdata-export``: files of ticks, read back by other programs to the last digit."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas
import pyarrow as pa
import pytest
from pyarrow import parquet

from marketdata.interval import DAY, SECOND
from marketdata.operations.parquet import ROW_GROUP
from marketdata.settings import ROOT
from marketdata.store import prune, ticks
from marketdata.store.pool import Connection, connect
from marketdata.store.version import Version, registered
from marketdata.tick import Tick
from tests.functional.serving import until
from tests.marketdata.conftest import Command
from tests.marketdata.store.conftest import START, tick

MOST = "9" * 30 + "." + "9" * 30
LEAST = "0." + "0" * 29 + "1"
BIGINT = (1 << 63) - 1

TICKS = [
    tick("X:A", "first", START + 1, MOST, LEAST, side="buy"),
    tick("X:A", 'q"uo",te', START + 999_999, LEAST, MOST, seq=-BIGINT - 1, tx='"'),
    tick("X:A", "NULL", START + 999_999, "1", "0", seq=BIGINT, block_number=BIGINT, block_hash="é💥", tx="NULL"),
    tick("X:A", "\\N", START + SECOND, "0.1", "100", side="sell", block_number=0, block_hash=",", tx="\\."),
    tick("X:B", "first", 1, "10", "0.5"),
]
"""The ticks in the order of an export."""


@pytest.fixture
def conn(two_versions: Connection) -> Connection:
    ticks.ingest(two_versions, version_1(two_versions), TICKS)
    return two_versions


def version_1(connection: Connection) -> Version:
    return registered(connection, "md")[0].version


def rows(of: list[Tick]) -> list[dict[str, object]]:
    """Ticks as a program reads them: decimals and times."""
    return [
        each._asdict()
        | {"price": Decimal(each.price), "size": Decimal(each.size), "ts": pandas.Timestamp(each.ts * 1000, tz="UTC")}
        for each in of
    ]


@pytest.mark.usefixtures("conn")
def test_parquet_is_read_to_the_last_digit(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "ticks.parquet"
    done = command("export", "--format", "parquet", "-o", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{path}: 5 ticks of 2 symbols in ")
    table = parquet.read_table(path)
    assert table.to_pylist() == rows(TICKS)
    assert table.schema.field("price").type == pa.decimal256(60, 30)
    assert table.schema.field("ts").type == pa.timestamp("us", "UTC")
    facts = {
        key.decode(): value.decode()
        for key, value in parquet.read_metadata(path).metadata.items()
        if key != b"ARROW:schema"
    }
    assert facts | {"source": ""} == {"symbol": "X:A,X:B", "version": "1", "count": "5", "source": ""}
    assert facts["source"].startswith("md_ticks_v1 of marketdata ")
    frame = pandas.read_parquet(path)
    for column in ("price", "size", "ts", "symbol", "id", "seq"):
        assert list(frame[column]) == [row[column] for row in rows(TICKS)], column
    for column in ("tx", "side"):
        found = [None if pandas.isna(each) else each for each in frame[column]]
        assert found == [getattr(each, column) for each in TICKS], column


@pytest.mark.usefixtures("conn")
def test_duckdb_reads_csv_to_the_last_digit_and_the_decimals_of_parquet_as_double(
    command: Command, tmp_path: Path
) -> None:
    """So ``operations.md`` recommends CSV for DuckDB."""
    csv, columns = tmp_path / "ticks.csv", tmp_path / "ticks.parquet"
    for format, path in (("csv", csv), ("parquet", columns)):
        assert command("export", "--format", format, "-o", str(path)).returncode == 0
    found = duckdb.sql(f"SELECT * FROM read_csv('{csv}', all_varchar = true, nullstr = '', allow_quoted_nulls = false)")
    read = [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
    assert [Decimal(row["price"]) for row in read] == [Decimal(each.price) for each in TICKS]
    assert [Decimal(row["size"]) for row in read] == [Decimal(each.size) for each in TICKS]
    for column in ("symbol", "id", "side", "block_hash", "tx"):
        assert [row[column] for row in read] == [getattr(each, column) for each in TICKS], column
    kinds = dict(duckdb.sql(f"SELECT column_name, column_type FROM (DESCRIBE FROM '{columns}')").fetchall())
    assert (kinds["price"], kinds["size"]) == ("DOUBLE", "DOUBLE")


def test_csv_has_the_bytes_of_the_api(conn: Connection, command: Command, tmp_path: Path) -> None:
    path = tmp_path / "ticks.csv"
    assert command("export", "--format", "csv", "--symbol", "X:A", "-o", str(path)).returncode == 0
    assert path.read_bytes() == b"".join(ticks.stream(conn, version_1(conn), "X:A", format="csv"))
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_standard_output_gets_the_same_bytes_and_the_summary_is_apart(conn: Connection, command: Command) -> None:
    for output in ((), ("-o", "-")):
        done = command("export", "--format", "csv", "--symbol", "X:B", *output)
        assert done.stdout.encode() == b"".join(ticks.stream(conn, version_1(conn), "X:B", format="csv"))
        assert done.stderr.startswith("standard output: 1 tick of 1 symbol in ")


@pytest.mark.usefixtures("conn")
def test_symbols_and_times_are_chosen(command: Command) -> None:
    assert command("alias", "add", "B", "X:B").returncode == 0

    def ids(*arguments: str) -> list[str]:
        lines = command("export", "--format", "csv", *arguments).stdout.splitlines()[1:]
        return [",".join(line.split(",")[:2]) for line in lines]

    assert ids("--symbol", "B", "--symbol", "X:B") == ['X:B,"first"']
    assert ids("--symbol", "X:A", "--from", "2024-01-31T00:00:00.999999Z", "--to", "2024-01-31T00:00:00.999999Z") == [
        'X:A,"q""uo""',
        'X:A,"NULL"',
    ]
    assert len(ids()) == len(TICKS)
    assert ids("--to", "1970-01-01T00:00:00Z") == []
    assert len(ids("--from", "2024-01-31")) == 4, "a date, as for bin/marketdata-prune"
    assert len(ids("--to", "2024-01-31")) == 1


@pytest.mark.usefixtures("conn")
def test_wrong_use(command: Command) -> None:
    for arguments, code, says in (
        (("--symbol", "X:C"), 1, "there is no symbol X:C"),
        (("--from", "2024-02-01T00:00:00Z", "--to", "2024-01-01T00:00:00Z"), 2, "--from is after"),
        (("--from", "yesterday"), 2, "'yesterday' must be a time"),
        (("-o", "/nowhere/ticks.csv"), 2, "export: the folder /nowhere does not exist"),
        (("-o", "/usr"), 2, "export: /usr is a folder: name a file"),
    ):
        done = command("export", "--format", "csv", *arguments)
        assert (done.returncode, done.stdout, says in done.stderr) == (code, "", True), (arguments, done)
    done = command("export")
    assert (done.returncode, "the following arguments are required: --format" in done.stderr) == (2, True)


@pytest.mark.usefixtures("conn")
def test_an_existing_file_is_kept_unless_told(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "ticks.csv"
    path.write_text("mine")
    done = command("export", "--format", "csv", "-o", str(path))
    assert (done.returncode, path.read_text()) == (2, "mine")
    assert "already exists: name another file, or replace it with --force" in done.stderr
    assert command("export", "--format", "csv", "-o", str(path), "--force").returncode == 0
    assert path.read_text().startswith("symbol,id,ts,")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.usefixtures("conn")
def test_what_is_no_regular_file_is_never_replaced(command: Command, tmp_path: Path) -> None:
    target, pipe, link = (tmp_path / name for name in ("target", "pipe", "link"))
    target.write_text("mine")
    link.symlink_to(target)
    os.mkfifo(pipe)
    for path in (pipe, link):
        done = command("export", "--format", "csv", "-o", str(path), "--force")
        assert (done.returncode, done.stderr) == (
            2, f"bin/marketdata-export: {path} is no regular file: name another one, or write to standard output\n"
        )  # fmt: skip
    assert (pipe.is_fifo(), link.is_symlink(), target.read_text()) == (True, True, "mine")


def test_the_summary_says_from_when_on_ticks_are_there(conn: Connection, command: Command) -> None:
    version = version_1(conn)
    [line] = prune.lines(conn, version, prune.EPOCH.replace(year=2024, month=1, day=31), ["X:B"])
    prune.draw(conn, version, line)
    ticks.ingest(conn, version, [tick("X:B", "last", START)])

    def written(*arguments: str) -> tuple[list[str], str]:
        done = command("export", "--format", "csv", "--symbol", "X:B", *arguments)
        return [line.split(",")[1] for line in done.stdout.splitlines()[1:]], done.stderr.partition(" s; ")[2]

    missing = "older ticks are pruned: X:B from 2024-01-31 on\n"
    assert written() == (['"last"'], missing)
    assert written("--from", "2024-01-30T23:59:59Z") == (['"last"'], missing)
    assert written("--to", "2024-01-30T23:59:59Z") == ([], missing)
    assert written("--from", "2024-01-31T00:00:00Z") == (['"last"'], "")


def test_a_version_without_ticks_is_an_empty_table(two_versions: Connection, command: Command, tmp_path: Path) -> None:
    path = tmp_path / "ticks.parquet"
    assert command("export", "--format", "csv").stdout.encode() == ticks.CSV_HEADER
    assert command("export", "--format", "parquet", "-o", str(path)).returncode == 0
    assert parquet.read_table(path).num_rows == 0


def test_many_ticks_fill_row_groups_and_all_are_of_one_moment(
    conn: Connection, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ticks that come in during an export are not in the file."""
    version, path = version_1(conn), tmp_path / "ticks.parquet"
    many = [tick("X:M", f"{n:06}", START + n * SECOND) for n in range(2 * ROW_GROUP + 1)]
    ticks.ingest(conn, version, many)
    blocks_of = ticks.blocks

    def disturbed(*arguments: object, **more: object) -> object:
        blocks = blocks_of(*arguments, **more)  # type: ignore[arg-type]
        yield next(blocks)
        ticks.ingest(conn, version, [tick("X:M", "late", START + DAY), tick("X:A", "late", START)])
        yield from blocks

    monkeypatch.setattr(ticks, "blocks", disturbed)
    assert command("export", "--format", "parquet", "-o", str(path)).returncode == 0
    file = parquet.ParquetFile(path)
    assert file.read(["id"])["id"].to_pylist() == [each.id for each in (*TICKS[:4], TICKS[4], *many)]
    assert [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] == [10_000 + 5, 10_000, 1]


# -- as a process -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many(new_database: Callable[..., str]) -> dict[str, str]:
    """The environment of a process that exports 40 000 ticks, which takes some seconds."""
    url = new_database(versions=1)
    with connect(url) as connection:
        version = version_1(connection)
        ticks.ingest(connection, version, TICKS)
        for first in range(0, 40_000, 10_000):
            ticks.ingest(
                connection, version, [tick("X:M", f"{n:06}", START + n * SECOND) for n in range(first, first + 10_000)]
            )
    return os.environ | {"DATABASE_URL": url, "PYTHONPATH": str(ROOT)}


@pytest.fixture
def begin(many: dict[str, str], state_dir: Path) -> Callable[..., subprocess.Popen[bytes]]:
    """``begin(*arguments, **how)`` begins an export in a process of its own."""

    def begun(*arguments: str | Path, **how: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "marketdata", "export", *arguments], stderr=subprocess.PIPE,
            env=many | {"MARKET_STATE_DIR": str(state_dir)}, **how,
        )  # fmt: skip

    return begun


Begin = Callable[..., subprocess.Popen[bytes]]


@pytest.mark.parametrize(
    ("number", "format"), [(signal.SIGTERM, "csv"), (signal.SIGKILL, "csv"), (signal.SIGINT, "parquet")]
)
def test_an_export_that_is_ended_leaves_no_file(
    begin: Begin, tmp_path: Path, format: str, number: signal.Signals
) -> None:
    path = tmp_path / "ticks"
    process = begin("--format", format, "-o", path)
    parts = until(lambda: list(tmp_path.iterdir()), 60)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    assert not path.exists()
    assert (list(tmp_path.iterdir()), errors) == (parts if number == signal.SIGKILL else [], b"")


def test_the_next_export_replaces_what_a_killed_one_left_but_not_what_another_writes(
    begin: Begin, many: dict[str, str], run_command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "ticks"
    monkeypatch.setenv("DATABASE_URL", many["DATABASE_URL"])
    short = ("export", "--format", "csv", "--symbol", "X:B", "-o", str(path))
    process = begin("--format", "csv", "-o", path)
    until(lambda: any(each.stat().st_size > 1000 for each in tmp_path.iterdir()), 60)
    process.send_signal(signal.SIGSTOP)
    done = run_command(*short)
    assert (done.returncode, done.stderr) == (
        4, f"bin/marketdata-export: another export writes {path}: wait for it, or name another file\n"
    )  # fmt: skip
    process.kill()
    process.communicate(timeout=60)
    assert run_command(*short).returncode == 0
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes().count(b"\n") == 2


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_an_output_that_takes_no_more_ends_the_export(begin: Begin, tmp_path: Path, format: str) -> None:
    with begin("--format", format, stdout=subprocess.PIPE) as process:
        process.stdout.read(1)
        process.stdout.close()
        assert (process.stderr.read(), process.wait(60)) == (b"", 141)
    path = tmp_path / "ticks"

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

    with open("/dev/full", "wb") as full:
        for process, reason in (
            (begin("--format", format, stdout=full), "standard output cannot be written: No space left on device"),
            (begin("--format", format, "-o", path, preexec_fn=limit), f"{path} cannot be written: File too large"),
        ):
            _, errors = process.communicate(timeout=60)
            assert (process.returncode, errors.decode()) == (1, f"bin/marketdata-export: {reason}\n")
    assert list(tmp_path.iterdir()) == []

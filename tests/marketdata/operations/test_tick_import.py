"""``bin/marketdata-import``: files of ticks, also after an import of them was killed."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from marketdata.operations.tick_import import BATCH
from marketdata.settings import Settings
from marketdata.store import ticks
from marketdata.store.pool import Connection
from marketdata.store.version import Version, registered
from marketdata.tick_csv import MAX_LINE_BYTES
from tests.functional.killed import KILLED
from tests.marketdata.conftest import Command, Done
from tests.marketdata.operations.test_copy import environment
from tests.marketdata.operations.test_tick_export import TICKS
from tests.marketdata.store.conftest import START, stored_rollups, stored_ticks, tick

HEADER = "symbol,id,ts,price,size\n"
COUNT = 12_000
"""Ticks of a large file: some full batches and a part of one."""


@pytest.fixture
def versions(two_versions: Connection) -> tuple[Version, Version]:
    first, second = (each.version for each in registered(two_versions, "md"))
    return first, second


@pytest.fixture
def into_2(command: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Imports into version 2."""

    def run(*arguments: str) -> Done:
        with monkeypatch.context() as patch:
            patch.setenv("TICKS_TABLE", "md_ticks_v2")
            return command("import", *arguments)

    return run


def csv_file(folder: Path, *lines: str, name: str = "ticks.csv") -> Path:
    path = folder / name
    path.write_text(HEADER + "".join(f"{line}\n" for line in lines))
    return path


def large(name: Path) -> Path:
    """A file of the format that its name says, with ``COUNT`` ticks."""
    lines = [f"X:A,{n},{START // 1000 + n * 1000},1.5,{n}\n" for n in range(COUNT)]
    if name.suffix == ".parquet":
        texts = zip(*(line.strip().split(",") for line in lines), strict=True)
        table = pa.table(dict(zip(HEADER.strip().split(","), map(list, texts), strict=True)))
        parquet.write_table(table, name, row_group_size=10_000)
    else:
        text = (HEADER + "".join(lines)).encode()
        name.write_bytes(gzip.compress(text) if name.suffix == ".gz" else text)
    return name


LARGE = ["ticks.csv", "ticks.csv.gz", "ticks.parquet"]


@pytest.mark.parametrize("name", LARGE)
def test_exported_ticks_and_their_candles_are_the_same_in_another_version(
    two_versions: Connection, versions: tuple[Version, Version], command: Command, into_2: Command, tmp_path: Path,
    name: str,
) -> None:  # fmt: skip
    first, second = versions
    ticks.ingest(two_versions, first, TICKS)
    format = "parquet" if name.endswith(".parquet") else "csv"
    path = tmp_path / name.removesuffix(".gz")
    assert command("export", "--format", format, "-o", str(path)).returncode == 0
    if name.endswith(".gz"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(path.with_suffix("").read_bytes()))
    done = into_2(str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{path}: 5 rows: 5 new ticks, 0 known, 0 rejected, in ")
    for symbol in ("X:A", "X:B"):
        assert stored_ticks(two_versions, second, symbol) == stored_ticks(two_versions, first, symbol)
        assert stored_rollups(two_versions, second, symbol) == stored_rollups(two_versions, first, symbol)


@pytest.mark.parametrize(
    ("name", "call", "when", "row"),
    [(LARGE[0], "2", "before", BATCH), (LARGE[1], "1", "before", 0), (LARGE[2], "2", "after", 2 * BATCH)],
)
def test_an_import_that_was_killed_goes_on_where_it_stopped(
    two_versions: Connection, versions: tuple[Version, Version], fresh: Settings, into_2: Command, tmp_path: Path,
    name: str, call: str, when: str, row: int, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    path = large(tmp_path / name)
    place = ("marketdata.operations.tick_import", "Import._store", call, when)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, *place, "import", str(path)],
        env=environment(fresh) | {"TICKS_TABLE": "md_ticks_v2"}, capture_output=True, check=False, timeout=100,
    )  # fmt: skip
    assert (killed.returncode, killed.stderr) == (-9, b"")
    assert len(stored_ticks(two_versions, versions[1], "X:A")) == row
    moved = path.rename(tmp_path / f"moved-{name}")
    read = count_blocks(monkeypatch)
    done = into_2(str(moved))
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{moved}: 12,000 rows: 12,000 new ticks, 0 known, 0 rejected, in " in done.stdout
    assert done.stdout.endswith(f"; it went on after row {row:,}\n" if row else " s\n")
    assert sum(read) == COUNT - row, "what was stored is not read again"
    assert len(stored_ticks(two_versions, versions[1], "X:A")) == COUNT


def count_blocks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lists the number of ticks in each block that is stored from now on."""
    found: list[int] = []
    store = ticks.ingest

    def counted(connection: Connection, version: Version, items: list[ticks.Item]) -> ticks.Ingested:
        found.append(len(items))
        return store(connection, version, items)

    monkeypatch.setattr(ticks, "ingest", counted)
    return found


@pytest.mark.usefixtures("two_versions")
def test_an_imported_file_is_read_again_if_told_or_changed(command: Command, into_2: Command, tmp_path: Path) -> None:
    path = csv_file(tmp_path, "X:A,1,2024-01-31T00:00:00Z,1,1")
    assert command("import", str(path)).returncode == 0
    done = command("import", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"{path}: already imported (1 rows: 1 new ticks, 0 known, 0 rejected); --again imports it anew\n"
    )
    assert "1 rows: 0 new ticks, 1 known, 0 rejected, in" in command("import", "--again", str(path)).stdout
    assert "1 new ticks" in into_2(str(path)).stdout, "another version does not have it"
    with path.open("a") as file:
        file.write("X:A,2,2024-01-31T00:00:00Z,1,1\n")
    assert "2 rows: 1 new ticks, 1 known, 0 rejected, in" in command("import", str(path)).stdout


@pytest.mark.usefixtures("two_versions")
def test_rejected_rows_are_named_and_the_others_are_stored(command: Command, tmp_path: Path) -> None:
    path = csv_file(
        tmp_path,
        "X:A,1,2024-01-31T00:00:00Z,1,1",
        "X:A,1,2024-01-31T00:00:00Z,2,1",
        "",
        "X:A,2,2024-01-31T00:00:00Z,-1,1",
        'X:A,"3,2024-01-31T00:00:00Z,1,1',
        "x" * 3 * MAX_LINE_BYTES,
        "X:A,4,2024-01-31T00:00:00Z,1,1",
    )
    done = command("import", str(path))
    assert done.returncode == 1
    assert "7 rows: 2 new ticks, 0 known, 4 rejected, in" in done.stdout
    errors = done.stderr.splitlines()
    assert errors[0].startswith(f"{path}: row 2 is rejected (tick_conflict): a different tick with this id is stored")
    assert errors[1].startswith(
        f"{path}: row 4 is rejected (invalid_value): price must be a decimal number greater than 0"
    )
    assert errors[2].startswith(
        f"{path}: row 5 is rejected (invalid_value): the line is not CSV: a quote is not closed"
    )
    assert errors[3] == f"{path}: row 6 is rejected (invalid_value): the line has more than {MAX_LINE_BYTES} bytes"
    assert errors[4:] == ["bin/marketdata-import: 4 rows were rejected"]
    again = command("import", str(path))
    assert (again.returncode, again.stderr) == (1, "bin/marketdata-import: 4 rows were rejected\n")
    assert "already imported (7 rows: 2 new ticks, 0 known, 4 rejected)" in again.stdout


@pytest.mark.usefixtures("two_versions")
def test_at_most_a_thousand_rejected_rows_are_named(command: Command, tmp_path: Path) -> None:
    path = csv_file(tmp_path, *["nothing"] * 6000)
    done = command("import", str(path))
    assert "6,000 rows: 0 new ticks, 0 known, 6,000 rejected, in" in done.stdout
    assert len(done.stderr.splitlines()) == 1000 + 1
    assert done.stderr.endswith("bin/marketdata-import: 6,000 rows were rejected\n")


@pytest.mark.usefixtures("two_versions")
def test_standard_input_is_csv(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    text = HEADER + "X:A,1,2024-01-31T00:00:00Z,1,1\n"
    for content in (text.encode(), gzip.compress(text.encode())):
        reader, writer = os.pipe()
        os.write(writer, content)
        os.close(writer)
        with os.fdopen(reader) as stream:
            monkeypatch.setattr(sys, "stdin", stream)
            done = command("import", "-")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("-: 1 rows: ")


def test_a_file_of_another_program_is_read(two_versions: Connection, command: Command, tmp_path: Path) -> None:
    """Its columns have another order and other types."""
    path = tmp_path / "foreign.parquet"
    table = pa.table(
        {
            "size": pa.array([2, 3], pa.int32()),
            "price": pa.array([Decimal("0.00000001"), Decimal("2500")], pa.decimal128(38, 8)),
            "ts": pa.array([START * 1000 + 999, START * 1000], pa.timestamp("ns", "+02:00")),
            "id": pa.array(["1", "2"], pa.large_string()),
            "side": pa.array(["buy", None]).dictionary_encode(),
            "symbol": pa.array(["X:A", "X:A"], pa.string_view()),
            "tx": pa.nulls(2),
        }
    )
    parquet.write_table(table, path)
    done = command("import", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert stored_ticks(two_versions, registered(two_versions, "md")[0].version, "X:A") == [
        tick("X:A", "1", START, "0.00000001", "2", side="buy"),
        tick("X:A", "2", START, "2500", "3"),
    ]


def test_doubles_that_are_no_exact_integers_are_rejected(
    two_versions: Connection, versions: tuple[Version, Version], command: Command, tmp_path: Path
) -> None:
    path = tmp_path / "ticks.parquet"
    seqs = [2.0**53 - 1, -5.0, float("nan"), None, 2.0**53, 1.5, float("inf")]
    count = len(seqs)
    table = pa.table({name: column * count for name, column in COLUMNS.items()} | {"id": list("1234567"), "seq": seqs})
    parquet.write_table(table, path)
    done = command("import", str(path))
    rows = [f"{path}: row {n} is rejected (invalid_value): seq must be an integer" for n in (5, 6, 7)]
    assert [line[: len(rows[0])] for line in done.stderr.splitlines()[:-1]] == rows
    found = {each.id: each.seq for each in stored_ticks(two_versions, versions[0], "X:A")}
    assert found == {"1": 2**53 - 1, "2": -5, "3": 0, "4": 0}


NOON = datetime(2024, 1, 31, 12, tzinfo=timezone(timedelta(hours=1)))
COLUMNS = {"symbol": ["X:A"], "id": ["1"], "ts": [NOON], "price": ["1"], "size": ["1"]}


def parquet_bytes(**columns: object) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(pa.table(COLUMNS | columns), sink)
    return sink.getvalue()


@pytest.mark.usefixtures("two_versions")
def test_what_is_no_file_of_ticks_is_refused(command: Command, tmp_path: Path) -> None:
    for name, content, says in (
        ("a.csv", b"", "the first line is empty: it must name the columns"),
        ("a.csv", parquet_bytes(), "the name of a Parquet file must end in .parquet"),
        ("a.csv", b"symbol,\x1b[2J", r"'\x1b[2J' is unknown"),
        ("a.csv.gz", gzip.compress(HEADER.encode(), mtime=0)[:-4], "it cannot be read to its end: "),
        ("a.parquet", b"symbol,id,ts,price,size\n", "it is not a Parquet file: "),
        ("a.parquet", parquet_bytes(price=[1.5]), "price is double, and floating-point numbers are not exact"),
        ("a.parquet", parquet_bytes(seq=pa.array([1], pa.float32())), "not exact: make it an integer"),
        ("a.parquet", parquet_bytes(ts=[NOON.astimezone(UTC).replace(tzinfo=None)]), "without a time zone"),
        ("a.parquet", parquet_bytes(size=[True]), "size is bool: make it text"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        done = command("import", str(path))
        assert (done.returncode, done.stdout) == (1, ""), says
        assert done.stderr.startswith(f"bin/marketdata-import: {path}: ")
        assert says in done.stderr


@pytest.mark.usefixtures("two_versions")
def test_files_that_cannot_be_imported_are_named_at_the_end(command: Command, tmp_path: Path) -> None:
    path = csv_file(tmp_path, "X:A,1,2024-01-31T00:00:00Z,1,1", "nothing")
    more = csv_file(tmp_path, "X:A,2,2024-01-31T00:00:00Z,1,1", name="more.csv")
    empty = tmp_path / "empty.csv"
    empty.touch()
    absent = "/nowhere/ticks.csv: it cannot be read: No such file or directory\n"
    assert command("import", "/nowhere/ticks.csv", str(more)).returncode == 2
    done = command("import", "/nowhere/ticks.csv", str(path), str(empty), str(more))
    assert done.returncode == 1
    assert done.stderr.splitlines(keepends=True)[1:] == [
        f"bin/marketdata-import: {absent}",
        f"bin/marketdata-import: {empty}: the first line is empty: it must name the columns\n",
        "bin/marketdata-import: 1 rows were rejected\n",
    ]
    assert f"{path}: 2 rows: 1 new ticks" in done.stdout
    assert f"{more}: already imported" in done.stdout


@pytest.mark.usefixtures("two_versions")
def test_of_a_file_that_is_cut_the_stored_rows_are_counted(command: Command, tmp_path: Path) -> None:
    path = large(tmp_path / "ticks.csv.gz")
    path.write_bytes(path.read_bytes()[:-2000])
    done = command("import", str(path))
    assert (done.returncode, done.stdout) == (1, "")
    assert "it cannot be read to its end: " in done.stderr
    assert done.stderr.endswith("; stored before: 10,000 rows: 10,000 new ticks, 0 known, 0 rejected\n")


def test_a_dropped_version_forgets_imports(
    command: Command, into_2: Command, two_versions: Connection, tmp_path: Path
) -> None:
    path = csv_file(tmp_path, "X:A,1,2024-01-31T00:00:00Z,1,1")
    assert into_2(str(path)).returncode == 0
    assert command("drop", "2", "--yes").returncode == 0
    assert command("version", "2").returncode == 0
    assert "1 new ticks" in into_2(str(path)).stdout

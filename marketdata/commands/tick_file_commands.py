"""The command lines of ``bin/marketdata-export`` and ``bin/marketdata-import``."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, BinaryIO

from marketdata.commands.database_connection import discard_output, initialised, say, warn
from marketdata.commands.time_argument import TIMES, microseconds_argument
from marketdata.errors import AlreadyRunning, InvalidValue, MarketError, StateError, UsageError
from marketdata.limits import MAX_REJECTED_LINES
from marketdata.settings import Settings
from marketdata.status_line import StatusLine, bar, clock
from marketdata.tick_csv import COLUMNS

if TYPE_CHECKING:
    from marketdata.operations.symbol_access import SymbolAccess
    from marketdata.operations.tick_export import Selection, Sink
    from marketdata.operations.tick_import import Progress, Rejection, Source
    from marketdata.store.version import Version

ABOUT_IMPORT = "Store the ticks of files. The same command goes on with files that were imported in part."
ABOUT_EXPORT = "Write ticks as CSV or Parquet, from one snapshot of the served version."

_STANDARD = "-"
"""This name is standard input or standard output."""
_MAX_PRUNED = 3
"""If ticks of many symbols are pruned, this many are named."""


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("csv", "parquet"), required=True, help="of the file; parquet uses pyarrow")
    parser.add_argument(
        "--symbol", action="append", default=[], metavar="S", help="a symbol or alias, repeatable; default: all symbols"
    )
    parser.add_argument(
        "--from", dest="start", type=microseconds_argument, metavar="TIME", help=f"ticks from TIME on: {TIMES}"
    )
    parser.add_argument(
        "--to", dest="end", type=microseconds_argument, metavar="TIME", help="ticks until TIME, itself included"
    )
    parser.add_argument(
        "-o", "--output", type=_new_file, metavar="FILE", help="a new file; default, and -: standard output"
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    parser.epilog = (
        "Example: bin/marketdata-export --format parquet --symbol ETH:WETH-USDC -o weth.parquet\n\n"
        f"The columns are {', '.join(COLUMNS)}. Ticks are in the order of symbol, ts, seq and id.\n\n{parser.epilog}"
    )


def _new_file(text: str) -> Path | None:
    """The path of the file, or None for standard output."""
    if text.endswith("/"):  # Path would remove it
        raise argparse.ArgumentTypeError(f"{text} is the name of a folder: name a file")
    return None if text == _STANDARD else Path(text)


def export(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.operations import tick_export
    from marketdata.operations.symbol_access import SymbolAccess
    from marketdata.store.version import find_served

    if options.start is not None and options.end is not None and options.start > options.end:
        raise UsageError("--from is after --to")
    signal.signal(signal.SIGTERM, _exit)  # so that SIGTERM removes an unfinished file, like Ctrl-C
    progress = _Progress("export")
    name, tell = ("standard output", warn) if options.output is None else (str(options.output), say)
    with initialised(settings) as connection, SymbolAccess(connection) as access:
        version = find_served(connection, settings)
        with tick_export.snapshot(connection):
            selection = tick_export.selected(access, version, options.symbol, options.start, options.end)
            with _written(name), _output(options) as file:
                expected = max(sum(each.expected for each in selection.symbols), 1)
                sink = _sink(options.format, file)
                try:
                    count = tick_export.export(
                        access, version, selection, sink, lambda ticks: progress.show(ticks / expected, ticks)
                    )
                finally:
                    progress.clear()
    tell(
        f"{name}: {_number(count, 'tick')} of {_number(len(selection.symbols), 'symbol')} "
        f"in {progress.seconds:.1f} s{_pruned(selection)}"
    )


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' if count != 1 else ''}"


def _pruned(selection: Selection) -> str:
    """The times from which ticks are still stored, for symbols whose older ticks are pruned."""
    lines = [f"{each.symbol} from {each.line:%Y-%m-%d} on" for each in selection.symbols if each.line]
    more = f" and {len(lines) - _MAX_PRUNED:,} more symbols" if len(lines) > _MAX_PRUNED else ""
    return f"; older ticks are pruned: {', '.join(lines[:_MAX_PRUNED])}{more}" if lines else ""


def _exit(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


@contextlib.contextmanager
def _written(name: str) -> Iterator[None]:
    """Raises StateError if the file of this name cannot be written, for example because the disk is full."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StateError(f"{name} cannot be written: {error.strerror}") from error


@contextlib.contextmanager
def _output(options: argparse.Namespace) -> Iterator[BinaryIO]:
    from marketdata.operations.tick_export import new_file

    if options.output is not None:
        with new_file(options.output, replaces=options.force) as file:
            yield file
    elif options.format == "parquet" and sys.stdout.isatty():
        raise UsageError("Parquet is not written to a terminal: name a file with -o FILE")
    else:
        try:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        except OSError:
            discard_output()
            raise


def _sink(format: str, file: BinaryIO) -> Sink:
    if format == "csv":
        from marketdata.operations.tick_export import CsvSink

        return CsvSink(file)
    from marketdata.operations.parquet import ParquetSink

    return ParquetSink(file)


def add_import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs="+", metavar="FILE",
        help="NAME.parquet, or CSV under any other name, also compressed by gzip; - is CSV on standard input",
    )  # fmt: skip
    parser.add_argument("--again", action="store_true", help="begin anew with files that were imported, also in part")
    parser.epilog = (
        "Example: bin/marketdata-import weth.parquet more.csv.gz\n\n"
        f"The first line of CSV names the columns, in any order: {', '.join(COLUMNS)}.\n\n{parser.epilog}"
    )


def import_files(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.operations.symbol_access import SymbolAccess
    from marketdata.store.version import find_served

    rejected = 0
    faults: list[MarketError] = []
    with initialised(settings) as connection, SymbolAccess(connection) as access:
        version = find_served(connection, settings)
        for name in options.files:
            try:
                rejected += _import_file(access, version, name, options.again).rejected
            except (InvalidValue, StateError, AlreadyRunning, UsageError) as error:
                faults.append(type(error)(f"{name}: {error.detail}"))
    if rejected:
        faults.append(StateError(f"{rejected:,} rows were rejected"))
    for fault in faults[:-1]:
        warn(f"{options.prog}: {fault.detail}")
    if faults:
        raise faults[0] if len(faults) == 1 else StateError(faults[-1].detail)


def _import_file(access: SymbolAccess, version: Version, name: str, again: bool) -> Progress:
    from marketdata.operations.tick_import import Import, Progress, identity

    with _input(name) as file:
        size = os.fstat(file.fileno()).st_size
        task = Import(access, version, identity(file) if file.seekable() else None)
        with task.alone():
            begun = Progress() if again else task.progress()
            if begun.is_complete:
                say(f"{name}: already imported ({_counts(begun)}); --again imports it anew")
                return begun
            source = _source(name, file, size)
            report = _Report(name, begun, source)
            try:
                done = task.run(source, begun, report.tell)
            except StateError as error:
                raise StateError(f"{error.detail}; stored before: {_counts(report.done)}") from error
            finally:
                report.progress.clear()
    say(f"{name}: {_counts(done)}, in {report.progress.seconds:.1f} s{_resumed(begun)}")
    return done


def _source(name: str, file: BufferedReader, size: int) -> Source:
    from marketdata.operations.tick_import import CsvSource, ParquetSource

    return ParquetSource(file) if name.endswith(".parquet") else CsvSource(file, size if file.seekable() else 0)


@contextlib.contextmanager
def _input(name: str) -> Iterator[BufferedReader]:
    if name == _STANDARD:
        yield sys.stdin.buffer  # type: ignore[misc]
        return
    try:
        file = open(name, "rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise UsageError(f"it cannot be read: {error.strerror}") from error
    with file:
        yield file


class _Report:
    """Shows the progress of an import, and names the rejected rows."""

    def __init__(self, name: str, begun: Progress, source: Source) -> None:
        self._name = name
        self._begun = begun
        self._source = source
        self._named = 0
        self.done = begun
        self.progress = _Progress(name)

    def tell(self, done: Progress, rejected: list[Rejection]) -> None:
        self.done = done
        if rejected:
            self.progress.clear()
        for row, code, detail in rejected[: MAX_REJECTED_LINES - self._named]:
            warn(f"{self._name}: row {row} is rejected ({code}): {detail}")
        self._named += len(rejected[: MAX_REJECTED_LINES - self._named])
        self.progress.show(self._source.share, done.place.rows - self._begun.place.rows)


def _counts(done: Progress) -> str:
    return (
        f"{done.place.rows:,} rows: {done.created:,} new ticks, {done.duplicates:,} known, {done.rejected:,} rejected"
    )


def _resumed(begun: Progress) -> str:
    return f"; it went on after row {begun.place.rows:,}" if begun.place.rows else ""


class _Progress:
    """The progress of a command, on standard error if that is a terminal."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._status = StatusLine(sys.stderr)
        self._began = monotonic()
        self._first: tuple[float, float] | None = None

    @property
    def seconds(self) -> float:
        """The time since the beginning."""
        return monotonic() - self._began

    def show(self, share: float, ticks: int) -> None:
        """Show which share of the work is done, and the number of ticks so far."""
        share, seconds = min(share, 1.0), self.seconds
        then, done = self._first = self._first or (seconds, share)
        left = clock((1 - share) * (seconds - then) / (share - done)) if share > done else "--:--"
        speed = ticks / max(seconds, 0.001)
        self._status.show(f"{self._name} {bar(share)}  {ticks:,} ticks  {speed:,.0f} ticks/s  {left} left")

    def clear(self) -> None:
        self._status.clear()

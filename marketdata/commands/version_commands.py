"""The command lines of ``bin/marketdata-version``, ``-copy``, ``-cutover`` and ``-drop``."""

from __future__ import annotations

import argparse
import shlex
import signal
import threading

from marketdata.commands.database_connection import confirm, initialised, say
from marketdata.commands.time_argument import TIMES, time_argument
from marketdata.errors import StateError, UsageError
from marketdata.settings import Settings

ABOUT_VERSION = "Create the tables and functions of version N, and write its vN.env."
ABOUT_COPY = "Carry what version FROM received over to version TO: ticks, retracted and final blocks, coverage."
ABOUT_CUTOVER = "Compare the candles of the current version with those of version N, and make N the current one."

ABOUT_DROP = "Remove version N with everything that is stored in it. The current version is refused."


def add_version_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("n", metavar="N", type=_number, help="the number of the version, from 1")
    parser.add_argument(
        "--shards",
        type=_shards,
        metavar="K",
        help="distribute the version by symbol over K shards; DATABASE_URL is the coordinator of a Citus cluster",
    )


def add_copy_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FROM", type=_number, help="the number of the version to copy from")
    parser.add_argument("target", metavar="TO", type=_number, help="the number of the version to copy to")
    parser.add_argument("--follow", action="store_true", help="go on with what FROM receives, until Ctrl-C or SIGTERM")


def add_cutover_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("n", metavar="N", type=_number, help="the number of the version to make the current one")
    parser.add_argument(
        "--from",
        dest="start",
        type=time_argument,
        metavar="TIME",
        help=f"compare candles that open from TIME on: {TIMES}",
    )
    parser.add_argument(
        "--to", dest="end", type=time_argument, metavar="TIME", help="compare candles that open until TIME"
    )
    parser.add_argument("--compare", action="store_true", help="only compare and report")
    parser.add_argument("--despite-differences", action="store_true", help="switch although candles differ")


def add_drop_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("n", metavar="N", type=_number, help="the number of the version to remove")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _number(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:7]) <= 999_999:
        raise argparse.ArgumentTypeError(f"must be the number of a version, from 1 to 999999, like 2, not {text!r}")
    return int(text)


def _shards(text: str) -> int:
    from marketdata.store.shards import MAX_SHARDS

    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:7]) <= MAX_SHARDS:
        raise argparse.ArgumentTypeError(f"must be a number of shards, from 1 to {MAX_SHARDS}, like 32, not {text!r}")
    return int(text)


def version(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.operations.setup import make_version, settings_file

    with initialised(settings, say) as connection:
        make_version(connection, settings, options.n, say, options.shards)
    file = shlex.quote(str(settings_file(settings, options.n)))
    say(f"next, to serve this version: bin/marketdata-api --env-file {file}")


def copy(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.operations.copy import CopyLoop, copying
    from marketdata.operations.pair_access import PairAccess
    from marketdata.operations.symbol_access import SymbolAccess
    from marketdata.operations.version_pair import Pair
    from marketdata.store.version import registered

    source, target = options.source, options.target
    if source == target:
        raise UsageError(f"FROM and TO are both {source}: give the numbers of two different versions")
    stopping = threading.Event()
    if options.follow:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stopping.set())
    with initialised(settings) as connection:
        pair = Pair.of(connection, settings.prefix, source, target)
        with copying(connection, settings.prefix), SymbolAccess(connection) as access:
            loop = CopyLoop(PairAccess(connection, pair, access), stopping, say)
            loop.run(follows=options.follow)
        is_current = any(each.n == target and each.is_current for each in registered(connection, settings.prefix))
    if options.follow:
        say(f"stopped after a last pass; carried {loop.described()}")
    if is_current:
        say(f"version {target} is the current one; bin/marketdata-cutover {source} goes back")
    else:
        say(f"next: bin/marketdata-cutover {target} compares the candles and makes version {target} the current one")


def cutover(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.operations.comparison import EVERYTHING, Bounds
    from marketdata.operations.cutover import Cutover, numbers, report
    from marketdata.operations.pair_access import PairAccess
    from marketdata.operations.symbol_access import SymbolAccess
    from marketdata.operations.version_pair import Pair

    bounds = Bounds(options.start or EVERYTHING.start, options.end or EVERYTHING.end)
    if bounds.start > bounds.end:
        raise UsageError(f"--from {bounds.start.isoformat()} is after --to {bounds.end.isoformat()}")
    with initialised(settings) as connection, SymbolAccess(connection) as access:
        versions = numbers(connection, settings.prefix, options.n)
        if versions.current == versions.new:
            say(f"version {options.n} is the current one: nothing to do")
            return
        pair = Pair.of(connection, settings.prefix, *versions)
        task = Cutover(PairAccess(connection, pair, access), say, bounds)
        found = task.compare() if options.compare else task.switch(despite=options.despite_differences)
    report(found, versions, say)
    if found and not options.despite_differences:
        raise StateError(
            f"{len(found)} differences; version {versions.current} stays the current one. Run bin/marketdata-copy "
            f"{versions.current} {versions.new} (with --follow, while version {versions.current} receives) and this "
            f"command again. A copy removes nothing that only version {versions.new} has: if differences "
            "stay, switch nevertheless with --despite-differences"
        )
    if options.compare:
        return
    say(
        f"version {versions.new} is the current one, and version {versions.current} is kept; "
        "APIs that name no version serve it within 5 s"
    )
    say(
        f"next: stop the ingestor of version {versions.current}, then the copy; "
        f"bin/marketdata-cutover {versions.current} goes back"
    )


def drop(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.operations.drop import contents, drop, droppable
    from marketdata.operations.setup import settings_file

    n = options.n
    with initialised(settings) as connection:
        version = droppable(connection, settings.prefix, n)
        stored = contents(connection, version)
        what = f"version {n} ({version.ticks_table}: {stored.ticks} ticks of {stored.symbols} symbols)"
        if not options.yes:
            confirm(f"drop {what}")
        removed = drop(connection, settings, n)
    say(f"dropped {what}")
    for path in removed:
        say(f"{path}: removed")
    path = settings_file(settings, n)
    if path.exists():
        say(f"{path}: kept; bin/marketdata-version {n} would use it again")

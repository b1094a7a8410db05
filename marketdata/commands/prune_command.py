"""The command line of ``bin/marketdata-prune``."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING

from marketdata.commands.database_connection import initialised, say
from marketdata.commands.time_argument import EPOCH, TIMES, time_argument
from marketdata.settings import Settings
from marketdata.status_line import StatusLine, bar, clock

if TYPE_CHECKING:
    from marketdata.operations.prune import Prune
    from marketdata.store.prune import Line

ABOUT = "Delete old ticks and keep their candles. Afterwards nothing can be stored or removed before that time."
EXAMPLE = "Example: bin/marketdata-prune --before 2026-01-01 --symbol ETH:WETH-USDC\n\n"

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_MAX_NAMED = 3
"""If many symbols have an earlier line, this many of them are named."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--before",
        required=True,
        type=time_argument,
        metavar="TIME",
        help=f"{TIMES}; rounded down to a day (UTC), and for symbols with blocks to a day that is final",
    )
    parser.add_argument(
        "--symbol", action="append", default=[], metavar="S",
        help="only this symbol or alias; may be given several times; default: all that exist now",
    )  # fmt: skip
    parser.epilog = EXAMPLE + (parser.epilog or "")


def run(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.operations.prune import Prune, check_past, pruning
    from marketdata.operations.symbol_access import SymbolAccess
    from marketdata.store.version import find_served

    with initialised(settings) as connection:
        version = find_served(connection, settings)
        check_past(connection, options.before)
        before = options.before.replace(hour=0, minute=0, second=0, microsecond=0)
        with pruning(connection, version), SymbolAccess(connection) as access:
            work = Prune(access, version, before, options.symbol)
            progress = _Progress(work)
            # Blocked signals wait for sigtimedwait, so that they end no transaction.
            signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
            try:
                taken = _delete(work, progress)
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    if taken is None:
        say(progress.summary(options.before, before))
    else:
        name = signal.Signals(taken).name
        say(f"{progress.summary(options.before, before)}; {name} ended it: the next run deletes the rest")
        raise SystemExit(128 + taken)


def _delete(work: Prune, progress: _Progress) -> int | None:
    """Prune until nothing is left or a stop signal comes. Returns the signal, or None."""
    try:
        work.draw()
        for seconds in work.delete():
            progress.show()
            taken = signal.sigtimedwait(STOP_SIGNALS, seconds)
            if taken is not None:
                return taken.si_signo
        return None
    finally:
        progress.clear()


class _Progress:
    """The progress of a prune: a bar on a terminal, and one line at the end."""

    def __init__(self, work: Prune) -> None:
        self._work = work
        self._status = StatusLine(sys.stderr)
        self._began = monotonic()

    def show(self) -> None:
        done, most = self._work.deleted, max(self._work.most, self._work.deleted, 1)
        left = clock((most - done) * (monotonic() - self._began) / done) if done else "--:--"
        self._status.show(f"{bar(done / most)}  {done:,} of {most:,} ticks  {left} left")

    def clear(self) -> None:
        self._status.clear()

    def summary(self, asked: datetime, before: datetime) -> str:
        """One line about the whole run."""
        work, seconds = self._work, monotonic() - self._began
        rounded = "" if asked == before else f", rounded down from {asked:%Y-%m-%dT%H:%M:%SZ}"
        symbols = f"{len(work.lines):,} symbols" if len(work.lines) != 1 else work.lines[0].symbol
        space = ". PostgreSQL reuses their space when autovacuum has passed" if work.deleted else ""
        return (
            f"line {before:%Y-%m-%d}{rounded}{_limits(work.lines, before)}; "
            f"deleted {work.deleted:,} ticks of {symbols} in {seconds:.1f} s{space}"
        )


def _limits(lines: Sequence[Line], before: datetime) -> str:
    """Names the symbols whose line is not ``before``, because finality limits it or it is later already."""
    early = sorted((each for each in lines if each.until != before), key=lambda each: each.until or EPOCH)
    later = [each for each in lines if each.now is not None and each.now > before]
    found = ""
    if early:
        found += f"; {_named(early)}, because nothing later is final"
    if later:
        found += f"; {_listed([f'{each.symbol} {each.now:%Y-%m-%d}' for each in later])} already, from an earlier prune"
    return found


def _named(lines: Sequence[Line]) -> str:
    return _listed([f"{each.symbol} {f'only {each.until:%Y-%m-%d}' if each.until else 'none'}" for each in lines])


def _listed(parts: Sequence[str]) -> str:
    more = len(parts) - _MAX_NAMED
    return ", ".join(parts[:_MAX_NAMED]) + (f" and {more:,} more symbols" if more > 0 else "")

"""The command line of ``bin/marketdata-backfill``, with its progress bar."""

from __future__ import annotations

import argparse
import gc
import signal
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, TextIO

from marketdata import secretfile
from marketdata.errors import MarketError, StateError, UsageError
from marketdata.ingest.cli import api_client, chosen, rpc_file
from marketdata.settings import Settings
from marketdata.status_line import StatusLine, bar, clock

if TYPE_CHECKING:
    from marketdata.ingest.backfill.coordinator import Backfill
    from marketdata.ingest.backfill.plan import Bounds

ABOUT = "Read the past of the pools of rpc.json, up to the ingestor's first block, and store it through the API."

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SHOW_S = 0.1
_MAX_DIGITS = 15
_GC_THRESHOLD = 100_000


def add_commands(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--chain", metavar="C", help="only this chain of rpc.json; default: all, one after the other")
    parser.add_argument(
        "--from-block", type=_block, metavar="N", help="the first block to read; default: each pool's start_block"
    )
    parser.add_argument(
        "--to-block",
        type=_block,
        metavar="N",
        help="the last block to read, if it is final; default: for each pool the block before the ingestor's first "
        "block, or the newest final block if no ingestor has read the pool",
    )


def run(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.ingest.backfill.coordinator import Backfill
    from marketdata.ingest.lease import locked
    from marketdata.ingest.outbox import Outbox, outbox_path

    first, last = options.from_block, options.to_block
    if first is not None and last is not None and first > last:
        raise UsageError(f"--from-block {first} is after --to-block {last}")
    chains = chosen(rpc_file(settings), options.chain)
    if len(chains) > 1 and (first, last) != (None, None):
        raise UsageError("rpc.json has several chains, and block numbers belong to one: add --chain")
    # Decoding makes many objects but no cycles. With the default threshold, the garbage collection takes a tenth of the
    # run time.
    gc.set_threshold(_GC_THRESHOLD)
    table = _table(settings)
    path = outbox_path(settings, table)
    secretfile.make_folder(path.parent, "MARKET_STATE_DIR")
    # The signals are blocked before the first thread starts. _wait takes them with sigtimedwait.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    errors = []
    with locked(path.with_name(f"{path.stem}-backfill.lock"), "backfill"):
        Outbox(path).close()
        for chain in chains:
            error = _run_chain(Backfill(chain, path, partial(api_client, settings), table, first, last), chain.name)
            if error is not None:
                errors.append(error)
                if len(chains) > 1:
                    print(f"{chain.name}: {error.detail}", file=sys.stderr, flush=True)
    if errors:
        raise errors[0]


def _run_chain(work: Backfill, chain: str) -> MarketError | None:
    """Read one chain, and print how it ended. Returns the error that ended it. A stop signal ends the process."""
    progress = Progress(work, chain, sys.stderr)
    work.start()
    try:
        signal_number = _wait(work, progress)
    finally:
        progress.clear()
        work.stop()
    if signal_number is not None:
        print(f"{progress.summary()}; {signal.Signals(signal_number).name} ended it{_goes_on(work)}", flush=True)
        raise SystemExit(128 + signal_number)
    if work.error is None:
        print(progress.summary(), flush=True)
        return None
    if work.next_block is None:
        return work.error
    return StateError(f"{work.error.detail}{_goes_on(work)}", code=work.error.code)


def _table(settings: Settings) -> str:
    """The table to store in. Waits up to ``RETRY_S`` seconds for the API."""
    from marketdata.ingest.api_client import ApiUnavailable, find_table
    from marketdata.ingest.backfill.coordinator import RETRY_S

    until = monotonic() + RETRY_S

    def wait(error: ApiUnavailable, seconds: float) -> None:
        if monotonic() + seconds > until:
            raise error
        threading.Event().wait(seconds)

    with closing(api_client(settings)) as api:
        return find_table(settings, api, wait)


def _wait(work: Backfill, progress: Progress) -> int | None:
    """Wait until the work is finished or a stop signal comes. Returns the signal, or None."""
    while not work.finished:
        taken = signal.sigtimedwait(STOP_SIGNALS, _SHOW_S)
        if taken is not None:
            return taken.si_signo
        progress.show()
    return None


def _goes_on(work: Backfill) -> str:
    return "" if work.next_block is None else f"; the next run continues at block {work.next_block}"


def _block(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > _MAX_DIGITS:
        raise argparse.ArgumentTypeError(f"must be the number of a block, not {text!r}")
    return int(text)


_WINDOW_S = 30.0
"""The shown rate is the mean of the last 30 seconds, because the number of ticks in a block changes over the years."""
_REASONS = {"no_price": "without a price", "not_a_swap": "no swap of its kind of pool"}


class Progress:
    """The progress of a backfill: a bar if ``stream`` is a terminal, and one line at the end."""

    def __init__(self, work: Backfill, chain: str, stream: TextIO | None) -> None:
        self._work = work
        self._chain = chain
        self._status = StatusLine(stream)
        self._began = monotonic()
        self._seen: deque[tuple[float, int, int]] = deque()

    def show(self) -> None:
        counts, now = self._work.counts, monotonic()
        self._seen.append((now, counts.blocks, counts.ticks))
        while now - self._seen[0][0] > _WINDOW_S:
            self._seen.popleft()
        self._status.show(self._line(now))

    def clear(self) -> None:
        self._status.clear()

    def summary(self) -> str:
        """One line about the whole run."""
        counts, seconds = self._work.counts, monotonic() - self._began
        bounds = self._work.bounds
        last = max((each.last for each in bounds.values() if each.first <= each.last), default=None)
        up_to = "" if last is None else f" up to block {last:,}"
        if self._work.is_planned and not counts.blocks and self._work.next_block is None:
            return f"{self._chain}: nothing to read{_causes(bounds, self._work.newest) if bounds else _NO_POOL}"
        skipped = "".join(f", {number:,} swaps skipped ({_REASONS[why]})" for why, number in counts.skipped.items())
        pruned = f", {counts.pruned:,} not stored, because ticks of their time are pruned" if counts.pruned else ""
        contradicted = (
            f", {counts.contradicted:,} ranges in which the provider contradicted itself" if counts.contradicted else ""
        )
        left_out = f", {counts.left_out:,} blocks of which the provider had left out events" if counts.left_out else ""
        return (
            f"{self._chain}: {counts.blocks:,} blocks{up_to} read in {seconds:.1f} s: {counts.ticks:,} ticks, "
            f"{counts.new:,} new, {counts.known:,} known, {counts.dead:,} refused (dead letters)"
            f"{pruned}{skipped}{contradicted}{left_out}{self._not_final()}"
        )

    def _not_final(self) -> str:
        asked = self._work.last
        is_cut = asked is not None and any(each.end == "final" for each in self._work.bounds.values())
        return f"; --to-block {asked} is not final yet: run it again later" if is_cut else ""

    def _line(self, now: float) -> str:
        counts, all_blocks = self._work.counts, self._work.all_blocks
        if not all_blocks:
            return f"{self._chain}: asking the provider and the API"
        then, blocks_then, ticks_then = self._seen[0]
        seconds = max(now - then, 0.001)
        blocks_s, ticks_s = (counts.blocks - blocks_then) / seconds, (counts.ticks - ticks_then) / seconds
        left = clock((all_blocks - counts.blocks) / blocks_s) if blocks_s else "--:--"
        return (
            f"{self._chain} {bar(counts.blocks / all_blocks)}  {counts.blocks:,} of {all_blocks:,} blocks  "
            f"{ticks_s:,.0f} ticks/s  {left} left"
        )


_NO_POOL = (
    ": no pool of its factories is known yet. Run bin/marketdata-ingestor first: it finds the pools, and "
    "bin/marketdata-ingestor pools lists them"
)
_MAX_NAMED = 3
"""If one cause holds for many pools, this many are named."""


def _causes(bounds_of: Mapping[str, Bounds], newest: int) -> str:
    """Why no pool has a block to read, and what to do."""
    pools: dict[str, list[str]] = {}
    for symbol, bounds in bounds_of.items():
        pools.setdefault(_cause(bounds, newest), []).append(symbol)
    return "".join(f"{';' if at else ':'} {_named(pools[cause])}: {cause}" for at, cause in enumerate(pools))


def _named(symbols: Sequence[str]) -> str:
    more = len(symbols) - _MAX_NAMED
    return ", ".join(symbols[:_MAX_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _cause(bounds: Bounds, newest: int) -> str:
    first, last, end = bounds
    if first <= last:
        stored = f"the blocks {first:,} to {last:,} are stored"
        return (
            stored
            + {
                "to_block": "",
                "ingestor": ", and the ingestor reads from there on",
                "final": ", and newer blocks are not final yet: run it again later, or let bin/marketdata-ingestor "
                "follow the chain",
            }[end]
        )
    if first > newest:
        return (
            f"block {first:,} is after the newest block, {newest:,}: correct start_block in rpc.json, or --from-block"
        )
    if end == "to_block":
        return f"its start_block {first:,} is after --to-block {last:,}: give a later --to-block"
    if end == "ingestor":
        return (
            f"the ingestor began at block {last + 1:,} and reads from there on: an earlier start_block in rpc.json, or "
            "--from-block, reads what was before"
        )
    final = f"the newest final block is {last:,}" if last >= 0 else f"the newest block is {newest:,}"
    return f"block {first:,} is not final yet, {final}: run it again later"

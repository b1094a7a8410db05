"""The command line of ``bin/marketdata-backfill``."""

from __future__ import annotations

import argparse
import gc
import signal
import sys
import threading
from contextlib import closing
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from marketdata import secretfile
from marketdata.errors import StateError, UsageError
from marketdata.ingest.cli import api_client, rpc_file
from marketdata.settings import Settings

if TYPE_CHECKING:
    from marketdata.ingest.backfill.progress import Progress
    from marketdata.ingest.backfill.work import Backfill

ABOUT = "Read the past of the pools of rpc.json, up to where the ingestor began, and store it through the API."

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LOOK_S = 0.1
_DIGITS = 15
_COLLECT_AT = 100_000


def add_commands(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from-block", type=_block, metavar="N", help="the first block to read; default: each pool's start_block"
    )
    parser.add_argument(
        "--to-block",
        type=_block,
        metavar="N",
        help="the last block to read, if it is final; default: the one before the ingestor's first block of each pool, "
        "or the newest final one where no ingestor began",
    )


def run(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.ingest.backfill.progress import Progress
    from marketdata.ingest.backfill.work import Backfill
    from marketdata.ingest.destination import outbox_path
    from marketdata.ingest.lease import locked
    from marketdata.ingest.outbox import Outbox

    first, last = options.from_block, options.to_block
    if first is not None and last is not None and first > last:
        raise UsageError(f"--from-block {first} is after --to-block {last}")
    file = rpc_file(settings)
    # Decoding makes many objects and no cycles: looking for these at every 700th one takes a tenth of the time.
    gc.set_threshold(_COLLECT_AT)
    table = _table(settings)
    path = outbox_path(settings, table)
    secretfile.make_folder(path.parent, "MARKET_STATE_DIR")
    # As in the API: blocked before the first thread starts, and taken by sigtimedwait.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    with locked(path.with_name(f"{path.stem}-backfill.lock"), "backfill"):
        Outbox(path).close()
        work = Backfill(file, path, partial(api_client, settings), table, first, last)
        progress = Progress(work, file.chain, sys.stderr)
        work.start()
        try:
            number = _wait(work, progress)
        finally:
            progress.clear()
            work.stop()
    if number is not None:
        print(f"{progress.summary()}; {signal.Signals(number).name} ended it{_goes_on(work)}", flush=True)
        raise SystemExit(128 + number)
    if work.error is not None:
        if work.next_block is None:
            raise work.error
        raise StateError(f"{work.error.detail}{_goes_on(work)}", code=work.error.code) from work.error
    print(progress.summary(), flush=True)


def _table(settings: Settings) -> str:
    """The table to store in. Waits for the API no longer than the work itself does."""
    from marketdata.ingest.api_client import ApiUnavailable
    from marketdata.ingest.backfill.work import RETRY_S
    from marketdata.ingest.destination import find_table

    until = monotonic() + RETRY_S

    def wait(error: ApiUnavailable, seconds: float) -> None:
        if monotonic() + seconds > until:
            raise error
        threading.Event().wait(seconds)

    with closing(api_client(settings)) as api:
        return find_table(settings, api, wait)


def _wait(work: Backfill, progress: Progress) -> int | None:
    """Until the work is finished, or until the signal that ends it."""
    while not work.finished:
        taken = signal.sigtimedwait(STOP_SIGNALS, _LOOK_S)
        if taken is not None:
            return taken.si_signo
        progress.show()
    return None


def _goes_on(work: Backfill) -> str:
    return "" if work.next_block is None else f"; the next run goes on at block {work.next_block}"


def _block(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > _DIGITS:
        raise argparse.ArgumentTypeError(f"must be the number of a block, not {text!r}")
    return int(text)

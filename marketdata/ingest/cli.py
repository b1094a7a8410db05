"""The command line of ``bin/marketdata-ingestor``."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from marketdata import secretfile
from marketdata.errors import (
    AlreadyRunning,
    MarketError,
    MissingRequirement,
    ProviderError,
    StateError,
    Stopped,
    UsageError,
)
from marketdata.settings import Settings

if TYPE_CHECKING:
    from marketdata.ingest.api_client import ApiClient
    from marketdata.ingest.chain_reader import Connect
    from marketdata.ingest.waiting import Waiting
    from marketdata.source.provider import Provider
    from marketdata.source.rpc_file import Chain

ABOUT = "Read the swaps of the pools of rpc.json from a chain, and store them through the API."

_TABLE_TIMEOUT_S = 5.0
"""Timeout of the request that asks the API for its table. A stop signal during the request takes effect when the
request has ended."""

CompareStored = Callable[[Path, Settings, "Chain", threading.Event], int]
"""Compares a chain with what is stored, and returns the number of differences. Its first argument is the outbox."""

T = TypeVar("T")

_log = logging.getLogger("marketdata.ingestor")


def add_commands(parser: argparse.ArgumentParser) -> None:
    add_quiet(parser)
    commands = parser.add_subparsers(metavar="COMMAND", help="default: run")
    commands.add_parser("run", help="read and store until Ctrl-C or SIGTERM").set_defaults(run=run)
    commands.add_parser(
        "check", help="compare every pool of rpc.json with the chain, and forecast the backfill"
    ).set_defaults(run=_check)
    pools = commands.add_parser("pools", help="list the pools that are read, and those that factories announced")
    pools.add_argument("--chain", metavar="C", help="only pools of this chain")
    pools.set_defaults(run=_pools)
    for name, text in (
        ("verify", "compare the stored ticks of final blocks with the chain; exit code 1 if anything differs"),
        ("repair", "compare, and mend what differs through the API"),
    ):
        compared = commands.add_parser(name, help=text)
        compared.add_argument("--chain", metavar="C", help="only this chain")
        compared.add_argument("--from-block", type=int, metavar="A", help="default: the newest 1000 final blocks")
        compared.add_argument("--to-block", type=int, metavar="B", help="default: the newest final block that was read")
        compared.add_argument("--format", choices=("text", "json"), default="text")
        compared.set_defaults(run=_verify, is_repair=name == "repair")
    letters = commands.add_parser("dead-letters", help="items that the API refused to store")
    actions = letters.add_subparsers(required=True, metavar="ACTION")
    actions.add_parser("list", help="show them with the reason").set_defaults(run=_list)
    actions.add_parser("retry", help="send them again").set_defaults(run=_retry)
    of_outbox = commands.add_parser("outbox", help="the file of what was read and is not delivered yet")
    steps = of_outbox.add_subparsers(required=True, metavar="ACTION")
    steps.add_parser(
        "rebuild", help="put a new one in its place, if it is damaged; the chain is read again"
    ).set_defaults(run=_rebuild)


def add_quiet(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="log only warnings")


def run(options: argparse.Namespace, settings: Settings) -> None:
    chains = _awaited(partial(rpc_file, settings), _prepared(is_quiet=options.quiet))
    if chains is None:
        return
    about = ", ".join(f"{chain.name}: {_amount(chain)}" for chain in chains)
    ingest(
        chains, lambda _outbox: _connected, "ingestor", about, settings, is_quiet=options.quiet, compare=_compare_newest
    )


def _amount(chain: Chain) -> str:
    """How many pools and factories a chain has."""
    counts = ((len(chain.pools), "pool", "pools"), (len(chain.factories), "factory", "factories"))
    return " and ".join(f"{count} {one if count == 1 else several}" for count, one, several in counts if count)


def ingest(
    chains: Sequence[Chain],
    connector: Callable[[Path], Connect],
    folder: str,
    about: str,
    settings: Settings,
    *,
    is_quiet: bool,
    compare: CompareStored | None = None,
) -> None:
    """Ingest until a stop signal. ``compare`` compares a chain with what is stored, from time to time.

    ``connector`` takes the path of the outbox and returns a function that creates a chain's provider. The folder
    ``folder`` in the state directory contains one outbox per table. ``about`` is the beginning of the first printed
    line.
    """
    from marketdata.ingest.api_client import AnotherTable
    from marketdata.ingest.waiting import STANDBY_S

    waiting = _prepared(is_quiet=is_quiet)
    secretfile.make_folder(settings.state_dir / folder, "MARKET_STATE_DIR")
    api = _awaited(partial(api_client, settings), waiting)
    if api is None:
        return
    api.close()
    while (table := _table(settings)) is not None:
        try:
            _ingest_into(table, chains, connector, folder, about, settings, compare)
            return
        except AnotherTable:
            if settings.ticks_table is not None:
                raise
            _log.warning("the API no longer writes to %s: another version has become the current one", table)
        except AlreadyRunning as error:
            # bin/start waits for a line, of which one is printed, too, when the ingestor begins to store.
            say = partial(print, flush=True)
            if waiting.is_stopped(f"standby: {error.extra['holder']} holds the lease", STANDBY_S, say):
                return
        except StateError as error:
            if waiting.is_stopped(error.detail):
                return


def _prepared(*, is_quiet: bool) -> Waiting:
    """Set up the log, and block the stop signals. Idempotent."""
    from marketdata.ingest import ingestor
    from marketdata.ingest.waiting import Waiting

    logging.basicConfig(
        level=logging.WARNING if is_quiet else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    ingestor.block_signals()
    return Waiting()


def _awaited(read: Callable[[], T], waiting: Waiting) -> T | None:
    """What ``read`` returns when the file that it needs is there and usable; None if a stop signal comes before. Raises
    UsageError for a file with a wrong content."""
    while True:
        try:
            return read()
        except (MissingRequirement, StateError) as error:
            if error.code == secretfile.MALFORMED:
                raise UsageError(error.detail) from None
            if waiting.is_stopped(f"waiting for a usable file: {error.detail}"):
                return None


def _table(settings: Settings) -> str | None:
    """The table to ingest into; None if a stop signal comes before the API names the table."""
    from marketdata.ingest.api_client import find_table
    from marketdata.ingest.waiting import STOP_SIGNALS

    def wait(error: MarketError, seconds: float) -> None:
        _log.warning("%s; trying again in %.1f s", error.detail, seconds)
        if signal.sigtimedwait(STOP_SIGNALS, seconds) is not None:
            raise Stopped("the process ends")

    with suppress(Stopped), closing(api_client(settings, _TABLE_TIMEOUT_S)) as api:
        return find_table(settings, api, wait)
    return None


def _ingest_into(
    table: str,
    chains: Sequence[Chain],
    connector: Callable[[Path], Connect],
    folder: str,
    about: str,
    settings: Settings,
    compare: CompareStored | None,
) -> None:
    from marketdata.ingest import ingestor
    from marketdata.ingest.lease import locked
    from marketdata.ingest.outbox import Outbox, outbox_path

    path = outbox_path(settings, table, folder)
    with locked(path.with_suffix(".lock")), closing(Outbox(path)) as outbox:
        api = api_client(settings)
        print(f"{about}, into {table} at {api.url}, through {path}", flush=True)
        verify = None if compare is None else partial(compare, path, settings)
        ingestor.run(chains, connector(path), outbox, api, table, settings.ingestor_metrics_port, verify)


def _connected(chain: Chain, stopping: threading.Event) -> Provider:
    from marketdata.source.failover import connected

    return connected(chain, stopping)


def _compare_newest(path: Path, settings: Settings, chain: Chain, stopping: threading.Event) -> int:
    from marketdata.ingest.verify_command import compare_newest

    return compare_newest(chain, path, settings, stopping)


def _check(_options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.ingest import check

    file, faults = settings.secrets_dir / secretfile.RPC_SOURCE, 0
    chains = rpc_file(settings)
    for chain in chains:
        try:
            for line in check.lines(chain, file):
                print(line, flush=True)
                faults += line.startswith(check.WRONG)
        except ProviderError as error:
            if len(chains) == 1:
                raise
            print(f"{check.WRONG}{error.detail}", flush=True)
            faults += 1
    if faults:
        raise StateError(f"{faults} {'fault' if faults == 1 else 'faults'} in {file}")
    print("no fault found")


def _verify(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.ingest import verify_command
    from marketdata.ingest.api_client import served_table

    chains = chosen(rpc_file(settings), options.chain)
    if len(chains) > 1 and (options.from_block, options.to_block) != (None, None):
        raise UsageError("rpc.json has several chains, and block numbers belong to one: add --chain")
    count = 0
    with closing(api_client(settings)) as api:
        table = served_table(api, settings.ticks_table)
        for path in (each for each in _existing_outboxes(settings) if each.stem == table):
            for chain in chains:
                writing = api if options.is_repair else None
                count += verify_command.run(chain, path, writing, settings, options, print, threading.Event())
    verify_command.raise_if_left(count, is_repaired=options.is_repair)


def _list(_options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.ingest.outbox import Outbox

    count = 0
    for path in _existing_outboxes(settings):
        with closing(Outbox(path)) as outbox:
            letters = outbox.dead_letters()
        count += len(letters)
        if letters:
            print(f"{path}:")
        for each in letters:
            print(f"{each.id}  {datetime.fromtimestamp(each.at, UTC):%Y-%m-%d %H:%M:%S}  {each.code}: {each.detail}")
            print(f"    {each.body}")
    print(f"{count} dead letters")


def _retry(_options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.ingest.outbox import Outbox

    count = 0
    for path in _existing_outboxes(settings):
        with closing(Outbox(path)) as outbox:
            count += outbox.retry_dead_letters()
    print(f"{count} dead letters are in the outbox again; the ingestor sends them when it runs")


def _rebuild(_options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.ingest.lease import locked
    from marketdata.ingest.outbox import rebuild

    for path in _existing_outboxes(settings):
        with locked(path.with_suffix(".lock")):
            former, unread = rebuild(path)
        print(f"{path}: new; the former one is {former}")
        if unread:
            print(f"    these tables could not be read: {', '.join(unread)}")
    print("the ingestor, when it runs, compares the stored blocks with the chain, and reads from start_block on again")


def _pools(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.ingest import pool_list
    from marketdata.ingest.outbox import Outbox

    chains = rpc_file(settings)
    chosen(chains, options.chain)  # an unknown chain is an error
    for path in _existing_outboxes(settings):
        with closing(Outbox(path, only_reads=True)) as outbox:
            print(f"{path}:")
            for line in pool_list.lines(outbox, chains, options.chain, time.time()):
                print(line)


def rpc_file(settings: Settings) -> tuple[Chain, ...]:
    """The chains of ``rpc.json``."""
    from marketdata.source.rpc_file import load

    return load(
        settings.secrets_dir / secretfile.RPC_SOURCE, warn=lambda text: print(text, file=sys.stderr, flush=True)
    )


def chosen(chains: Sequence[Chain], name: str | None) -> Sequence[Chain]:
    """The chain with this name; without a name, all chains."""
    found = [chain for chain in chains if name in (None, chain.name)]
    if not found:
        raise UsageError(f"rpc.json has no chain {name}: it has {', '.join(chain.name for chain in chains)}")
    return found


def api_client(settings: Settings, timeout: float | None = None) -> ApiClient:
    """A client with the write token. Raises an error at once if the token is unusable. ``timeout`` is in seconds."""
    from marketdata.ingest.api_client import TIMEOUT, ApiClient

    token_file = settings.secrets_dir / secretfile.WRITE_TOKEN

    def token() -> str:
        return secretfile.read_token(token_file, scope="write").token

    token()  # an unusable token is reported at once
    return ApiClient(settings.api_upstream, token, timeout or TIMEOUT)


def _existing_outboxes(settings: Settings) -> list[Path]:
    from marketdata.ingest.outbox import FOLDER, outboxes

    found = outboxes(settings)
    if not found:
        raise StateError(f"{settings.state_dir / FOLDER} has no outbox: no ingestor ran with these settings")
    return found

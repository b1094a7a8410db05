"""The command line of ``bin/marketdata-demo``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

from marketdata import secretfile
from marketdata.errors import StateError, UsageError
from marketdata.ingest import cli as ingestor
from marketdata.settings import Settings

if TYPE_CHECKING:
    from marketdata.store.pool import Connection

ABOUT = "The demo source: invented trades of an invented chain, which bin/start stores when there is no rpc.json."

Connect = Callable[[Settings], AbstractContextManager["Connection"]]
"""Connects to the database, and creates the shared tables if they are missing."""


def add_commands(parser: argparse.ArgumentParser, connect: Connect) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    running = commands.add_parser(
        "run", help="only for bin/start, which runs it: store the history, then each new block"
    )
    ingestor.add_quiet(running)
    running.set_defaults(run=run)
    anew = commands.add_parser("reset", help="remove the demo's symbols; the next start makes another chain")
    anew.set_defaults(run=partial(_reset, connect))


def run(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.demo import state_directory

    rpc_file = settings.secrets_dir / secretfile.RPC_SOURCE
    if rpc_file.exists():
        raise UsageError(f"{rpc_file} exists, so there is a real source: run bin/marketdata-ingestor")
    with state_directory.alone(settings):
        about = f"the demo source (invented trades): {' and '.join(state_directory.SYMBOLS)}"
        connector = partial(partial, state_directory.connected, settings)
        folder = state_directory.FOLDER
        ingestor.ingest([state_directory.SOURCE], connector, folder, about, settings, is_quiet=options.quiet)


def _reset(connect: Connect, _options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.demo import state_directory
    from marketdata.store import symbols
    from marketdata.store.version import distributed, registered

    names = " and ".join(state_directory.SYMBOLS)
    # The chain is removed last. After a kill in between, the next start stores the same chain again, from block 0.
    with state_directory.alone(settings), connect(settings) as connection:
        if tables := distributed(connection):
            raise StateError(
                f"{', '.join(tables)}: Citus distributes this version; remove its symbols with bin/marketdata-symbol"
            )
        state_directory.remove_outboxes(settings)
        for each in registered(connection, settings.prefix):
            removed = symbols.erase(connection, each.version, state_directory.SYMBOLS, with_chains=True)
            print(
                f"version {each.n}: removed {removed.ticks} ticks of {names}, with all that belongs to them", flush=True
            )
        state_directory.remove_chain(settings)
    print("the next bin/start makes another demo chain", flush=True)

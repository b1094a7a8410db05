"""The command line of ``bin/marketdata-ingestor``."""

from __future__ import annotations

import argparse
import logging
import sys
import threading
import time
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from marketdata import secretfile
from marketdata.errors import StateError
from marketdata.settings import Settings

if TYPE_CHECKING:
    from marketdata.ingest.api_client import ApiClient
    from marketdata.ingest.loop import Connect
    from marketdata.source.node import Node
    from marketdata.source.rpc_file import RpcFile

ABOUT = "Read the swaps of the pools of rpc.json from a chain, and store them through the API."

_CHECK_TRIES = 3
"""Someone waits for the result of a check, and can repeat it."""


def add_commands(parser: argparse.ArgumentParser) -> None:
    add_quiet(parser)
    commands = parser.add_subparsers(metavar="COMMAND", help="default: run")
    commands.add_parser("run", help="read and store until Ctrl-C or SIGTERM").set_defaults(run=run)
    commands.add_parser("check", help="ask the provider about every pool, and compare").set_defaults(run=_check)
    letters = commands.add_parser("dead-letters", help="what the API refused to store")
    actions = letters.add_subparsers(required=True, metavar="ACTION")
    actions.add_parser("list", help="show them with the reason").set_defaults(run=_list)
    actions.add_parser("retry", help="send them again").set_defaults(run=_retry)


def add_quiet(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="log only warnings")


def run(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.ingest.lease import locked

    file = rpc_file(settings)
    path = outbox_path(settings)
    secretfile.make_folder(path.parent, "MARKET_STATE_DIR")
    with locked(path.with_suffix(".lock")):
        about = f"{file.chain}: {len(file.pools)} pools"
        ingest(file, partial(_connected, file), path, about, settings, is_quiet=options.quiet)


def ingest(file: RpcFile, connect: Connect, path: Path, about: str, settings: Settings, *, is_quiet: bool) -> None:
    """Through the outbox at ``path``; the caller holds its lock. The first line printed says what is ingested."""
    from marketdata.ingest import loop
    from marketdata.ingest.outbox import Outbox

    logging.basicConfig(
        level=logging.WARNING if is_quiet else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    api = api_client(settings)
    with closing(Outbox(path)) as outbox:
        print(f"{about}, into {api.url}, through {path}", flush=True)
        loop.run(file, connect, outbox, api, settings.ticks_table, settings.ingestor_metrics_port)


def _connected(file: RpcFile, stopping: threading.Event) -> Node:
    from marketdata.source.node import Node
    from marketdata.source.rpc import Rpc

    return Node(Rpc(file.url, file.headers, per_second=file.requests_per_s, stopping=stopping), file.chain_id)


def _check(_options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.source import check
    from marketdata.source.node import Node
    from marketdata.source.rpc import Rpc

    file = rpc_file(settings)
    stopping = threading.Event()
    rpc = Rpc(file.url, file.headers, per_second=file.requests_per_s, stopping=stopping, tries=_CHECK_TRIES)
    node = Node(rpc, file.chain_id)
    print(f"asking {node.name} …", flush=True)
    with closing(rpc):
        head, finalized = node.head(with_finalized=file.confirmations is None)
        if file.confirmations is not None:
            finalized = max(0, head.number - file.confirmations)
        age = time.time() - head.time
        print(f"{node.name}: chain {file.chain_id}, block {head.number} ({age:.0f} s old), final up to {finalized}")
        faults = 0
        for pool in file.pools:
            found = check.report(node, pool)
            print(found.text, flush=True)
            for fault in found.faults:
                print(f"  WRONG: {fault}", flush=True)
            faults += len(found.faults)
    if faults:
        raise StateError(f"{faults} faults in {settings.secrets_dir / secretfile.RPC_SOURCE}")


def _list(_options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.ingest.outbox import Outbox

    with closing(Outbox(_existing_outbox(settings))) as outbox:
        letters = outbox.dead_letters()
        for each in letters:
            print(f"{each.id}  {datetime.fromtimestamp(each.at, UTC):%Y-%m-%d %H:%M:%S}  {each.code}: {each.detail}")
            print(f"    {each.body}")
    print(f"{len(letters)} dead letters")


def _retry(_options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.ingest.outbox import Outbox

    with closing(Outbox(_existing_outbox(settings))) as outbox:
        print(
            f"{outbox.retry_dead_letters()} dead letters are in the outbox again; the ingestor sends them when it runs"
        )


def rpc_file(settings: Settings) -> RpcFile:
    from marketdata.source.rpc_file import load

    return load(
        settings.secrets_dir / secretfile.RPC_SOURCE, warn=lambda text: print(text, file=sys.stderr, flush=True)
    )


def api_client(settings: Settings) -> ApiClient:
    """A client with the write token, which must be usable now."""
    from marketdata.ingest.api_client import ApiClient

    token_file = settings.secrets_dir / secretfile.WRITE_TOKEN

    def token() -> str:
        return secretfile.read_token(token_file, scope="write").token

    token()  # says at once what is wrong with it
    return ApiClient(settings.api_upstream, token)


def outbox_path(settings: Settings, folder: str = "ingestor") -> Path:
    """Each table of ticks has its own outbox; ``current`` is that of an ingestor that no table was named for."""
    return settings.state_dir / folder / f"{settings.ticks_table or f'{settings.prefix}-current'}.sqlite"


def _existing_outbox(settings: Settings) -> Path:
    path = outbox_path(settings)
    if not path.exists():
        raise StateError(f"{path} does not exist: no ingestor ran with these settings")
    return path

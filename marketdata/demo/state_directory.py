"""The demo's folder in the state directory: ``chain.json`` (seed and genesis time), the outboxes, and a lock file.

The folder is not the ingestor's: an outbox belongs to one chain, and ``rpc.json`` may name another chain later.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from marketdata import secretfile
from marketdata.demo.chain import BLOCK_S, CHAIN, HISTORY, POOLS, Blocks, DemoProvider
from marketdata.errors import StateError
from marketdata.ingest.chain_cursor import ChainCursor
from marketdata.ingest.lease import locked
from marketdata.ingest.outbox import Outbox
from marketdata.settings import Settings
from marketdata.source.rpc_file import Chain, ListedPool

SOURCE = Chain(
    name=CHAIN,
    chain_id=0,
    endpoints=(),
    confirmations=12,
    poll_s=0.5,
    pools=tuple(
        ListedPool(pool.symbol, pool.address, pool.kind, pool.decimals, pool.invert, pool.start_block)
        for pool, *_ in POOLS
    ),
)
"""The demo's chain and pools, in place of an ``rpc.json``."""

SYMBOLS = [pool.symbol for pool in SOURCE.pools]

_CHAIN_FILE = "chain.json"
FOLDER = "demo"
_SEED_BYTES = 32


@contextmanager
def alone(settings: Settings) -> Iterator[None]:
    """Hold the lock. Raises AlreadyRunning when another process runs or resets the demo of this state directory."""
    folder = _folder(settings)
    secretfile.make_folder(folder, "MARKET_STATE_DIR")
    with locked(folder / "demo.lock", "demo source (bin/start runs one)"):
        yield


def connected(settings: Settings, outbox: Path, _chain: Chain, _stopping: threading.Event) -> DemoProvider:
    """The demo's provider. The outbox says which block was read last."""
    return DemoProvider(_blocks(_folder(settings) / _CHAIN_FILE), time.time, _highest_read(outbox))


def remove_outboxes(settings: Settings) -> None:
    """Remove the outboxes, so that the next start reads the chain from its first block."""
    # A database is removed before its -shm and -wal files. In the other order, a kill could leave a database without
    # its log.
    _remove(sorted(_folder(settings).glob("*.sqlite*")))


def remove_chain(settings: Settings) -> None:
    """Remove ``chain.json``. The next start makes another chain, so the outboxes must be removed first."""
    _remove([_folder(settings) / _CHAIN_FILE])


def _remove(paths: Iterable[Path]) -> None:
    try:
        for path in paths:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise StateError(f"{error.filename} cannot be removed: {error.strerror}") from error


def _highest_read(outbox: Path) -> int:
    """The newest block that an earlier run read; 0 if no earlier run read a block."""
    if not outbox.exists():
        return 0
    with closing(Outbox(outbox)) as found:
        return (ChainCursor(found, CHAIN).next_block() or 1) - 1


def _folder(settings: Settings) -> Path:
    return settings.state_dir / FOLDER


def _blocks(path: Path) -> Blocks:
    """The chain of ``chain.json``. If the file is missing, a new chain is written to it."""
    if not path.exists():
        chain = {
            "seed": secrets.token_hex(_SEED_BYTES),
            "genesis": int(time.time()) - HISTORY * BLOCK_S,
            "history": HISTORY,
        }
        secretfile.write(path, chain)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Blocks(bytes.fromhex(found["seed"]), int(found["genesis"]), int(found["history"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StateError(f"{path} cannot be read ({error}): begin anew with bin/marketdata-demo reset") from error

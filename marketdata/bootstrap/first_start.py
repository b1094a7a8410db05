"""What a service does for itself on its private cluster, so that it runs with nothing configured: the shared tables,
version 1 when there is no version, and a read and a write token in files."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from marketdata import secretfile, token
from marketdata.bootstrap.database import Say, initialise
from marketdata.bootstrap.version import make_version
from marketdata.errors import StateError
from marketdata.settings import Settings
from marketdata.store import registry, tokens
from marketdata.store.pool import Connection

_TOKEN_FILES: tuple[tuple[str, token.Scope], ...] = ((secretfile.READ_TOKEN, "read"), (secretfile.WRITE_TOKEN, "write"))


def prepare(connection: Connection, settings: Settings, say: Say) -> None:
    """Make what is missing; all of it is left alone when it is there. Safe to run at the same time as itself."""
    initialise(connection, say)
    if not registry.registered(connection, settings.prefix):
        make_version(connection, settings, 1, say)
    make_token_files(connection, settings.secrets_dir, say)


def make_token_files(connection: Connection, folder: Path, say: Say) -> None:
    """A fresh token in each of ``read.json`` and ``alg.json`` that does not exist; one that is there is looked up."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise StateError(f"{folder} cannot hold the secrets: {error.strerror}; set MARKET_SECRETS_DIR") from error
    try:
        fcntl.flock(held, fcntl.LOCK_EX)  # of two starts at once the second finds the files of the first
        for name, scope in _TOKEN_FILES:
            path = folder / name
            if path.exists():
                _look_up(connection, path, scope, say)
                continue
            # The row first: killed in between, an unused row is left, and not a file with a token of no use.
            _row, text = tokens.create(connection, path.stem, scope)
            secretfile.write(path, {"token": text, "scope": scope, "name": path.stem})
            say(f"{path}: a fresh {scope} token")
    finally:
        os.close(held)


def _look_up(connection: Connection, path: Path, scope: token.Scope, say: Say) -> None:
    held = secretfile.read_token(path, scope=scope, warn=say)
    if tokens.find(connection, token.digest(held.token)) is None:
        say(f"{path}: its token is not usable here (unknown, expired or revoked); remove the file for a fresh one")

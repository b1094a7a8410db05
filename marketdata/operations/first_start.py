"""The set-up that the API does itself on its private cluster: the shared tables, version 1 when there is no version
yet, and a read and a write token in files."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from marketdata import secretfile, token
from marketdata.errors import StateError
from marketdata.operations import reader_password, rotation
from marketdata.operations.database import Say, initialise
from marketdata.operations.version import make_version
from marketdata.settings import Settings
from marketdata.store import tokens
from marketdata.store.pool import Connection
from marketdata.store.version import registered

_TOKEN_FILES: tuple[tuple[str, token.Scope], ...] = ((secretfile.READ_TOKEN, "read"), (secretfile.WRITE_TOKEN, "write"))


def prepare(connection: Connection, settings: Settings, say: Say) -> None:
    """Create what is missing. Several processes may do so at once."""
    initialise(connection, say)
    if not registered(connection, settings.prefix):
        make_version(connection, settings, 1, say)
    make_token_files(connection, settings.secrets_dir, say)


def make_token_files(connection: Connection, folder: Path, say: Say) -> None:
    """Create ``read.json`` and ``alg.json``, each with a new token, where they do not exist; check those that do.

    What an interrupted change of a token or of the reader's password left is completed first.
    """
    secretfile.make_folder(folder, "MARKET_SECRETS_DIR")
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise StateError(
            f"{folder} cannot be opened: {error.strerror}; set MARKET_SECRETS_DIR to another folder"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # of two starts at once the second finds the files of the first
        rotation.finish(connection, folder, say)
        reader_password.finish(connection, folder, say)
        for name, scope in _TOKEN_FILES:
            path = folder / name
            if path.exists():
                _check_token(connection, path, scope, say)
                continue
            # The row first: a process killed in between leaves an unused row, not a file with an unknown token.
            _row, text = tokens.create(connection, path.stem, scope)
            secretfile.write(path, {"token": text, "scope": scope, "name": path.stem})
            say(f"{path}: created with a new {scope} token")
    finally:
        os.close(descriptor)


def _check_token(connection: Connection, path: Path, scope: token.Scope, say: Say) -> None:
    held = secretfile.read_token(path, scope=scope, warn=say)
    if tokens.find(connection, token.digest(held.token)) is None:
        say(f"{path}: its token is unknown, expired or revoked here; remove the file to get a new one")

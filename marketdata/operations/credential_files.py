"""Creates and changes the files with credentials: the API's tokens, and the password of the reader role.

``read.json`` and ``alg.json`` are created at the first start. During a rotation, the users of a token have a valid
token at any time. A rotation creates the new token and writes temporary files with it. It then replaces the present
files, waits until the users have read the files again, and at last revokes the previous token. Each new file contains
the id of the previous token under ``replaces``. With this id, :func:`finish_rotation` can complete a rotation whose
process was killed.

Clients of libpq, like psql, read the reader's password from a file (``passfile``). A new password is first written to a
second file, and the role gets the password after that. Then the second file replaces the passfile. If the process is
killed in between, :func:`finish_reader_password` completes the change from the second file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import Any

import psycopg
from psycopg import sql

from marketdata import secretfile, token
from marketdata.errors import MarketError, StateError
from marketdata.graphql.engine import READER
from marketdata.operations import Say
from marketdata.store import tokens
from marketdata.store.pool import Connection, connect
from marketdata.store.tokens import Token

PASSFILE = "reader.pgpass"
_PENDING = "reader.pgpass.new"
_RANDOM_BYTES = 24
_TOKEN_FILES: tuple[tuple[str, token.Scope], ...] = ((secretfile.READ_TOKEN, "read"), (secretfile.WRITE_TOKEN, "write"))
_REPLACES = "replaces"
_TEMPORARY = re.compile(r"\.(.+\.json)\.[^.]+")


def make_token_files(connection: Connection, folder: Path, say: Say) -> None:
    """Create ``read.json`` and ``alg.json``, each with a new token. Files that exist are only checked.

    An interrupted change of a token or of the reader's password is completed first.
    """
    secretfile.make_folder(folder, "MARKET_SECRETS_DIR")
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise StateError(
            f"{folder} cannot be opened: {error.strerror}; set MARKET_SECRETS_DIR to another folder"
        ) from error
    try:
        # If two processes start at once, the second one waits here and then finds the files of the first one.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        finish_rotation(connection, folder, say)
        finish_reader_password(connection, folder, say)
        for name, scope in _TOKEN_FILES:
            path = folder / name
            if path.exists():
                _check_token(connection, path, scope, say)
                continue
            # The row is created first. If the process is killed now, it leaves an unused row and no unusable file.
            _row, text = tokens.create(connection, path.stem, scope)
            secretfile.write(path, {"token": text, "scope": scope, "name": path.stem})
            say(f"{path}: created with a new {scope} token")
    finally:
        os.close(descriptor)


def _check_token(connection: Connection, path: Path, scope: token.Scope, say: Say) -> None:
    held = secretfile.read_token(path, scope=scope, warn=say)
    if tokens.find(connection, token.digest(held.token)) is None:
        say(f"{path}: its token is unknown, expired or revoked here; remove the file to get a new one")


@contextlib.contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Lock the folder, if it exists, while the block runs: one process at a time creates or rotates its tokens."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


# -- tokens ------------------------------------------------------------------------------------------------------------


def rotate_token(connection: Connection, identity: str, files: Sequence[Path], overlap: float) -> tuple[Token, str]:
    """Create a token that replaces the token with the id ``identity``, and write it to ``files``. Revoke the previous
    token ``overlap`` seconds later. If ``files`` is empty, both happen in one transaction and without waiting."""
    if not files:
        with connection.transaction():
            return tokens.rotate(connection, identity)
    with contextlib.ExitStack() as after_commit, connection.transaction():
        row, text = tokens.create_like(connection, identity)
        content = {"token": text, "scope": row.scope, "name": row.name, _REPLACES: identity}
        for path in files:
            after_commit.enter_context(secretfile.replaced(path, secretfile.encoded(content)))
    Event().wait(overlap)
    with connection.transaction():
        tokens.revoke(connection, identity)
    return row, text


def finish_rotation_at_start(url: str, folder: Path, say: Say) -> None:
    """Complete a rotation in ``folder`` whose process was killed.

    If another process holds the folder's lock, do nothing. If an error occurs, report it and continue, because the API
    must start even when the database is unavailable.
    """
    if not any(_rotated(path) for path in (*folder.glob(".*.json.*"), *folder.glob("*.json"))):
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with connect(url, application_name="marketdata-operation") as connection:
                finish_rotation(connection, folder, say)
        finally:
            os.close(descriptor)
    except BlockingIOError:
        return
    except (MarketError, OSError) as error:
        say(f"a rotation of the tokens in {folder} may be incomplete: {error}")


def finish_rotation(connection: Connection, folder: Path, say: Say) -> None:
    """Complete a rotation in ``folder`` whose process was killed. The caller holds :func:`locked_folder`."""
    for path in sorted(folder.glob(".*.json.*")):
        name = _TEMPORARY.fullmatch(path.name)
        held = _rotated(path)
        if name is None or held is None:
            continue
        if _is_valid(connection, held):
            path.replace(path.with_name(name[1]))
            say(f"{path.with_name(name[1])}: has the new token of a rotation that was interrupted")
        else:
            path.unlink(missing_ok=True)  # the process was killed before the token was stored
    for path in sorted(folder.glob("*.json")):
        held = _rotated(path)
        if held is not None and _is_valid(connection, held) and tokens.is_usable(connection, held[_REPLACES]):
            with connection.transaction():
                tokens.revoke(connection, held[_REPLACES])
            say(f"token {held[_REPLACES]}: revoked; {path} has had its successor since an interrupted rotation")


def _rotated(path: Path) -> dict[str, Any] | None:
    """The content of a file that a rotation wrote; None for any other file, and for a file that cannot be trusted."""
    with contextlib.suppress(MarketError):
        held = secretfile.read(path)
        if all(isinstance(held.get(key), str) for key in ("token", _REPLACES)):
            return held
    return None


def _is_valid(connection: Connection, held: dict[str, Any]) -> bool:
    return tokens.find(connection, token.digest(held["token"])) is not None


# -- the password of the reader role -----------------------------------------------------------------------------------


def change_reader_password(connection: Connection, folder: Path) -> Path:
    """Give the reader role a new password and let it log in; returns the file with the password.

    Raises StateError when this login may not change the role, or when the role does not exist.
    """
    secretfile.make_folder(folder, "MARKET_SECRETS_DIR")
    with locked_folder(folder):
        pending = folder / _PENDING
        # The password contains no character that must be escaped in a passfile.
        line = f"*:*:*:{READER}:{secrets.token_urlsafe(_RANDOM_BYTES)}\n"
        with secretfile.replaced(pending, line):
            pass
        try:
            return _apply_password(connection, pending)
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedObject) as error:
            pending.unlink()
            raise StateError(
                f"the role {READER} was not changed: {error.diag.message_primary}. Set DATABASE_URL to a login that "
                "may create and change roles"
            ) from error


def finish_reader_password(connection: Connection, folder: Path, say: Say) -> None:
    """Complete a change whose process was killed. The caller holds :func:`locked_folder`."""
    for unfinished in folder.glob(f".{_PENDING}.*"):
        unfinished.unlink()
    pending = folder / _PENDING
    if pending.exists():
        say(f"{_apply_password(connection, pending)}: has the new password of a change that was interrupted")


def _apply_password(connection: Connection, pending: Path) -> Path:
    """Give the role the password in the file ``pending``, then rename the file to ``PASSFILE``."""
    password = pending.read_text(encoding="utf-8").strip().rpartition(":")[2]
    # PostgreSQL may log the statement. So the statement contains a hash, from which the password cannot be computed.
    verifier = connection.pgconn.encrypt_password(password.encode(), READER.encode(), b"scram-sha-256").decode()
    statement = sql.SQL("ALTER ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(READER), verifier)
    connection.execute(statement)
    return pending.replace(pending.with_name(PASSFILE))

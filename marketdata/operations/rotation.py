"""Rotation of a token that is in files: none of its users is ever without a valid token.

The new token is created, with the files that will hold it on the disk beside the present ones; the files are replaced;
both tokens are valid while their users read the files again; then the previous token is revoked. Each file names the
token that its own one ``replaces``. With that :func:`finish` completes a rotation that was killed in between.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import Any

from marketdata import secretfile, token
from marketdata.errors import MarketError
from marketdata.operations.database import Say
from marketdata.store import tokens
from marketdata.store.pool import Connection, connect
from marketdata.store.tokens import Token

_REPLACES = "replaces"
_TEMPORARY = re.compile(r"\.(.+\.json)\.[^.]+")


def rotate(connection: Connection, identity: str, files: Sequence[Path], overlap: float) -> tuple[Token, str]:
    """Create a token in the place of ``identity``, write it to ``files``, and revoke the previous one ``overlap``
    seconds later; without files in one transaction."""
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


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One process at a time creates or rotates the tokens of a folder, if it exists; another one waits."""
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


def finish_at_start(url: str, folder: Path, say: Say) -> None:
    """Complete a rotation of tokens in ``folder`` that was killed, unless one runs. When that fails, say why: an API
    starts without its database, too."""
    if not any(_rotated(path) for path in (*folder.glob(".*.json.*"), *folder.glob("*.json"))):
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with connect(url, application_name="marketdata-bootstrap") as connection:
                finish(connection, folder, say)
        finally:
            os.close(descriptor)
    except BlockingIOError:
        return
    except (MarketError, OSError) as error:
        say(f"a rotation of the tokens in {folder} may be incomplete: {error}")


def finish(connection: Connection, folder: Path, say: Say) -> None:
    """Complete a rotation of tokens in ``folder`` that was killed. The caller holds :func:`alone`."""
    for path in sorted(folder.glob(".*.json.*")):
        name = _TEMPORARY.fullmatch(path.name)
        held = _rotated(path)
        if name is None or held is None:
            continue
        if _is_valid(connection, held):
            path.replace(path.with_name(name[1]))
            say(f"{path.with_name(name[1])}: has the new token of a rotation that was interrupted")
        else:
            path.unlink(missing_ok=True)  # killed before the token was stored
    for path in sorted(folder.glob("*.json")):
        held = _rotated(path)
        if held is not None and _is_valid(connection, held) and tokens.is_usable(connection, held[_REPLACES]):
            with connection.transaction():
                tokens.revoke(connection, held[_REPLACES])
            say(f"token {held[_REPLACES]}: revoked; {path} has had its successor since an interrupted rotation")


def _rotated(path: Path) -> dict[str, Any] | None:
    """The content of a file that a rotation wrote; None for another one, or one that cannot be trusted."""
    with contextlib.suppress(MarketError):
        held = secretfile.read(path)
        if all(isinstance(held.get(key), str) for key in ("token", _REPLACES)):
            return held
    return None


def _is_valid(connection: Connection, held: dict[str, Any]) -> bool:
    return tokens.find(connection, token.digest(held["token"])) is not None

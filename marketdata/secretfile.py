"""Secret files: JSON objects in ``MARKET_SECRETS_DIR`` that only their owner may write.

A token file is ``{"token": "…", "scope": "read"|"write", "name": "…"}``. Ours have mode 0600. One that group or
others may write is refused, since whoever writes it decides what is sent where; one that they may read is warned about
only, because mounted secrets often are 0444.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marketdata import token
from marketdata.errors import MarketError, MissingRequirement, StateError, UsageError
from marketdata.settings import Warn

READ_TOKEN = "read.json"
WRITE_TOKEN = "alg.json"
FRONTEND_USERS = "frontend.json"
RPC_SOURCE = "rpc.json"
GRAPHQL_ADMIN = "graphql-admin.json"
ADMIN_SECRET = "admin.json"

_SIZE_MAX = 1 << 20
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


@dataclass(frozen=True, repr=False)
class TokenFile:
    """What a token file holds. It has no representation that could end up in a log."""

    token: str
    scope: str
    name: str


def read(path: Path, *, warn: Warn = lambda _text: None) -> dict[str, Any]:
    """The JSON object in the file. MissingRequirement when there is none, StateError when it cannot be trusted."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise StateError(f"{path} is no regular file")
            if mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise StateError(
                    f"{path} may be written by others than its owner (mode {mode & 0o777:04o}), so its content proves "
                    f"nothing: make it anew, then chmod 600 {path}",
                    code="secret_writable",
                )
            if mode & (stat.S_IRGRP | stat.S_IROTH):
                warn(f"{path} may be read by others than its owner (mode {mode & 0o777:04o}); chmod 600 {path}")
            content = file.read(_SIZE_MAX)
    except FileNotFoundError as error:
        raise MissingRequirement(f"the secret file {path} does not exist") from error
    except OSError as error:
        raise StateError(f"the secret file {path} cannot be read: {error.strerror}") from error
    try:
        found = json.loads(content)
    except ValueError as error:
        raise StateError(f"the secret file {path} is not JSON") from error  # where it breaks would show what it holds
    if not isinstance(found, dict):
        raise StateError(f"the secret file {path} must hold a JSON object")
    return found


def read_token(path: Path, *, scope: str, warn: Warn = lambda _text: None) -> TokenFile:
    """The token in a token file of the wanted scope."""
    found = read(path, warn=warn)
    values = [found.get(key) for key in ("token", "scope", "name")]
    if not all(isinstance(value, str) and value for value in values):
        raise StateError(f'{path} must be {{"token": "…", "scope": "{scope}", "name": "…"}}')
    token = TokenFile(*map(str, values))
    if token.scope != scope:
        raise StateError(f"{path} holds a token of scope {token.scope!r}, wanted is {scope!r}")
    return token


def holding(paths: Iterable[Path], digest: bytes) -> list[Path]:
    """Those of the files that hold the token with this SHA-256; one that cannot be believed holds none."""
    return [path for path in paths if _held_digest(path) == digest]


def _held_digest(path: Path) -> bytes | None:
    with contextlib.suppress(MarketError):
        held = read(path).get("token")
        return token.digest(held) if isinstance(held, str) and token.is_sound(held) else None
    return None


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Write the file anew, whole or not at all, with mode 0600. StateError says why it cannot be."""
    with renewed(path, content):
        pass


@contextlib.contextmanager
def renewed(path: Path, content: Mapping[str, Any]) -> Iterator[None]:
    """Write the file anew, with mode 0600: beside its place at once, and into it when the block ends well.

    What the block commits then has its file: a full disk is met, as StateError, before it.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with _telling(path):
            descriptor = os.open(fresh, _NEW, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(json.dumps(dict(content), ensure_ascii=False) + "\n")
                file.flush()
                os.fsync(file.fileno())
        yield
        with _telling(path):
            fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _telling(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StateError(f"{path} cannot be written: {error.strerror}") from error


@contextlib.contextmanager
def reserved(path: Path) -> Iterator[None]:
    """A new and empty file of that name, for the block to write; when it stays empty it goes again.

    UsageError when there can be none.
    """
    try:
        os.close(os.open(path, _NEW, 0o600))
    except FileExistsError as error:
        raise UsageError(
            f"{path} is there already, and what it holds may be in use: name another file, or put a fresh token in the "
            "place of its one with rotate"
        ) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be made: {error.strerror}") from error
    try:
        yield
    finally:
        if path.stat().st_size == 0:
            path.unlink()

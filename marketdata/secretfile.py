"""Secret files: JSON objects in ``MARKET_SECRETS_DIR`` that only their owner may write.

A token file is ``{"token": "…", "scope": "read"|"write", "name": "…"}``. Files are created with mode 0600. A file that
group or others may write is refused, because its content could come from anybody, as are all files of such a folder.
A file that group or others may only read causes a warning and no error, because mounted secrets often have mode 0444.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Generic, TypeVar

from marketdata import file_system, token
from marketdata.errors import MarketError, MissingRequirement, StateError, UsageError
from marketdata.settings import Warn

READ_TOKEN = "read.json"
WRITE_TOKEN = "alg.json"
FRONTEND_USERS = "frontend.json"
FIRST_USER = "first-user.json"
RPC_SOURCE = "rpc.json"
GRAPHQL_ADMIN = "graphql-admin.json"
ADMIN_SECRET = "admin.json"

MALFORMED = "secret_malformed"

Content = TypeVar("Content")

CHECK_SECONDS = 0.01
"""How long the content of a file is used before the file is checked again. Each check gives up the GIL, so a check for
each request would take longer than the rest of a login."""

_MAX_SIZE = 1 << 20
_ADMIN_SECRET_MIN = 20
_TOKEN = re.compile(r"[!-~]+")
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


@dataclass(frozen=True, repr=False)
class TokenFile:
    """The content of a token file. Its ``repr`` does not show the fields, so that no log contains the token."""

    token: str
    scope: str
    name: str


def read(path: Path, *, warn: Warn = lambda _text: None) -> dict[str, Any]:
    """Read the JSON object in the file. Raises the errors of :func:`content` and :func:`decoded`."""
    return decoded(path, content(path, warn=warn))


def content(path: Path, *, warn: Warn = lambda _text: None, comments: str | None = None) -> bytes:
    """Read the file. Lines that begin with ``comments`` become empty, so that the lines keep their numbers.

    Raises MissingRequirement when the file does not exist. Raises StateError when it or its folder cannot be read or
    trusted.
    """
    _refuse_writable_folder(path.parent)
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise StateError(f"{path} is not a regular file")
            if mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise StateError(
                    f"{path} is writable by group or others (mode {mode & 0o777:04o}), so its content cannot be "
                    f"trusted: create it again, then chmod 600 {path}",
                    code="secret_writable",
                )
            if mode & (stat.S_IRGRP | stat.S_IROTH):
                warn(f"{path} is readable by group or others (mode {mode & 0o777:04o}): chmod 600 {path}")
            found = file.read(_MAX_SIZE)
    except FileNotFoundError as error:
        raise MissingRequirement(f"the secret file {path} does not exist") from error
    except PermissionError as error:
        raise StateError(file_system.not_permitted(path)) from error
    except OSError as error:
        raise StateError(f"the secret file {path} cannot be read: {error.strerror}") from error
    if comments is None:
        return found
    start = comments.encode()
    return b"\n".join(b"" if line.lstrip().startswith(start) else line for line in found.splitlines())


def _refuse_writable_folder(folder: Path) -> None:
    """Raise StateError if group or others may replace files in the folder. Mounted secrets may look like that, but
    nobody can write to a file system that is mounted to be read only."""
    try:
        mode, flags = folder.stat().st_mode, os.statvfs(folder).f_flag
    except OSError:
        return  # opening the file says why
    if mode & (stat.S_IWGRP | stat.S_IWOTH) and not flags & os.ST_RDONLY:
        raise StateError(
            f"{folder} is writable by group or others (mode {stat.S_IMODE(mode):04o}), so nothing in it can be "
            f"trusted: chmod 700 {folder}, then look at its files",
            code="secret_writable",
        )


def decoded(path: Path, text: bytes) -> dict[str, Any]:
    """The JSON object in ``text``, the content of the file. Raises StateError with the code MALFORMED when there is
    none."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        # The decoder's error is not kept as the cause, because it contains the content.
        raise StateError(f"the secret file {path} is not JSON: {where}: {error.msg}", code=MALFORMED) from None
    except ValueError:
        raise StateError(f"the secret file {path} is not JSON in UTF-8", code=MALFORMED) from None
    if not isinstance(found, dict):
        raise StateError(f"the secret file {path} must contain a JSON object", code=MALFORMED)
    return found


def _without_waiting(path: str, flags: int) -> int:
    """Opening a named pipe would otherwise wait for its writer, and no signal would end the process meanwhile."""
    return os.open(path, flags | os.O_NONBLOCK)


def read_token(path: Path, *, scope: str, warn: Warn = lambda _text: None) -> TokenFile:
    """The content of a token file. Raises StateError when it is malformed or its token has another scope."""
    found = read(path, warn=warn)
    values = [found.get(key) for key in ("token", "scope", "name")]
    if not all(isinstance(value, str) and value for value in values):
        raise StateError(f'{path} must be {{"token": "…", "scope": "{scope}", "name": "…"}}', code=MALFORMED)
    held = TokenFile(*map(str, values))
    # A token with other characters cannot be sent in a header, and the error of the HTTP client would show the token.
    if _TOKEN.fullmatch(held.token) is None:
        raise StateError(f"{path}: the token has characters that no token has; create it again", code=MALFORMED)
    if held.scope != scope:
        raise StateError(
            f"{path} contains a token of scope {held.scope!r}; it must have scope {scope!r}", code=MALFORMED
        )
    return held


def admin_digest(folder: Path, *, warn: Warn = lambda _text: None) -> bytes | None:
    """The SHA-256 of the secret in ``admin.json``; None when the file does not exist. Raises UsageError for a short
    secret."""
    path = folder / ADMIN_SECRET
    try:
        secret = read(path, warn=warn).get("token")
    except MissingRequirement:
        return None
    if not isinstance(secret, str) or len(secret) < _ADMIN_SECRET_MIN:
        raise UsageError(f'{path} must be {{"token": "…"}} with a secret of at least {_ADMIN_SECRET_MIN} characters')
    return token.digest(secret)


def holding(paths: Iterable[Path], digest: bytes) -> list[Path]:
    """Return those of ``paths`` that contain the token with this SHA-256. Files that :func:`read` refuses are left
    out."""
    return [path for path in paths if _token_digest(path) == digest]


def _token_digest(path: Path) -> bytes | None:
    with contextlib.suppress(MarketError):
        held = read(path).get("token")
        return token.digest(held) if isinstance(held, str) and token.is_sound(held) else None
    return None


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Replace the file by ``content``, atomically and with mode 0600. Raises StateError when it cannot be written."""
    with replaced(path, encoded(content)):
        pass


def encoded(content: Mapping[str, Any]) -> str:
    """``content`` as the text of a secret file."""
    return json.dumps(dict(content), ensure_ascii=False) + "\n"


@contextlib.contextmanager
def replaced(path: Path, text: str) -> Iterator[None]:
    """Replace the file by ``text``, atomically and with mode 0600, when the block succeeds.

    The text is on disk, in a temporary file of the same folder, before the block starts. So if the disk is full,
    StateError is raised before the block commits to the database.
    """
    temporary: Path | None = None
    try:
        with _translated(path):
            descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # has mode 0600
            temporary = Path(name)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        yield
        with _translated(path):
            temporary.replace(path)
    except BaseException:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StateError(f"{path} cannot be written: {error.strerror}") from error


@contextlib.contextmanager
def reserved(path: Path) -> Iterator[None]:
    """Create an empty file for the block to write, and remove it if it is still empty afterwards.

    Raises UsageError when it cannot be created.
    """
    try:
        os.close(os.open(path, _NEW, 0o600))
    except FileExistsError as error:
        raise UsageError(
            f"{path} already exists, and its content may be in use: name another file, or use rotate to replace the "
            "token in it"
        ) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be created: {error.strerror}") from error
    try:
        yield
    finally:
        if path.stat().st_size == 0:
            path.unlink()


def make_folder(folder: Path, setting: str) -> None:
    """Create a folder and its parents with mode 0700. Raises StateError if this fails; the message names the setting
    that chooses another folder."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except PermissionError as error:
        raise StateError(f"{file_system.not_permitted(folder)}; set {setting} to another folder") from error
    except OSError as error:
        raise StateError(f"{folder} cannot be created: {error.strerror}; set {setting} to another folder") from error


class ReloadingFile(Generic[Content]):
    """Keeps the parsed content of a secret file, and reads the file again after it has changed.

    Calling the object returns the content, parsed by ``load``, or raises the error of ``load``. A change takes effect
    within ``check_seconds``. Thread-safe.
    """

    def __init__(self, path: Path, load: Callable[[Path], Content], check_seconds: float = CHECK_SECONDS) -> None:
        self._path = path
        self._load = load
        self._check_seconds = check_seconds
        self._lock = threading.Lock()
        self._held: tuple[tuple[int, ...], Content] | None = None
        self._looked_at = 0.0

    def __call__(self) -> Content:
        held, now = self._held, monotonic()
        if held is not None and now - self._looked_at < self._check_seconds:
            return held[1]
        try:
            status = self._path.stat()
        except FileNotFoundError as error:
            raise MissingRequirement(f"{self._path} does not exist") from error
        except PermissionError as error:
            raise StateError(file_system.not_permitted(self._path)) from error
        except OSError as error:
            raise StateError(f"{self._path} cannot be read: {error.strerror}") from error
        seen = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
        with self._lock:
            if self._held is None or self._held[0] != seen:
                self._held = None
                self._held = seen, self._load(self._path)
            self._looked_at = now
            return self._held[1]

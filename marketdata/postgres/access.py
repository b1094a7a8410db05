"""Controls which accounts can reach the private cluster's sockets, and which may log in.

The mode of a socket's folder decides which accounts can reach the socket. The socket in the state directory is for the
account that PostgreSQL runs as, and for root. A second socket, in MARKET_SOCKET_DIR, is for readers of other accounts.

In the data directory, ``pg_hba.conf`` is a copy of ``etc/pg_hba.conf``, and ``pg_ident.conf`` names the accounts that
may log in as the owner role. Both are written before each start of PostgreSQL, because it reads them only then.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
import subprocess
from pathlib import Path

from marketdata.errors import StateError, UsageError
from marketdata.postgres.processes import Account
from marketdata.settings import ROOT

SUPERUSER = "marketdata"
_MAP = "marketdata"
PORT = 5432
MAX_SOCKET_PATH = 107  # sockaddr_un.sun_path on Linux holds 108 bytes with the final NUL


def write_rules(data: Path, account: Account) -> None:
    """Write ``pg_ident.conf`` and ``pg_hba.conf``, each atomically. Raises StateError when the account has no name."""
    accounts = sorted({account_name(account.uid), "root", "postgres"})
    lines = [f'{_MAP} "{name}" {SUPERUSER}\n' for name in accounts]
    # The map comes first, because the rules refer to it.
    _replace(data / "pg_ident.conf", "# Written before each start of PostgreSQL.\n" + "".join(lines), account)
    _replace(data / "pg_hba.conf", (ROOT / "etc" / "pg_hba.conf").read_text(encoding="utf-8"), account)


def account_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError as error:
        raise StateError(
            f"the account {uid} has no name, but PostgreSQL recognises accounts by name: add it to /etc/passwd, or set "
            "DATABASE_URL to a PostgreSQL that runs elsewhere"
        ) from error


def _replace(path: Path, text: str, account: Account) -> None:
    if path.exists() and path.read_text(encoding="utf-8", errors="replace") == text:
        return
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)  # a start that was killed may have left it
    # The folder belongs to PostgreSQL's account, which could place a link there. Root must not follow it.
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchown(descriptor, account.uid, account.gid)
        file.write(text)
    fresh.replace(path)


def check_socket_path(path: Path, setting: str) -> None:
    """Raises UsageError if a UNIX socket path is too long for the kernel, or contains a comma. libpq would split the
    path at the comma."""
    if "," in str(path):
        raise UsageError(
            f"the socket path {path} contains a comma, which separates hosts for PostgreSQL's clients: "
            f"set {setting} to a path without a comma"
        )
    length = len(str(path).encode())
    if length > MAX_SOCKET_PATH:
        raise UsageError(
            f"the socket path {path} has {length} bytes, the kernel allows {MAX_SOCKET_PATH}: "
            f"set {setting} to a shorter path"
        )


def check_traversable(folder: Path, account: Account, setting: str) -> None:
    """Check that ``account`` can traverse the path to ``folder``. Otherwise raises StateError, which names the
    outermost folder that the account cannot traverse."""
    if os.geteuid() != 0:
        return  # this process runs as the account
    folders = [str(each) for each in (*reversed(folder.parents), folder)]
    script = 'for folder; do [ -x "$folder" ] || { printf %s "$folder"; exit 1; }; done'
    command = ["sh", "-c", script, "sh", *folders]
    done = subprocess.run(command, stdout=subprocess.PIPE, cwd="/", check=False, **account.options)
    if done.returncode != 0:
        closed = os.fsdecode(done.stdout)
        raise StateError(
            f"PostgreSQL runs as the account postgres, which cannot traverse {closed} to reach {folder}. "
            f"Allow it (chmod o+x {closed}), or set {setting} to another folder",
            code="untraversable",
        )


def prepare_socket_dir(folder: Path, account: Account) -> None:
    """Create the folder of the second socket, with mode 0755, if it does not exist.

    Raises StateError when this fails. Raises UsageError if another account could replace the socket in the folder.
    """
    check_socket_path(socket_in(folder), "MARKET_SOCKET_DIR")
    try:
        if not folder.exists():
            _make_socket_dir(folder, account)
        found = folder.stat()
    except OSError as error:
        raise StateError(
            f"{folder} cannot be created: {error.strerror}; set MARKET_SOCKET_DIR to another folder"
        ) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != account.uid or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UsageError(
            f"MARKET_SOCKET_DIR={str(folder)!r}: must be a folder of the account {account_name(account.uid)} that no "
            "other account may write, so that nobody can answer in PostgreSQL's place"
        )
    check_traversable(folder, account, "MARKET_SOCKET_DIR")


def _make_socket_dir(folder: Path, account: Account) -> None:
    """Create the folder under a temporary name, then rename it, so that it never exists with wrong owner or mode."""
    fresh = folder.with_name(f".{folder.name}.new")
    with contextlib.suppress(FileNotFoundError):
        fresh.rmdir()  # left by a start that was killed; fails for a link, which another account may have placed
    fresh.mkdir()
    os.chown(fresh, account.uid, account.gid, follow_symlinks=False)
    fresh.chmod(0o755)
    fresh.rename(folder)


def remove_stale_lock(folder: Path, data: Path) -> None:
    """Remove the socket's lock file in ``folder``, unless it names the data directory of another PostgreSQL."""
    lock = Path(f"{socket_in(folder)}.lock")
    try:
        lines = lock.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return
    if len(lines) < 2 or lines[1] == str(data):
        lock.unlink(missing_ok=True)


def socket_in(folder: Path) -> Path:
    return folder / f".s.PGSQL.{PORT}"

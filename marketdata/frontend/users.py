"""Reads and changes the users in ``frontend.json``, which contains ``{"users": {name: bcrypt hash}}``."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import string
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import bcrypt

from marketdata import secretfile
from marketdata.errors import StateError, UsageError
from marketdata.settings import Warn

COST = 10
"""The bcrypt cost: a check takes 2**10 rounds, about 60 ms. A user's password is checked about once a minute."""

MAX_PASSWORD_BYTES = 72
"""Maximum length of a password, because bcrypt ignores further bytes."""
MIN_PASSWORD_CHARACTERS = 10
_MIN_DISTINCT = 5
FIRST_USER = "trader"

_NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")
_HASH = re.compile(r"\$2[abxy]\$(?:0[4-9]|1[0-5])\$[./A-Za-z0-9]{53}")


def load(path: Path, *, warn: Warn = lambda _text: None) -> dict[str, bytes]:
    """Returns the hash of each user. Raises MissingRequirement if there is no file, and StateError if the file
    cannot be used."""
    users = secretfile.read(path, warn=warn).get("users")
    if not isinstance(users, dict):
        raise StateError(f'{path} must be {{"users": {{name: bcrypt hash}}}}')
    for name, value in users.items():
        if not _NAME.fullmatch(name):
            raise StateError(f"{path}: {name[:80]!r} is not a user name: 1 to 64 of A-Z a-z 0-9 . _ @ -")
        if not isinstance(value, str) or not _HASH.fullmatch(value):
            raise StateError(f"{path}: the user {name} has no bcrypt hash of cost 4 to 15")
    return {name: value.encode() for name, value in users.items()}


# -- changes ---------------------------------------------------------------------------------------------------------


@contextmanager
def changed(folder: Path) -> Iterator[dict[str, str]]:
    """Yields the users as a dictionary. At the end of the block, the dictionary is written to the file. A lock lets one
    process at a time do this."""
    secretfile.make_folder(folder, "MARKET_SECRETS_DIR")
    path = folder / secretfile.FRONTEND_USERS
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        users = {name: value.decode() for name, value in load(path).items()} if path.exists() else {}
        yield users
        secretfile.write(path, {"users": users})
    finally:
        os.close(descriptor)


def hashed(password: str) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(COST)).decode()


def check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name[:80]!r} is not a user name: 1 to 64 of A-Z a-z 0-9 . _ @ -")


def check_password(name: str, password: str) -> None:
    """Raise UsageError with the reason if the password is not accepted."""
    if not password.isprintable():
        raise UsageError("the password has a character that cannot be typed: use letters, digits, signs and spaces")
    if len(password) < MIN_PASSWORD_CHARACTERS:
        raise UsageError(f"the password is too short: use at least {MIN_PASSWORD_CHARACTERS} characters")
    if len(password.encode()) > MAX_PASSWORD_BYTES:
        raise UsageError(f"the password is longer than {MAX_PASSWORD_BYTES} bytes, more than bcrypt reads")
    if len(set(password)) < _MIN_DISTINCT:
        raise UsageError(f"the password is too simple: use at least {_MIN_DISTINCT} different characters")
    if name.lower() in password.lower() and len(password) - len(name) < MIN_PASSWORD_CHARACTERS:
        raise UsageError("the password is little more than the name of the user")


def make_first(folder: Path) -> tuple[str, str] | None:
    """If there is no users' file, create it with one user. Returns the name and the password, or None."""
    path = folder / secretfile.FRONTEND_USERS
    if path.exists():
        return None
    with changed(folder) as users:
        if users:  # another process made the file meanwhile
            return None
        password = "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(20))
        users[FIRST_USER] = hashed(password)
    return FIRST_USER, password

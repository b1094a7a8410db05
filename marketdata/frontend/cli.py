"""The command lines of ``bin/marketdata-frontend`` and ``bin/marketdata-user``."""

from __future__ import annotations

import argparse
import getpass
import sys
from pathlib import Path

from marketdata import secretfile
from marketdata.errors import MarketError, UsageError
from marketdata.settings import Settings

ABOUT = "Serve the page with the charts, and the data API behind a login."
USER_ABOUT = "The users of the frontend: add, remove and list them, and change their passwords."

_SHOWN = "Log in as {user} with the password {password} (shown only now; bin/marketdata-user passwd {user} changes it)"
_WRITTEN = (
    "Log in as {user} with the password in {path}: read it, then delete the file "
    "(bin/marketdata-user passwd {user} changes the password)"
)
_HAS_USERS = "Log in as one of its users; bin/marketdata-user list shows them"
_NO_LOGIN = "It asks for no login (BASIC_AUTH_MODE=off)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--show-password",
        action="store_true",
        help="print the password of the first user even if the output is no terminal; else it is written into a file, "
        "because the output may be kept in a log",
    )


def run(options: argparse.Namespace, settings: Settings) -> None:
    """Serve. When the frontend answers, print two lines: the address, and how to log in."""
    from marketdata.frontend import serve, users

    how, first_user = _NO_LOGIN, None
    try:
        if settings.basic_auth:
            first_user = users.make_first(settings.secrets_dir)
            is_shown = options.show_password or sys.stdout.isatty()
            how = _given(first_user, settings.secrets_dir, is_shown=is_shown) if first_user else _HAS_USERS
        serve.run(settings, lambda address: print(f"{address}\n{how}", flush=True))
    except MarketError:  # the start failed, so nobody saw the password
        if first_user:
            for name in (secretfile.FRONTEND_USERS, secretfile.FIRST_USER):
                (settings.secrets_dir / name).unlink(missing_ok=True)
        raise


def _given(first_user: tuple[str, str], folder: Path, *, is_shown: bool) -> str:
    """The line that tells how to log in as the first user. If the password is not shown, it is written into a file."""
    user, password = first_user
    if is_shown:
        return _SHOWN.format(user=user, password=password)
    path = folder / secretfile.FIRST_USER
    secretfile.write(path, {"user": user, "password": password})
    return _WRITTEN.format(user=user, path=path)


def add_user_commands(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    named = argparse.ArgumentParser(add_help=False)
    named.add_argument("name", metavar="NAME")
    secret = argparse.ArgumentParser(add_help=False)
    secret.add_argument(
        "--password-stdin", action="store_true", help="read the password from standard input instead of the terminal"
    )
    actions.add_parser("add", parents=[named, secret], help="add a user").set_defaults(run=_add)
    actions.add_parser("passwd", parents=[named, secret], help="change a user's password").set_defaults(run=_passwd)
    actions.add_parser("remove", parents=[named], help="remove a user and end their sessions at once").set_defaults(
        run=_remove
    )
    actions.add_parser("list", help="list the users").set_defaults(run=list_users)


def _add(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.frontend import users

    name: str = options.name
    users.check_name(name)
    if name in _stored(settings):
        raise _exists(name)
    hashed = _hashed_password(options)
    with users.changed(settings.secrets_dir) as stored:
        if name in stored:
            raise _exists(name)
        stored[name] = hashed
    print(f"{name} is added")


def _passwd(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.frontend import users

    name: str = options.name
    if name not in _stored(settings):
        raise _unknown(name)
    hashed = _hashed_password(options)
    with users.changed(settings.secrets_dir) as stored:
        if name not in stored:
            raise _unknown(name)
        stored[name] = hashed
    print(f"the password of {name} is changed")


def _remove(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.frontend import users

    name: str = options.name
    if name not in _stored(settings):
        raise _unknown(name)
    with users.changed(settings.secrets_dir) as stored:
        stored.pop(name, None)
    print(f"{name} is removed")


def list_users(_options: argparse.Namespace, settings: Settings) -> None:
    names = sorted(_stored(settings))
    for name in names:
        print(name)
    if not names:
        path = settings.secrets_dir / secretfile.FRONTEND_USERS
        print(f"no users in {path}: bin/marketdata-user add NAME adds a user", file=sys.stderr)


def _stored(settings: Settings) -> dict[str, bytes]:
    from marketdata.frontend import users

    path = settings.secrets_dir / secretfile.FRONTEND_USERS
    return users.load(path, warn=lambda text: print(text, file=sys.stderr)) if path.exists() else {}


def _hashed_password(options: argparse.Namespace) -> str:
    from marketdata.frontend import users

    password = _from_stdin() if options.password_stdin else _from_terminal()
    users.check_password(options.name, password)
    return users.hashed(password)


def _from_stdin() -> str:
    try:
        return sys.stdin.readline().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UsageError("the password is not UTF-8") from error


def _from_terminal() -> str:
    if not sys.stdin.isatty():
        raise UsageError("standard input is no terminal: give the password there with --password-stdin")
    try:
        password = getpass.getpass("Password: ")
        if getpass.getpass("The same again: ") != password:
            raise UsageError("the two passwords differ")
    except EOFError as error:
        raise UsageError("no password was given") from error
    return password


def _exists(name: str) -> UsageError:
    return UsageError(f"{name} exists already: bin/marketdata-user passwd {name} changes the password")


def _unknown(name: str) -> UsageError:
    return UsageError(f"there is no user {name[:80]!r}: bin/marketdata-user list shows all")

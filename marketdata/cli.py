"""The command lines, one parser for each ``bin/marketdata-…``.

Exit codes: 0 done, 1 something failed, 2 wrong use, 3 something needed is missing; as a shell has them, 130 for Ctrl-C
and 141 for a reader that went away.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from marketdata import __version__, secretfile
from marketdata.errors import MarketError, MissingRequirement, StateError, UsageError
from marketdata.postgres.client import database
from marketdata.postgres.cluster import conninfo
from marketdata.postgres.owner import serve
from marketdata.secretfile import READ_TOKEN, WRITE_TOKEN
from marketdata.settings import ENV_FILE, Settings, declared, load

if TYPE_CHECKING:
    from marketdata.store.pool import Connection
    from marketdata.store.tokens import Token

DONE, FAILED, WRONG_USE, MISSING = 0, 1, 2, 3

Run = Callable[[argparse.Namespace, Settings], None]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        settings = load(os.environ, options.env_file, warn=_tell)
        options.run(options, settings)
        if sys.stdout is not None:  # it is None where a shell closed it (``>&-``)
            sys.stdout.flush()  # a reader that is gone is met here, and not at the interpreter's end
    except MarketError as error:
        _tell(f"{options.prog}: {error.detail}")
        return _exit_code(error)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # What is still to be printed has to go somewhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return DONE


def _exit_code(error: MarketError) -> int:
    if isinstance(error, MissingRequirement):
        return MISSING
    return WRONG_USE if isinstance(error, UsageError) else FAILED


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _say(text: str) -> None:
    print(text, flush=True)


def _quiet(_text: str) -> None:
    pass


# -- what can be asked for -------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="marketdata", description="The market-data service.")
    parser.add_argument("--version", action="version", version=f"marketdata {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    _command(commands, "api", _api, "Serve the data API. With nothing configured it makes all that it needs.")
    _command(commands, "db", _db, "Own the private PostgreSQL in the foreground, until Ctrl-C or SIGTERM.")
    _command(commands, "init", _init, "Make or update the shared tables and the roles.")

    version = _command(commands, "version", _version, "Make the tables and functions of version N, and its vN.env.")
    version.add_argument("n", metavar="N", type=int, help="the number of the version, from 1")

    token = _command(commands, "token", _token_list, "Make, list, revoke and rotate the tokens of the API.")
    _token_commands(token)
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, run: Run, about: str
) -> argparse.ArgumentParser:
    prog = f"marketdata-{name}"
    command = commands.add_parser(
        name,
        prog=prog,
        help=about,
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Settings (environment, or NAME=value lines of a file):\n"
        + "\n".join(f"  {each.name:<24} {each.about}" for each in declared().values()),
    )
    command.add_argument(
        "--env-file", type=Path, metavar="FILE", help=f"read settings from FILE, like v1.env; else from {ENV_FILE}"
    )
    command.set_defaults(run=run, prog=prog)
    return command


def _token_commands(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    output = argparse.ArgumentParser(add_help=False)
    output.add_argument(
        "--output", type=_path, metavar="FILE", help="write a new token file (0600) instead of printing it"
    )

    create = actions.add_parser("create", parents=[output], help="make a token; it is shown this once")
    create.add_argument("--name", required=True, type=_name, help="whom it is for")
    create.add_argument("--scope", required=True, choices=("read", "write"))
    create.add_argument("--days", type=_days, help="how long it is good; without an end by default")
    create.set_defaults(run=_token_create)

    listing = actions.add_parser("list", help="list all tokens, revoked ones too")
    listing.set_defaults(run=_token_list)

    revoke = actions.add_parser("revoke", help="make a token unusable, at once and for good")
    revoke.add_argument("id", metavar="ID", help="the id that list shows, not the name")
    revoke.set_defaults(run=_token_revoke)

    rotate = actions.add_parser(
        "rotate", parents=[output], help="revoke a token and make one of the same name and scope"
    )
    rotate.add_argument("id", metavar="ID", help="the id that list shows, not the name")
    rotate.set_defaults(run=_token_rotate)


def _path(text: str) -> Path:
    return Path(text).resolve()


def _days(text: str) -> float:
    with contextlib.suppress(ValueError):
        days = float(text)
        if 0 < days <= 36500:
            return days
    raise argparse.ArgumentTypeError(f"must be a number of days, more than 0 and at most 36500, not {text!r}")


def _name(text: str) -> str:
    if not text.strip() or not text.isprintable() or len(text) > 100:
        raise argparse.ArgumentTypeError("must be one line of 1 to 100 characters")
    return text


# -- the service -----------------------------------------------------------------------------------------------------


def _api(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.api import serve as api  # the other commands start without the web

    signal.signal(signal.SIGTERM, _interrupt)  # from the first moment on: the way out is the same as Ctrl-C's
    with database(settings, linger=False) as url:
        if settings.database_url is None:
            from marketdata.bootstrap.first_start import prepare
            from marketdata.store.pool import connect

            with connect(url, application_name="marketdata-bootstrap") as connection:
                prepare(connection, settings, _tell)
            _tell(f"tokens: {settings.secrets_dir / READ_TOKEN} and {settings.secrets_dir / WRITE_TOKEN}")
        api.run(replace(settings, database_url=url))


def _interrupt(_number: int, _frame: object) -> None:
    raise SystemExit(DONE)


def _db(_options: argparse.Namespace, settings: Settings) -> None:
    if settings.database_url:
        raise UsageError("DATABASE_URL is set: there is no private PostgreSQL to own")
    way = f'psql "{conninfo(settings.state_dir)}"'
    try:
        serve(settings.state_dir, on_ready=lambda: _say(way))
    except StateError as error:
        if error.code != "owned":
            raise
        raise StateError(f"{error.detail}; while it is used: {way}", code=error.code) from error


# -- the one-shot tasks ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _initialised(settings: Settings, say: Callable[[str], None]) -> Iterator[Connection]:
    """A connection to a database that has the shared tables."""
    from marketdata.bootstrap.database import initialise
    from marketdata.store.pool import connect

    with database(settings) as url, connect(url, application_name="marketdata-bootstrap") as connection:
        initialise(connection, say)
        yield connection


def _init(_options: argparse.Namespace, settings: Settings) -> None:
    with _initialised(settings, _say):
        pass


def _version(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.bootstrap.version import make_version

    with _initialised(settings, _say) as connection:
        make_version(connection, settings, options.n, _say)


def _token_create(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.store import tokens

    expires = None if options.days is None else datetime.now(UTC) + timedelta(days=options.days)
    with _reserved(options.output), _initialised(settings, _quiet) as connection:
        _hand_over(options.output, connection, lambda: tokens.create(connection, options.name, options.scope, expires))


def _token_rotate(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.store import tokens

    with _initialised(settings, _quiet) as connection:
        held = _files_of(connection, options, settings)
        fresh = None if options.output in held else options.output
        with _reserved(fresh):
            _hand_over(options.output, connection, lambda: tokens.rotate(connection, options.id), held)


def _token_revoke(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.store import tokens

    with _initialised(settings, _quiet) as connection:
        held = _files_of(connection, options, settings)
        with connection.transaction():
            revoked = tokens.revoke(connection, options.id)
    _say(f"token {revoked.id} ({revoked.name}, {revoked.scope}) is revoked")
    for path in held:
        again = settings.database_url is None and path.name in (READ_TOKEN, WRITE_TOKEN)
        _tell(
            f"{path} held it and is of no use now: remove it"
            + (", and the next start of marketdata-api makes a fresh one" if again else "")
        )


def _files_of(connection: Connection, options: argparse.Namespace, settings: Settings) -> list[Path]:
    """The secret files, and the output, that hold the token which the command names."""
    from marketdata.store import tokens

    paths = {each.resolve() for each in settings.secrets_dir.glob("*.json")}
    if getattr(options, "output", None):
        paths.add(options.output)
    digest = tokens.digest_of(connection, options.id)
    return [] if digest is None else secretfile.holding(sorted(paths), digest)


def _token_list(_options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.store import tokens

    with _initialised(settings, _quiet) as connection:
        rows = [("ID", "NAME", "SCOPE", "BEGINS", "STATE", "LAST USED (noted each minute)")]
        for each in tokens.list_all(connection):
            used = f"{each.last_used_at:%Y-%m-%d %H:%M}" if each.last_used_at else "never"
            rows.append((each.id, each.name, each.scope, each.hint, _state(each), used))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        _say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _state(row: Token) -> str:
    if row.revoked_at:
        return f"revoked {row.revoked_at:%Y-%m-%d}"
    if row.expires_at is None:
        return "good"
    return f"{'good until' if row.expires_at > datetime.now(UTC) else 'expired'} {row.expires_at:%Y-%m-%d}"


def _reserved(output: Path | None) -> contextlib.AbstractContextManager[None]:
    """The file is there before the token is made: no token is left behind that nobody could be given."""
    return contextlib.nullcontext() if output is None else secretfile.reserved(output)


def _hand_over(
    output: Path | None, connection: Connection, make: Callable[[], tuple[Token, str]], held: Sequence[Path] = ()
) -> None:
    """Make a token and let it be seen this once: in a file of its owner, or alone on standard output.

    The files that held the one before are renewed with it.
    """
    with contextlib.ExitStack() as after_commit, connection.transaction():
        row, text = make()
        for path in held if output is None else {*held, output}:
            content = {"token": text, "scope": row.scope, "name": row.name}
            after_commit.enter_context(secretfile.replaced(path, secretfile.encoded(content)))
    _tell(f"token {row.id} ({row.name}, {row.scope})")
    for path in held:
        _tell(f"{path} held the one before and is renewed")
    if output is None:
        _say(text)
    elif output not in held:
        _tell(f"written to {output}")

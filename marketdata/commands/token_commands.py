"""The command line of ``bin/marketdata-token``."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from marketdata import secretfile
from marketdata.commands.database_connection import initialised, say, warn
from marketdata.secretfile import READ_TOKEN, WRITE_TOKEN
from marketdata.settings import Settings

if TYPE_CHECKING:
    from marketdata.store.pool import Connection
    from marketdata.store.tokens import Token


_OVERLAP_SECONDS = 2.0
"""How long both tokens are valid by default. This is enough, because the frontend and the ingestor check their token
file at each request."""

ABOUT = "Create, list, revoke and rotate the tokens of the API."


def add_actions(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    output = argparse.ArgumentParser(add_help=False)
    output.add_argument(
        "--output", type=_path, metavar="FILE", help="write the token to FILE (0600) instead of printing it"
    )

    create = actions.add_parser("create", parents=[output], help="create a token and show it, once")
    create.add_argument("--name", required=True, type=_name, help="a description, like the name of its user")
    create.add_argument("--scope", required=True, choices=("read", "write"))
    create.add_argument("--days", type=_days, help="days until it expires; by default it does not expire")
    create.set_defaults(run=_create, parser=create)

    listing = actions.add_parser("list", help="list all tokens, revoked ones too")
    listing.set_defaults(run=list_all, parser=listing)

    revoke = actions.add_parser("revoke", help="revoke a token, at once and permanently")
    revoke.add_argument("id", metavar="ID", help="the id from the list, not the name")
    revoke.set_defaults(run=_revoke)

    rotate = actions.add_parser(
        "rotate", parents=[output], help="create a token with the same name and scope, then revoke the present one"
    )
    rotate.add_argument(
        "--overlap",
        type=_seconds,
        metavar="SECONDS",
        default=_OVERLAP_SECONDS,
        help="how long both tokens are valid, where files hold the token; default: %(default)g",
    )
    rotate.add_argument("id", metavar="ID", help="the id from the list, not the name")
    rotate.set_defaults(run=_rotate, parser=rotate)


def _path(text: str) -> Path:
    return Path(text).resolve()


def _days(text: str) -> float:
    with contextlib.suppress(ValueError):
        days = float(text)
        if 0 < days <= 36500:
            return days
    raise argparse.ArgumentTypeError(f"must be a number of days, greater than 0 and at most 36500, not {text!r}")


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        seconds = float(text)
        if 0 <= seconds <= 86400:
            return seconds
    raise argparse.ArgumentTypeError(f"must be a number of seconds from 0 to 86400, not {text!r}")


def _name(text: str) -> str:
    if not text.strip() or not text.isprintable() or len(text) > 100:
        raise argparse.ArgumentTypeError("must be one line of 1 to 100 characters")
    return text


def _create(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.store import tokens

    expires = None if options.days is None else datetime.now(UTC) + timedelta(days=options.days)
    with (
        _reserved(options.output),
        initialised(settings) as connection,
        contextlib.ExitStack() as after_commit,
        connection.transaction(),
    ):
        row, text = tokens.create(connection, options.name, options.scope, expires)
        if options.output is not None:
            content = {"token": text, "scope": row.scope, "name": row.name}
            after_commit.enter_context(secretfile.replaced(options.output, secretfile.encoded(content)))
    _tell(row, text, options.output)


def _rotate(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.operations import credential_files

    with initialised(settings) as connection, credential_files.locked_folder(settings.secrets_dir):
        credential_files.finish_rotation(connection, settings.secrets_dir, warn)
        held = _files_with_token(connection, options, settings)
        new_file = None if options.output in held else options.output
        with _reserved(new_file):
            files = [*held, new_file] if new_file else held
            row, text = credential_files.rotate_token(connection, options.id, files, options.overlap)
    _tell(row, text, options.output, held)


def _revoke(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.store import tokens

    with initialised(settings) as connection:
        held = _files_with_token(connection, options, settings)
        with connection.transaction():
            revoked = tokens.revoke(connection, options.id)
    say(f"token {revoked.id} ({revoked.name}, {revoked.scope}) is revoked")
    for path in held:
        recreated = settings.database_url is None and path.name in (READ_TOKEN, WRITE_TOKEN)
        warn(
            f"{path} contains the revoked token: remove the file"
            + (", and the next start of bin/marketdata-api creates a new one" if recreated else "")
        )


def _files_with_token(connection: Connection, options: argparse.Namespace, settings: Settings) -> list[Path]:
    """Return those of the secret files and the output file that contain the token with the given id."""
    from marketdata.store import tokens

    paths = {each.resolve() for each in settings.secrets_dir.glob("*.json")}
    if getattr(options, "output", None):
        paths.add(options.output)
    digest = tokens.digest_of(connection, options.id)
    return [] if digest is None else secretfile.holding(sorted(paths), digest)


def list_all(_options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.store import tokens

    with initialised(settings) as connection:
        rows = [("ID", "NAME", "SCOPE", "BEGINNING", "STATE", "LAST USED (updated each minute)")]
        for each in tokens.list_all(connection):
            used = f"{each.last_used_at:%Y-%m-%d %H:%M}" if each.last_used_at else "never"
            rows.append((each.id, each.name, each.scope, each.hint, _state(each), used))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _state(row: Token) -> str:
    if row.revoked_at:
        return f"revoked {row.revoked_at:%Y-%m-%d}"
    if row.expires_at is None:
        return "valid"
    return f"{'valid until' if row.expires_at > datetime.now(UTC) else 'expired'} {row.expires_at:%Y-%m-%d}"


def _reserved(output: Path | None) -> contextlib.AbstractContextManager[None]:
    """Create the output file before the token is created, so that every new token can be written to its file."""
    return contextlib.nullcontext() if output is None else secretfile.reserved(output)


def _tell(row: Token, text: str, output: Path | None, held: Sequence[Path] = ()) -> None:
    """Print the token, unless it is in an output file. ``held`` are the files that contained the previous token."""
    warn(f"token {row.id} ({row.name}, {row.scope})")
    for path in held:
        warn(f"{path} contained the previous token and now contains the new one")
    if output is None:
        say(text)
    elif output not in held:
        warn(f"{output}: written")

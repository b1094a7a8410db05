"""The command line of ``bin/marketdata-reader``."""

from __future__ import annotations

import argparse

from marketdata.commands.connection import initialised, say
from marketdata.postgres.cluster import reader_conninfo
from marketdata.settings import Settings

ABOUT = "Let programs read the database by SQL, as a role that can do nothing else."


def add_commands(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    passwd = actions.add_parser("passwd", help="give the role a new password, and write it to a file (0600)")
    passwd.set_defaults(run=_passwd, parser=passwd)


def _passwd(_options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.graphql.engine import READER
    from marketdata.operations import credential_files

    with initialised(settings) as connection:
        path = credential_files.change_reader_password(connection, settings.secrets_dir)
    say(f"{path}: has the new password of the role {READER}")
    if settings.database_url is None:
        say(f'psql "{reader_conninfo(settings, READER, path)}"')

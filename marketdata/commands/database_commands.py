"""The command lines of ``bin/marketdata-init``, ``-alias``, ``-reader`` and ``-graphql``."""

from __future__ import annotations

import argparse

from marketdata.commands.database_connection import initialised, say, warn
from marketdata.postgres.cluster import reader_conninfo
from marketdata.settings import Settings

ABOUT_INIT = "Create or update the shared tables and the roles."
ABOUT_ALIAS = "Other names of symbols, in every version: add, remove and list them."
ABOUT_READER = "Let programs read the database by SQL, as a role that can do nothing else."
ABOUT_GRAPHQL = "Have Hasura track the tables and the candles function of a version, and let a role read them."


def init(_options: argparse.Namespace, settings: Settings) -> None:
    with initialised(settings, say):
        pass


def add_alias_actions(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    named = argparse.ArgumentParser(add_help=False)
    named.add_argument("alias", metavar="ALIAS", help="the other name")
    adding = actions.add_parser("add", parents=[named], help="let ALIAS stand for SYMBOL, for readers and writers")
    adding.add_argument("symbol", metavar="SYMBOL", help="the name under which ticks are stored")
    adding.set_defaults(run=_add_alias)
    removing = actions.add_parser("remove", parents=[named], help="remove ALIAS; the ticks stay stored")
    removing.set_defaults(run=_remove_alias)
    actions.add_parser("list", help="list the aliases with their symbols").set_defaults(run=list_aliases)


def _add_alias(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.operations import aliases

    alias, symbol = options.alias, options.symbol
    with initialised(settings) as connection:
        is_new = aliases.add(connection, alias, symbol)
        is_stored = bool(aliases.versions_with(connection, symbol))
    say(f"{alias} {'now' if is_new else 'already'} stands for {symbol}")
    if not is_stored:
        warn(f"note: no version has a symbol {symbol} yet; if that is a mistake, bin/marketdata-alias remove {alias}")


def _remove_alias(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.operations import aliases

    with initialised(settings) as connection:
        symbol = aliases.remove(connection, options.alias)
    say(f"{options.alias} no longer stands for {symbol}")


def list_aliases(_options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.operations import aliases

    with initialised(settings) as connection:
        found = aliases.all_of(connection)
    for alias, symbol in found.items():
        say(f"{alias}  {symbol}")


def add_reader_actions(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    passwd = actions.add_parser("passwd", help="give the role a new password, and write it to a file (0600)")
    passwd.set_defaults(run=_change_reader_password, parser=passwd)


def _change_reader_password(_options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.graphql.engine import READER
    from marketdata.operations import credential_files

    with initialised(settings) as connection:
        path = credential_files.change_reader_password(connection, settings.secrets_dir)
    say(f"{path}: has the new password of the role {READER}")
    if settings.database_url is None:
        say(f'psql "{reader_conninfo(settings, READER, path)}"')


def graphql(_options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.graphql import engine
    from marketdata.graphql.tracking import is_readable, track
    from marketdata.store.version import find_served

    credential = engine.load(settings.secrets_dir, warn=warn)  # an unusable file is reported before PostgreSQL starts
    with initialised(settings) as connection:
        version = find_served(connection, settings)
        track(connection, version, credential, say)
        if not is_readable(connection, version):
            warn(
                f"note: PostgreSQL's role marketdata_reader may not read version {version.n}; "
                f"bin/marketdata-version {version.n} grants it"
            )
    say(f"version {version.n}: {credential.url} serves it to the role {credential.role}")

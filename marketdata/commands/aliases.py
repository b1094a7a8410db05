"""The command line of ``bin/marketdata-alias``."""

from __future__ import annotations

import argparse
import sys

from marketdata.commands.connection import initialised, say
from marketdata.settings import Settings

ABOUT = "Other names of symbols, in every version: add, remove and list them."


def add_commands(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    named = argparse.ArgumentParser(add_help=False)
    named.add_argument("alias", metavar="ALIAS", help="the other name")
    adding = actions.add_parser("add", parents=[named], help="let ALIAS stand for SYMBOL, for readers and writers")
    adding.add_argument("symbol", metavar="SYMBOL", help="the name under which ticks are stored")
    adding.set_defaults(run=_add)
    actions.add_parser("remove", parents=[named], help="end that; the ticks stay stored").set_defaults(run=_remove)
    actions.add_parser("list", help="list the aliases with their symbols").set_defaults(run=list_all)


def _add(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.operations import aliases

    alias, symbol = options.alias, options.symbol
    with initialised(settings) as connection:
        is_new = aliases.add(connection, alias, symbol)
        is_stored = aliases.is_stored(connection, symbol)
    say(f"{alias} {'now' if is_new else 'already'} stands for {symbol}")
    if not is_stored:
        print(
            f"note: no version has a symbol {symbol} yet; if that is a mistake, bin/marketdata-alias remove {alias}",
            file=sys.stderr,
            flush=True,
        )


def _remove(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.operations import aliases

    with initialised(settings) as connection:
        symbol = aliases.remove(connection, options.alias)
    say(f"{options.alias} no longer stands for {symbol}")


def list_all(_options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.operations import aliases

    with initialised(settings) as connection:
        found = aliases.all_of(connection)
    for alias, symbol in found.items():
        say(f"{alias}  {symbol}")

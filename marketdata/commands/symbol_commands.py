"""The command line of ``bin/marketdata-symbol``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from marketdata.commands.database_connection import confirm, initialised, say
from marketdata.settings import Settings

if TYPE_CHECKING:
    from marketdata.operations.drop_symbol import Contents
    from marketdata.store.version import Version

ABOUT = "Remove one symbol from a version, with all that is stored of it."


def add_actions(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    dropping = actions.add_parser(
        "drop",
        help="remove a symbol",
        description="Remove a symbol from the served version: ticks, candles, retracted blocks, coverage, aliases.",
        epilog="Example: bin/marketdata-symbol drop ETH:WETH-USDC --yes",
    )
    dropping.add_argument("symbol", metavar="SYMBOL", help="the symbol, not an alias of it")
    dropping.add_argument("--yes", action="store_true", help="do not ask")
    dropping.set_defaults(run=drop)


def drop(options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.operations import drop_symbol
    from marketdata.operations.symbol_access import SymbolAccess
    from marketdata.store.version import find_served

    symbol = options.symbol
    with initialised(settings) as connection, SymbolAccess(connection) as access:
        version = find_served(connection, settings)
        _show(version, symbol, drop_symbol.contents(access, version, symbol))
        if not options.yes:
            confirm(f"drop {symbol}")
        erased, aliases = drop_symbol.drop(access, version, symbol)
    also = f", and its aliases {', '.join(aliases)}" if aliases else ""
    say(
        f"dropped {symbol} from version {version.n} ({version.ticks_table}): "
        f"{erased.ticks} ticks and {erased.candles} candles{also}"
    )


def _show(version: Version, symbol: str, found: Contents) -> None:
    """Print what the command is about to remove."""
    times = f", from {found.first:%Y-%m-%dT%H:%M:%SZ} to {found.last:%Y-%m-%dT%H:%M:%SZ}" if found.first else ""
    say(
        f"{symbol} in version {version.n} ({version.ticks_table}): "
        f"{found.ticks} ticks and {found.candles} candles{times}"
    )
    tables, others = found.tables, [each for each in found.tables if each != version.ticks_table]
    say(f"listed in {len(tables)} version{'s' * (len(tables) != 1)}: {', '.join(tables)}")
    if found.aliases:
        kept = f"; kept, because {', '.join(others)} has the symbol, too" if others else ""
        say(f"aliases: {', '.join(found.aliases)}{kept}")
    if found.holder is not None:
        say(
            f"note: the ingestor {found.holder} writes to {version.ticks_table}; "
            f"it stores {symbol} again if its pools still have it"
        )

"""The command line of ``bin/marketdata-graphql``."""

from __future__ import annotations

import argparse
import sys

from marketdata.commands.connection import initialised, say
from marketdata.settings import Settings

ABOUT = "Have Hasura track the tables and the candles function of a version, and let a role read them."


def graphql(_options: argparse.Namespace, settings: Settings) -> None:
    from marketdata.graphql import engine
    from marketdata.graphql.tracking import is_readable, track
    from marketdata.store.version import find_served

    credential = engine.load(settings.secrets_dir, warn=_warn)  # before a PostgreSQL is started in vain
    with initialised(settings) as connection:
        version = find_served(connection, settings)
        track(connection, version, credential, say)
        if not is_readable(connection, version):
            _warn(
                f"note: PostgreSQL's role marketdata_reader may not read version {version.n}; "
                f"bin/marketdata-version {version.n} grants it"
            )
    say(f"version {version.n}: {credential.url} serves it to the role {credential.role}")


def _warn(text: str) -> None:
    print(text, file=sys.stderr, flush=True)

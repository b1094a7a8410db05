"""The connection of a one-shot task, and ``bin/marketdata-init``, which does nothing else."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from marketdata.postgres.client import database
from marketdata.settings import Settings

if TYPE_CHECKING:
    from marketdata.store.pool import Connection


@contextlib.contextmanager
def initialised(settings: Settings, say: Callable[[str], None] | None = None) -> Iterator[Connection]:
    """A connection to the database, with the shared tables created; ``say`` is called with what was done."""
    from marketdata.operations.setup import initialise
    from marketdata.store.pool import connect

    with database(settings) as url, connect(url, application_name="marketdata-bootstrap") as connection:
        initialise(connection, say or (lambda _text: None))
        yield connection


def init(_options: argparse.Namespace, settings: Settings) -> None:
    with initialised(settings, say):
        pass


def say(text: str) -> None:
    """Print a line of a task's result at once."""
    print(text, flush=True)

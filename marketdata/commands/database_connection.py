"""Connects a command to the database, prints its output, and asks."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from marketdata.errors import StateError, UsageError
from marketdata.postgres.client import database
from marketdata.settings import Settings

if TYPE_CHECKING:
    from marketdata.store.pool import Connection


@contextlib.contextmanager
def initialised(settings: Settings, say: Callable[[str], None] | None = None) -> Iterator[Connection]:
    """Connect to the database and create the shared tables that are missing. ``say`` gets a line for each action."""
    from marketdata.operations import lost_node
    from marketdata.operations.setup import initialise
    from marketdata.store.pool import connect

    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)  # the command itself says which node does not answer
    with (
        database(settings) as url,
        connect(url, application_name="marketdata-operation") as connection,
        lost_node.named(connection),
    ):
        initialise(connection, say or (lambda _text: None))
        yield connection


def say(text: str) -> None:
    """Print a line of a command's result at once."""
    print(text, flush=True)


def warn(text: str) -> None:
    """Print a line on standard error at once."""
    print(text, file=sys.stderr, flush=True)


def discard_output() -> None:
    """Send the rest of standard output to the null device. It failed before, and the interpreter flushes it again at
    its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def confirm(what: str) -> None:
    """Ask on the terminal whether to do ``what``. Raises UsageError without a terminal, and StateError if the answer is
    no."""
    if not sys.stdin.isatty():
        raise UsageError(f"standard input is no terminal, so nobody can be asked whether to {what}: give --yes")
    print(f"It cannot be undone.\n{what[0].upper()}{what[1:]}? [y/N] ", end="", flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise StateError("nothing was dropped")

"""Names the node of a Citus cluster because of which a command failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg.conninfo import make_conninfo

from marketdata.errors import DatabaseUnavailable, MarketError
from marketdata.store import shards
from marketdata.store.conninfo import node_conninfo
from marketdata.store.pool import Connection, connect
from marketdata.store.postgres_errors import translated


@contextmanager
def named(connection: Connection) -> Iterator[None]:
    """If the block fails because a database does not answer, look for a node that does not answer, and raise an error
    with its name. ``connection`` is that of the command."""
    try:
        with translated():
            yield
    except DatabaseUnavailable as error:
        found = _lost(connection)
        if found is None:
            raise
        name, why = found
        raise DatabaseUnavailable(
            f"node {name} of the Citus cluster does not answer; run this command again when it is back"
        ) from (why.__cause__ or error)


def _lost(connection: Connection) -> tuple[str, MarketError] | None:
    """The first node that gives no connection, and the reason; None if the coordinator does not answer, either."""
    if connection.closed or not shards.has_citus(connection):
        return None
    info = connection.info
    own = make_conninfo("", **info.get_parameters(), password=info.password)
    for node in shards.nodes(connection):
        try:
            with connect(node_conninfo(own, *node), application_name="marketdata-operation"):
                pass
        except MarketError as error:
            return "{}:{}".format(*node), error
    return None

"""Connection strings of libpq: their defaults, the hosts that they name, and those of the nodes of a cluster."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from marketdata.errors import UsageError

CONNECTING: dict[str, str | int] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""libpq parameters that a URL may override. With them, the kernel detects within half a minute instead of two hours
that a server has vanished without closing the connection, for example after a power failure."""


def completed(conninfo: str, application_name: str) -> str:
    """``conninfo`` with :data:`CONNECTING` as defaults. Raises UsageError if ``conninfo`` is malformed."""
    return make_conninfo("", **{**CONNECTING, "fallback_application_name": application_name, **_parsed(conninfo)})


def _parsed(conninfo: str) -> dict[str, Any]:
    """Raises UsageError if ``conninfo`` is malformed. The error does not quote it, because it may contain a
    password."""
    try:
        return conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError as error:
        raise UsageError(
            "DATABASE_URL or DATABASE_READ_URL is malformed: it must be a connection string of libpq, like "
            "postgresql://user@host/database"
        ) from error


def hosts(conninfo: str) -> list[str]:
    """A connection string for each host that ``conninfo`` names, in their order. ``target_session_attrs`` is left out,
    because it chooses among several hosts. Raises UsageError if ``conninfo`` is malformed."""
    given = _parsed(conninfo)
    given.pop("target_session_attrs", None)
    lists = {name: str(given[name]).split(",") for name in ("host", "hostaddr", "port") if given.get(name)}
    count = max((len(each) for name, each in lists.items() if name != "port"), default=1)
    if any(len(each) != count and (name, len(each)) != ("port", 1) for name, each in lists.items()):
        raise UsageError("DATABASE_READ_URL is malformed: it must have a port for each host, or one for all")
    single = [{name: each[n % len(each)] for name, each in lists.items()} for n in range(count)]
    return list(dict.fromkeys(make_conninfo("", **{**given, **each}) for each in single))


def node_conninfo(conninfo: str, host: str, port: int) -> str:
    """The connection string for the shards on a node of the Citus cluster whose coordinator ``conninfo`` names."""
    given = conninfo_to_dict(conninfo)
    options = f"{given.get('options') or ''} -c citus.enable_manual_changes_to_shards=on".strip()
    given.pop("hostaddr", None)
    return make_conninfo("", **{**given, "host": host, "port": port, "options": options})


def server(conninfo: str) -> str:
    """Host and port of a valid connection string, for messages to operators."""
    host, port = address(conninfo)
    return f"host {host}, port {port}"


def address(conninfo: str) -> tuple[str, str]:
    """Host and port of a valid connection string."""
    given = conninfo_to_dict(conninfo)
    return str(given.get("host") or given.get("hostaddr") or "of libpq's default"), str(given.get("port") or 5432)

"""Versions that Citus distributes by symbol: how one is made, and the names and nodes of its shards.

The tables of ticks, candles and symbols are split into shards by the hash of the symbol. The shards of a range of
hashes lie on one node. The small tables (aliases, chains, coverage) are reference tables: each node has a copy.

Each shard has its own functions, created from the same scripts as those of a plain version, with the names of the
shard's tables. They exist on all nodes, because Citus may move a shard. So a statement about one symbol runs on the
node of its shard as it runs in a plain version, without Citus. Only the lock of a write goes through Citus
(``sql/shard.sql``).

Other clients may insert and delete ticks in the distributed table, those of one shard in a transaction: PostgreSQL
cannot prepare a transaction that notifies, and Citus prepares those over several nodes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import LiteralString, NamedTuple

import psycopg
from psycopg import sql

from marketdata.errors import Contended, StateError, UsageError
from marketdata.interval import LEVELS
from marketdata.store import prepared
from marketdata.store.pool import Connection
from marketdata.store.postgres_errors import translated
from marketdata.store.version import Version, with_safe_search_path

MAX_PREFIX = 20
"""Maximum length of the prefix of a distributed version. Names of a shard end with its number."""
MAX_SHARDS = 256
"""More would take minutes to create, because each has functions of its own on every node."""

_DISTRIBUTED = ("symbols", "ticks", "rollups", "retracted", "pruned")
"""The tables that are split by symbol. The others are colocated with the first."""
_REFERENCE = ("chains", "coverage")
_ROW_TYPE = "candle"
"""A reference table, too, so that each node knows the row type. Functions use the type of the table, not of a copy."""
_LEVEL_TABLES = tuple(f"rollups_{interval}" for interval in LEVELS)
_OF_SHARD = frozenset({*_DISTRIBUTED, *_LEVEL_TABLES, *_REFERENCE, "aliases"})
_TRIGGERS = ("ticks_guard", "rollups_insert", "rollups_delete")
OWN = ("lock_here", "keep_here")
"""The functions that only a shard has."""
_IS_PLACED: LiteralString = """EXISTS (
    SELECT FROM pg_dist_placement WHERE shardid = {shard_id} AND groupid = (SELECT groupid FROM pg_dist_local_group))"""
"""Whether the shard is on this node. Citus keeps the tables of a shard for a while after it has moved them to another
node."""
_IS_HERE = f"""
    {_IS_PLACED}
    AND NOT EXISTS (SELECT FROM {{names}} AS n (name) LEFT JOIN {{aliases}} a ON a.alias = n.name
                    WHERE worker_hash(coalesce(a.symbol, n.name)) NOT BETWEEN {{first_hash}} AND {{last_hash}})"""
"""Whether the shard is on this node, and all names belong to it."""

_FUNCTION = re.compile(r"CREATE FUNCTION \{(\w+)\}.*?\n(?:END )?\$\$;\n", re.DOTALL)
_NAME = re.compile(r"(?<!')\{(\w+)\}")
"""A name in braces. The notification names the version's ticks table in quotes, also in a shard."""
_TRIGGER_BODY = re.compile(r"\$\$\n(.*?)(BEGIN\n.*END) \$\$;\n", re.DOTALL)


@dataclass(frozen=True)
class Shard(Version):
    """A version with the names of one shard: the tables and functions for symbols with a hash in [first, last]."""

    id: int = 0
    first: int = field(default=0, compare=False)
    last: int = field(default=0, compare=False)
    names: Mapping[str, str] = field(default_factory=dict, compare=False)

    def name(self, part: str) -> str:
        return self.names.get(part) or super().name(part)

    @property
    def is_placed(self) -> LiteralString:
        return _IS_PLACED.replace("{shard_id}", str(self.id))


class Moved(Contended):
    """The shard is not on this node, or one of the names does not belong to it."""

    def __init__(self) -> None:
        super().__init__("the data are being moved between nodes; send the request again")


class Node(NamedTuple):
    """A server of the cluster, as Citus knows it."""

    host: str
    port: int


class Placed(NamedTuple):
    """A shard, and the node that holds it."""

    shard: Shard
    node: Node


def refuse_worker(connection: Connection) -> None:
    """Raise UsageError if the database is that of a worker of a Citus cluster. Tables that were created there would
    conflict with those that the coordinator creates."""
    if not has_citus(connection):
        return
    if connection.execute("SELECT groupid FROM pg_dist_local_group").fetchone() != (0,):
        raise UsageError("DATABASE_URL leads to a worker of a Citus cluster: set it to the coordinator")


def has_citus(connection: Connection) -> bool:
    """Whether the database belongs to a Citus cluster."""
    return connection.execute("SELECT FROM pg_extension WHERE extname = 'citus'").fetchone() is not None


def require_citus(connection: Connection) -> None:
    """Raise UsageError unless the database is the coordinator of a Citus cluster with worker nodes."""
    if not has_citus(connection):
        raise UsageError(
            "--shards: the database has no extension citus. Set DATABASE_URL to the coordinator of a Citus cluster "
            "(CREATE EXTENSION citus there and on each worker), or leave --shards out"
        )
    row = connection.execute(
        "SELECT EXISTS (SELECT FROM pg_dist_node WHERE isactive AND noderole = 'primary' AND shouldhaveshards)"
    ).fetchone()
    if row != (True,):
        raise UsageError(
            "--shards: the Citus cluster has no node for shards: add one on the coordinator with "
            "SELECT citus_add_node('HOST', PORT)"
        )


def distribute(connection: Connection, version: Version) -> None:
    """Distribute a new, empty version (its scripts have run) over ``version.shards`` shards, and create the functions
    of each shard. Call this in the transaction that has created the version."""
    if len(version.prefix) > MAX_PREFIX:
        raise UsageError(f"MARKET_PREFIX={version.prefix}: a distributed version's has at most {MAX_PREFIX} characters")
    allow_triggers(connection)
    for table in _missing_reference_tables(
        connection, [version.name(part) for part in ("aliases", *_REFERENCE, _ROW_TYPE)]
    ):
        connection.execute("SELECT create_reference_table(%s)", (table,))
    first = version.name(_DISTRIBUTED[0])
    connection.execute("SELECT create_distributed_table(%s, 'symbol', colocate_with => 'none', shard_count => %s)",
                       (first, version.shards))  # fmt: skip
    for part in _DISTRIBUTED[1:]:
        connection.execute("SELECT create_distributed_table(%s, 'symbol', colocate_with => %s)",
                           (version.name(part), first))  # fmt: skip
    create_functions(connection, version)


def create_functions(connection: Connection, version: Version) -> None:
    """Create the functions of each shard, or replace them."""
    allow_triggers(connection)
    found = [each.shard for each in placed(connection, version)]
    for shard in found:
        connection.execute(shard.query(with_safe_search_path(functions_of(shard))), prepare=False)
    own = "\n".join([_read("coordinator.sql"), *(trigger_function(part, found) for part in _TRIGGERS)])
    connection.execute(version.query(with_safe_search_path(own)), prepare=False)


def drop_former(connection: Connection) -> None:
    """Drop the tables that shards have left behind on their former nodes after a move or a split. Their triggers need
    the functions of the version. Citus drops them within a quarter of a minute, too. This may not run in a
    transaction."""
    connection.execute("CALL citus_cleanup_orphaned_resources()")


def undistribute_aliases(connection: Connection) -> None:
    """Make ``market_aliases`` a plain table again, if no version is distributed any more."""
    if connection.execute("SELECT FROM market_versions WHERE shards IS NOT NULL").fetchone() is None:
        connection.execute("SELECT undistribute_table('market_aliases')")


LOCK_WAIT_ENDED = (psycopg.errors.LockNotAvailable, psycopg.errors.InternalError_)
"""The errors that end a wait limited by :func:`limit_lock_waits`. The second one is raised if the lock is on another
node."""


def limit_lock_waits(connection: Connection, seconds: float) -> None:
    """Limit how long each statement of this transaction waits for a lock, also on the other nodes of a cluster."""
    connection.execute("SET LOCAL citus.propagate_set_commands = 'local'")
    connection.execute(f"SET LOCAL lock_timeout = '{seconds}s'")


def placed(connection: Connection, version: Version) -> list[Placed]:
    """The shards of a version in the order of their hashes, and where they are."""
    rows = connection.execute(_PLACED, (version.ticks_table,)).fetchall()
    parts = {version.name(part): part for part in (*_DISTRIBUTED, *_LEVEL_TABLES)}
    references = _reference_shards(connection, version)
    found = []
    for shard_id, first, last, host, port, tables, ids in rows:
        names = {parts[table]: f"{table}_{number}" for table, number in zip(tables, ids, strict=True) if table in parts}
        names |= references
        functions = {part: f"{version.name(part)}_s{shard_id}" for part in (*shard_functions(), *OWN)}
        shard = Shard(
            version.prefix, version.n, version.candles_function, version.shards, shard_id, first, last,
            names | functions
        )  # fmt: skip
        found.append(Placed(shard, Node(host, port)))
    return found


def is_here(connection: Connection, shard: Shard, names: Collection[str]) -> bool:
    """Whether the shard is on the node of this connection, and these symbols and aliases belong to it."""
    statement = shard.query(_is_here_statement(shard))
    with translated():
        return prepared.rows(connection, statement, {"names": json.dumps(list(names))}) == [(b"t",)]


@lru_cache(MAX_SHARDS)
def _is_here_statement(shard: Shard) -> LiteralString:
    return f"SELECT {_is_here(shard, 'jsonb_array_elements_text(%(names)s::jsonb)')}"


def _is_here(shard: Shard, names: str) -> str:
    numbers = {"shard_id": shard.id, "first_hash": shard.first, "last_hash": shard.last}
    text = _IS_HERE.replace("{names}", names)
    for name, number in numbers.items():
        text = text.replace(f"{{{name}}}", str(number))
    return text


def nodes(connection: Connection) -> list[Node]:
    """The nodes of the cluster to which Citus may move shards."""
    rows = connection.execute(
        "SELECT nodename, nodeport FROM pg_dist_node WHERE isactive AND noderole = 'primary' AND shouldhaveshards"
    )
    return [Node(*row) for row in rows.fetchall()]


def hashes(connection: Connection, names: Sequence[str]) -> dict[str, int]:
    """The hash of the symbol that each name stands for. A shard has the symbols whose hash is in its range."""
    rows = connection.execute(
        "SELECT name, worker_hash(coalesce(a.symbol, name)) FROM unnest(%s::text[]) AS name"
        " LEFT JOIN market_aliases a ON a.alias = name",
        (list(names),),
    )
    return dict(rows.fetchall())


_PLACED = """
    SELECT t.shardid, t.shardminvalue::integer, t.shardmaxvalue::integer, n.nodename, n.nodeport,
           array_agg(c.relname::text), array_agg(s.shardid)
    FROM pg_dist_partition own
    JOIN pg_dist_shard t ON t.logicalrelid = own.logicalrelid
    JOIN pg_dist_placement l ON l.shardid = t.shardid
    JOIN pg_dist_node n ON n.groupid = l.groupid AND n.noderole = 'primary'
    JOIN pg_dist_partition beside ON beside.colocationid = own.colocationid
    JOIN pg_dist_shard s ON s.logicalrelid = beside.logicalrelid AND s.shardminvalue = t.shardminvalue
    JOIN pg_class c ON c.oid = beside.logicalrelid
    WHERE own.logicalrelid = to_regclass(%s) GROUP BY 1, 2, 3, 4, 5 ORDER BY 2
"""


def _reference_shards(connection: Connection, version: Version) -> dict[str, str]:
    """The names of the tables that hold the copies of the reference tables. They are the same on all nodes."""
    parts = {version.name(part): part for part in (*_REFERENCE, "aliases")}
    rows = connection.execute(
        "SELECT c.relname::text, s.shardid FROM pg_dist_shard s JOIN pg_class c ON c.oid = s.logicalrelid"
        " WHERE s.logicalrelid = ANY (SELECT to_regclass(name) FROM unnest(%s::text[]) AS name)",
        (list(parts),),
    ).fetchall()
    return {parts[table]: f"{table}_{number}" for table, number in rows}


def _missing_reference_tables(connection: Connection, tables: Sequence[str]) -> list[str]:
    rows = connection.execute(
        "SELECT name FROM unnest(%s::text[]) WITH ORDINALITY AS u (name, place) WHERE NOT EXISTS"
        " (SELECT FROM pg_dist_partition WHERE logicalrelid = to_regclass(name)) ORDER BY place",
        (list(tables),),
    )
    return [name for (name,) in rows]


def allow_triggers(connection: Connection) -> None:
    """Let this transaction attach triggers to shards, which Citus allows only on request: a trigger may use only what
    is on its node. The triggers of the store use at most the tables of their own shard."""
    connection.execute("SET LOCAL citus.enable_unsafe_triggers = on")
    connection.execute("SET LOCAL citus.multi_shard_modify_mode = 'sequential'")
    connection.execute("SET LOCAL check_function_bodies = off")  # each node has only the tables of its own shards


@lru_cache
def functions() -> dict[str, str]:
    """The statements of the scripts that create functions, by the name in braces."""
    return {found[1]: found[0] for found in _FUNCTION.finditer(Version.scripts())}


@lru_cache
def shard_functions() -> frozenset[str]:
    """The functions that a shard needs of its own: those that use its tables, directly or by other functions."""
    used = {name: set(_NAME.findall(text)) for name, text in functions().items() if name not in _TRIGGERS}
    found: set[str] = set()
    while more := {name for name, uses in used.items() if uses & (_OF_SHARD | found)} - found:
        found |= more
    return frozenset(found)


def functions_of(shard: Shard) -> LiteralString:
    """The statements that create the functions of a shard. In the scripts' order, each is created before the functions
    that use it."""
    statements = [
        _replacing(text.replace("CREATE FUNCTION {lock}", "CREATE FUNCTION {lock_here}"))
        for name, text in functions().items()
        if name in shard_functions()
    ]
    own = _read("shard.sql")
    own = own.replace("{is_here}", f"({_is_here(shard, 'unnest(names)')})")
    own = own.replace("{all_symbols}", sql.Identifier(Version.name(shard, "symbols")).as_string(None))
    return "\n".join([*statements, own])


# Only the owner may use a trigger function, but on nodes that are added later, Citus lets everybody.
_OWNER_CHECK = """\
    IF (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = TG_RELID) <> current_user THEN
        RAISE EXCEPTION '% belongs to another role', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
    END IF;
"""
# The distributed table itself has no row. Its triggers run with each statement on the node that a client asks.
_OTHER_TABLE = """\
    IF TG_RELID <> '{ticks}'::regclass THEN
        RAISE EXCEPTION 'the functions of the shard % are missing: run bin/marketdata-version again', TG_TABLE_NAME
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
"""


def trigger_function(part: str, shards: Sequence[Shard]) -> str:
    """The statement that replaces a trigger function by one with a block for each shard. Citus attaches the same
    function to the tables of all shards, and attaches it again where it moves a shard. Each block is the body of the
    scripts with the names of the shard, so that PostgreSQL keeps a plan for each."""
    text = functions()[part]
    found = _TRIGGER_BODY.search(text)
    if found is None:
        raise StateError(f"the function {part} of the scripts has no body that a shard could use")
    block = found[1] + found[2]
    blocks = []
    for shard in shards:
        own = shard.query(block).decode().replace("{", "{{").replace("}", "}}")
        blocks.append(f"    IF TG_TABLE_NAME = '{shard.name('ticks')}' THEN\n{own};\n    END IF;\n")
    head = text[: found.start()]
    setting = "SET search_path FROM CURRENT SET citus.enable_manual_changes_to_shards = on"
    head = _replacing(head.replace("SET search_path FROM CURRENT", setting))
    return f"{head}$$\nBEGIN\n{_OWNER_CHECK}{''.join(blocks)}{_OTHER_TABLE}    RETURN NULL;\nEND $$;\n"


def _read(script: str) -> str:
    return (files("marketdata.store") / "sql" / script).read_text(encoding="utf-8")


def _replacing(statement: str) -> str:
    return statement.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1)

"""Makes Hasura serve the tables and the candles function of a version to a role (``bin/marketdata-graphql``), and finds
those that Hasura does not track."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from marketdata.errors import StateError
from marketdata.graphql.engine import READER, Credential, Engine, Name, Refused, Tracked
from marketdata.limits import MAX_ROWS
from marketdata.store.pool import Connection
from marketdata.store.version import Version

TABLES = ("ticks", "symbols", "chains", "coverage", "candle")
"""The tables with the data of the HTTP API. ``candle`` is always empty, but Hasura tracks a function only if it returns
rows of a tracked table."""


DISTRIBUTED = (
    "GraphQL does not serve a distributed version, because its candles are computed on the nodes of its shards. Let "
    "Hasura track a plain version that bin/marketdata-copy --follow keeps up to date, or only the tables, as a "
    "database of its kind citus"
)
"""Why :func:`track` refuses a version that Citus distributes, and what there is instead."""

_ALREADY = {
    "pg_track_table": "already-tracked",
    "pg_track_function": "already-tracked",
    "pg_create_select_permission": "already-exists",
    "pg_create_function_permission": "already-exists",
}
"""The error code of each call if its result exists already. The error messages differ between Hasura's releases."""
_OTHER_DATABASE = ("not-exists", "not-found", "invalid-configuration")
_MAY_READ = """
    SELECT coalesce(bool_and(has_table_privilege(rolname, to_regclass(name), 'SELECT')), true)
    FROM pg_roles, unnest(%s::text[]) name WHERE rolname = %s"""
_SCHEMAS = """
    SELECT of_tables.nspname, of_function.nspname
    FROM pg_class JOIN pg_namespace of_tables ON of_tables.oid = relnamespace,
         pg_proc JOIN pg_namespace of_function ON of_function.oid = pronamespace
    WHERE pg_class.oid = to_regclass(%s) AND proname = %s AND pg_function_is_visible(pg_proc.oid)"""


class Schemas(NamedTuple):
    """The schemas of a version's tables and of its candles function."""

    tables: str
    function: str


def schemas(connection: Connection, version: Version) -> Schemas:
    """Find the schemas of a version, which must exist."""
    row = connection.execute(_SCHEMAS, (version.ticks_table, version.candles_function)).fetchone()
    assert row is not None, "the version was checked"
    return Schemas(*row)


class Step(NamedTuple):
    """A call, the line to print if it was made now, and the line to print if its result existed already."""

    call: dict[str, Any]
    done: str
    already: str


def steps(version: Version, where: Schemas, source: str, role: str) -> list[Step]:
    """The steps to track a version. Tables come before the function that returns their rows; permissions come last."""
    tables = [version.name(part) for part in TABLES]
    function = {"schema": where.function, "name": version.candles_function}
    found = [_tracking("table", {"schema": where.tables, "name": name}, source) for name in tables]
    found.append(_tracking("function", function, source))
    for name in tables:
        permission = {"columns": "*", "filter": {}, "limit": MAX_ROWS}
        table = {"schema": where.tables, "name": name}
        args = {"table": table, "role": role, "permission": permission, "source": source}
        found.append(_permission("pg_create_select_permission", args, f"select on table {name}"))
    args = {"function": function, "role": role, "source": source}
    found.append(_permission("pg_create_function_permission", args, f"call function {version.candles_function}"))
    return found


def _tracking(kind: str, name: dict[str, str], source: str) -> Step:
    call = {"type": f"pg_track_{kind}", "args": {kind: name, "source": source}}
    return Step(call, f"{kind} {name['name']}: tracked", f"{kind} {name['name']}: already tracked")


def _permission(kind: str, args: dict[str, Any], what: str) -> Step:
    about = f"role {args['role']}, permission to {what}"
    return Step({"type": kind, "args": args}, f"{about}: created", f"{about}: already exists")


def track(connection: Connection, version: Version, credential: Credential, say: Callable[[str], None]) -> None:
    """Take all missing steps, or none of them. Raises StateError, which names the step that Hasura refuses, and for a
    distributed version."""
    if version.shards is not None:
        raise StateError(f"version {version.n}: {DISTRIBUTED}")
    planned = steps(version, schemas(connection, version), credential.source, credential.role)
    missing = _take(credential, planned)
    for step in planned:
        say(step.done if step in missing else step.already)


def _take(credential: Credential, planned: Sequence[Step]) -> list[Step]:
    """Take the steps in one bulk, and return the steps that were taken. If Hasura refuses the bulk because a step was
    taken before, it is sent again without this step."""
    engine = Engine(credential)
    missing = list(planned)
    while missing:
        try:
            engine.bulk([step.call for step in missing])
            break
        except Refused as error:
            step = missing[error.index] if error.index is not None and error.index < len(missing) else None
            if step is None or error.code != _ALREADY[step.call["type"]]:
                raise _refusal(credential, step, error) from error
            missing.remove(step)
    return missing


def _refusal(credential: Credential, step: Step | None, error: Refused) -> StateError:
    what = "the calls" if step is None else f"{step.call['type']} ({step.done.partition(':')[0]})"
    hint = ""
    if error.code in _OTHER_DATABASE:
        hint = (
            f"; source {credential.source!r} in {credential.path} must be the name that Hasura has for this very "
            "database"
        )
    return StateError(f"{credential.url} refuses {what}, and nothing was changed: {error.code}: {error.detail}{hint}")


def is_readable(connection: Connection, version: Version) -> bool:
    """Whether the reader role has the privilege to read the tracked tables; True if there is no such role."""
    names = [version.name(part) for part in (*TABLES, "rollups")]
    row = connection.execute(_MAY_READ, (names, READER)).fetchone()
    return row is None or bool(row[0])


def untracked(version: Version, where: Schemas, tracked: Tracked) -> list[str]:
    """Return the ticks table and the candles function if Hasura does not track them, as texts like ``table
    public.a``."""
    table = Name(where.tables, version.ticks_table)
    function = Name(where.function, version.candles_function)
    missing = [] if table in tracked.tables else [f"table {'.'.join(table)}"]
    return missing if function in tracked.functions else [*missing, f"function {'.'.join(function)}"]

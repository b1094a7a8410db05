"""A stand-in for Hasura, which no package registry has. It is not Hasura: it knows only what Hasura's documentation of
the metadata API says of seven calls, and the codes of their errors. It refuses what the documentation does not allow,
looks up tables and functions in the real database, and serves no GraphQL.

https://hasura.io/docs/2.0/api-reference/metadata-api/index/ and .../api-reference/syntax-defs/
"""

from __future__ import annotations

import contextlib
import copy
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import psycopg

SUCCESS = {"message": "success"}
# The members of the args of each call, and those of them that are required.
ARGS: dict[str, tuple[set[str], set[str]]] = {
    "pg_track_table": ({"table", "configuration", "source"}, {"table"}),
    "pg_track_function": ({"function", "configuration", "source", "comment"}, {"function"}),
    "pg_create_select_permission": (
        {"table", "role", "permission", "comment", "source"},
        {"table", "role", "permission"},
    ),
    "pg_create_function_permission": ({"function", "role", "source"}, {"function", "role"}),
}


class Refusal(Exception):
    def __init__(self, code: str, error: str, path: str, status: int = 400) -> None:
        super().__init__(error)
        self.status = status
        self.body = {"path": path, "error": error, "code": code}


@dataclass
class Metadata:
    """What is tracked, by ``schema.name``; permissions by that and the role."""

    tables: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)
    selects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    calls: set[tuple[str, str]] = field(default_factory=set)


class StandIn:
    def __init__(self, database: str, admin_secret: str) -> None:
        self._database = database
        self._admin_secret = admin_secret
        self.metadata = Metadata()
        self.requests: list[dict[str, Any]] = []
        self.url = ""

    def answer(self, secret: str | None, kind: str | None, body: bytes) -> tuple[int, Any]:
        try:
            if secret != self._admin_secret:
                text = 'invalid "x-hasura-admin-secret"/"x-hasura-access-key"'
                raise Refusal("access-denied", text, "$", 401)
            if kind != "application/json":
                raise Refusal("parse-failed", "the content type is not application/json", "$")
            query = json.loads(body)
            self.requests.append(query)
            changed = copy.deepcopy(self.metadata)
            result = self._run(changed, query, "$")
            self.metadata = changed  # all calls of a bulk take effect, or none
            return 200, result
        except Refusal as refusal:
            return refusal.status, refusal.body

    def _run(self, metadata: Metadata, query: Any, path: str) -> Any:
        _conform(query, {"type", "args", "version", "resource_version"}, {"type", "args"}, path)
        if query["type"] == "bulk":
            return [self._run(metadata, each, f"{path}.args[{n}]") for n, each in enumerate(query["args"])]
        if query["type"] == "export_metadata":
            _conform(query["args"], set(), set(), path)
            exported = _exported(metadata)
            return {"resource_version": 1, "metadata": exported} if query.get("version") == 2 else exported
        if query["type"] not in ARGS:
            raise Refusal("parse-failed", f"unknown metadata command {query['type']!r}", f"{path}.type")
        path = f"{path}.args"
        _conform(query["args"], *ARGS[query["type"]], path)
        args = query["args"]
        if args.get("source", "default") != "default":
            raise Refusal("not-exists", f'source with name "{args["source"]}" does not exist', path)
        getattr(self, f"_{query['type']}")(metadata, args, path)
        return SUCCESS

    def _pg_track_table(self, metadata: Metadata, args: Any, path: str) -> None:
        name = _qualified(args["table"])
        if name in metadata.tables:
            raise Refusal("already-tracked", f'view/table already tracked: "{name}"', path)
        if self._row("SELECT to_regclass(%s) IS NOT NULL", name) != (True,):
            raise Refusal("not-exists", f'no such table/view exists in source: "{name}"', path)
        metadata.tables.add(name)

    def _pg_track_function(self, metadata: Metadata, args: Any, path: str) -> None:
        name = _qualified(args["function"])
        if name in metadata.functions:
            raise Refusal("already-tracked", f'function already tracked: "{name}"', path)
        if self._returned(name, path) not in metadata.tables:
            raise Refusal("not-supported", f'the function "{name}" does not return SETOF a tracked table', path)
        metadata.functions.add(name)

    def _pg_create_select_permission(self, metadata: Metadata, args: Any, path: str) -> None:
        name, role = _qualified(args["table"]), args["role"]
        if name not in metadata.tables:
            raise Refusal("not-exists", f'table "{name}" does not exist', f"{path}.table")
        if (name, role) in metadata.selects:
            text = f'select permission already defined on table "{name}" with role "{role}"'
            raise Refusal("already-exists", text, path)
        metadata.selects[name, role] = args["permission"]

    def _pg_create_function_permission(self, metadata: Metadata, args: Any, path: str) -> None:
        name, role = _qualified(args["function"]), args["role"]
        if name not in metadata.functions:
            raise Refusal("not-exists", f'function "{name}" does not exist', f"{path}.function")
        if (name, role) in metadata.calls:
            text = f'permission of role "{role}" already exists for function "{name}" in source: "default"'
            raise Refusal("already-exists", text, path)
        if (self._returned(name, path), role) not in metadata.selects:
            text = f'function permission needs the select permission of role "{role}" on the table that it returns'
            raise Refusal("not-supported", text, path)
        metadata.calls.add((name, role))

    def _returned(self, function: str, path: str) -> str:
        row = self._row(
            "SELECT relnamespace::regnamespace || '.' || relname FROM pg_proc JOIN pg_class ON reltype = prorettype "
            "WHERE pronamespace::regnamespace || '.' || proname = %s AND proretset",
            function,
        )
        if row is None:
            raise Refusal("not-exists", f'no such function exists in source: "{function}"', path)
        return str(row[0])

    def _row(self, query: str, name: str) -> Any:
        with psycopg.connect(self._database) as connection:
            return connection.execute(query, (name,)).fetchone()  # type: ignore[call-overload]


def _exported(metadata: Metadata) -> dict[str, Any]:
    """The metadata as the documentation of export_metadata shows it, without the connection string."""
    tables = [
        {
            "table": _parts(name),
            "select_permissions": [
                {"role": role, "permission": permission}
                for (table, role), permission in sorted(metadata.selects.items())
                if table == name
            ],
        }
        for name in sorted(metadata.tables)
    ]
    functions = [
        {
            "function": _parts(name),
            "permissions": [{"role": role} for function, role in sorted(metadata.calls) if function == name],
        }
        for name in sorted(metadata.functions)
    ]
    source = {"name": "default", "kind": "postgres", "tables": tables, "functions": functions, "configuration": {}}
    return {"version": 3, "sources": [source]}


def _parts(name: str) -> dict[str, str]:
    schema, _, own = name.partition(".")
    return {"schema": schema, "name": own}


def _conform(value: dict[str, Any], members: set[str], required: set[str], path: str) -> None:
    if not required <= value.keys() <= members:
        raise Refusal("parse-failed", f"{path} has the members {sorted(value)}", path)


def _qualified(name: Any) -> str:
    if isinstance(name, str):
        return f"public.{name}"
    return f"{name.get('schema', 'public')}.{name['name']}"


@contextlib.contextmanager
def serving(database: str, admin_secret: str) -> Iterator[StandIn]:
    """The stand-in on a free port of loopback."""
    hasura = StandIn(database, admin_secret)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, content = 404, {"path": "$", "error": "resource does not exist", "code": "not-found"}
            if self.path == "/v1/metadata":
                headers = self.headers
                status, content = hasura.answer(headers["X-Hasura-Admin-Secret"], headers["Content-Type"], body)
            encoded = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Content-Length", str(len(encoded)))
            self.end_headers()
            self.wfile.write(encoded)

        def log_message(self, *_arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hasura.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="stand-in-hasura")
        thread.start()
        try:
            yield hasura
        finally:
            server.shutdown()
            thread.join()

"""Builds a server's results and errors in the form that each revision requires. Uses no stream and no thread."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from cardapp.errors import FieldError
from cardapp.mcp.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, Id, Request, is_id
from cardapp.mcp.revisions import (
    CLIENT_CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    LATEST_HANDSHAKE,
    META,
    NEWEST_FIRST,
    PROGRESS_TOKEN,
    PROTOCOL_VERSION_KEY,
    REVISIONS,
    SERVER_INFO_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
    Revision,
)
from cardapp.mcp.tool import Tool, ToolFailure
from cardapp.mcp.tool_schema import ToolSchema, UnusableSchema

METHODS = {
    "handshake": frozenset({"initialize", "ping", "tools/list", "tools/call"}),
    "stateless": frozenset({"server/discover", "tools/list", "tools/call"}),
}
BEFORE_INITIALIZE = frozenset({"initialize", "ping"})

# The tools do not change while the process runs, so a client may cache the list for an hour, about the length of a
# session. The scope is "private", because a session belongs to one user.
CACHE_HINTS = {"ttlMs": 3_600_000, "cacheScope": "private"}

FAILURE = {
    "description": "The tool's failure, with isError.",
    "type": "object",
    "properties": {"code": {"type": "string"}, "reason": {"type": "string"}},
    "required": ["code", "reason"],
}


class Refusal(Exception):
    """Raised when a request must be answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Protocol:
    """Computes the answers of a server to the methods of the protocol."""

    def __init__(self, name: str, version: str, tools: Sequence[Tool], instructions: str = "") -> None:
        """Check the tools.

        :raises ValueError: two tools have the same name, or a schema is not of type object.
        :raises UnusableSchema: a schema is not valid.
        """
        self._info = {"name": name, "version": version}
        self._instructions = {"instructions": instructions} if instructions else {}
        self.tools = {tool.name: tool for tool in tools}
        if len(self.tools) != len(tools):
            raise ValueError("two tools have the same name")
        for tool in tools:
            if not tool.input_schema.get("type") == tool.output_schema.get("type") == "object":
                raise ValueError(f"both schemas of {tool.name} must be of type object")
        self._inputs = {tool.name: ToolSchema(tool.input_schema) for tool in tools}
        for tool in tools:
            ToolSchema(tool.output_schema)  # raises if no client could use the schema

    def revision_of(self, request: Request, negotiated: Revision | None) -> Revision:
        """Returns the revision of a request, and checks that the request's method may be called now.

        :raises Refusal: the revision or the method is unknown, ``_meta`` is incomplete, or the peer has not sent
            ``initialize``, which the revision requires.
        """
        meta = request.params.get(META, {})
        if not isinstance(meta, dict):
            raise Refusal(INVALID_PARAMS, "_meta must be an object")
        token = meta.get(PROGRESS_TOKEN)
        if token is not None and not is_id(token):
            raise Refusal(INVALID_PARAMS, "progressToken must be a string or an integer")
        if request.method != "initialize" and PROTOCOL_VERSION_KEY in meta:
            revision = _declared(meta)
        elif request.method == "server/discover":
            raise Refusal(INVALID_PARAMS, f"_meta needs {PROTOCOL_VERSION_KEY}")
        else:
            revision = negotiated or LATEST_HANDSHAKE
        if request.method not in METHODS[revision.lifecycle]:
            raise Refusal(METHOD_NOT_FOUND, f"Method not found: {request.method}")
        if revision.lifecycle == "handshake" and negotiated is None and request.method not in BEFORE_INITIALIZE:
            raise Refusal(INVALID_PARAMS, f"send initialize first, or {PROTOCOL_VERSION_KEY} in _meta")
        return revision

    def initialize(self, request: Request, negotiated: Revision | None) -> tuple[Revision, dict[str, Any]]:
        """Returns the negotiated revision and the ``InitializeResult``. The negotiated revision is the one that the
        client asks for, if it is known and has the handshake; otherwise the latest revision that has the handshake.

        :raises Refusal: the connection is already initialized, or the parameters are wrong.
        """
        if negotiated is not None:
            raise Refusal(INVALID_REQUEST, f"already initialized with {negotiated.name}")
        asked, capabilities = request.params.get("protocolVersion"), request.params.get("capabilities")
        if not isinstance(asked, str) or not isinstance(capabilities, dict):
            raise Refusal(INVALID_PARAMS, "initialize needs protocolVersion (a string) and capabilities (an object)")
        if not _is_implementation(request.params.get("clientInfo")):
            raise Refusal(INVALID_PARAMS, "clientInfo needs name and version, both strings")
        revision = REVISIONS.get(asked, LATEST_HANDSHAKE)
        if revision.lifecycle != "handshake":
            revision = LATEST_HANDSHAKE
        return revision, {
            "protocolVersion": revision.name,
            "capabilities": {"tools": {}},
            "serverInfo": self._info,
            **self._instructions,
        }

    def discover(self, revision: Revision) -> dict[str, Any]:
        """The ``DiscoverResult``. It lists all revisions: a connection also accepts those with the handshake."""
        body = {"supportedVersions": list(NEWEST_FIRST), "capabilities": {"tools": {}}, **self._instructions}
        return self.complete(revision, {**body, **CACHE_HINTS})

    def list_tools(self, request: Request, revision: Revision) -> dict[str, Any]:
        """The ``ListToolsResult``: all tools on one page, in the order of the constructor's argument.

        :raises Refusal: the request has a cursor, although this server gives none.
        """
        if request.params.get("cursor") is not None:
            raise Refusal(INVALID_PARAMS, "unknown cursor: all tools are on one page")
        tools = [_describe(tool, revision) for tool in self.tools.values()]
        hints = CACHE_HINTS if revision.lifecycle == "stateless" else {}
        return self.complete(revision, {"tools": tools, **hints})

    def tool_and_arguments(self, request: Request) -> tuple[Tool, dict[str, Any]]:
        """The tool and the arguments of a ``tools/call``.

        :raises Refusal: there is no such tool, or the arguments are not an object.
        """
        name, arguments = request.params.get("name"), request.params.get("arguments", {})
        if not isinstance(name, str):
            raise Refusal(INVALID_PARAMS, "name must be a string")
        if name not in self.tools:
            raise Refusal(INVALID_PARAMS, f"Unknown tool: {name}", {"known": list(self.tools)})
        if not isinstance(arguments, dict):
            raise Refusal(INVALID_PARAMS, "arguments must be an object")
        return self.tools[name], arguments

    def check_arguments(self, tool: Tool, arguments: dict[str, Any], revision: Revision) -> None:
        """Validate the arguments.

        :raises ToolFailure, Refusal: the arguments are not valid. ``revision`` decides which of the two is raised.
        """
        try:
            faults = self._inputs[tool.name].faults(arguments)
        except UnusableSchema as why:
            raise Refusal(INVALID_PARAMS, f"the arguments cannot be validated: {why}") from why
        if not faults:
            return
        errors = [{"pointer": fault.pointer, "message": fault.message} for fault in faults]
        reason = f"arguments of {tool.name}: {_sentence(faults)}"
        if revision.argument_errors_are_results:
            raise ToolFailure("invalid_arguments", reason, errors=errors)
        raise Refusal(INVALID_PARAMS, reason, {"errors": errors})

    def success(self, revision: Revision, structured: dict[str, Any]) -> dict[str, Any]:
        """A ``CallToolResult``. Its text is ``structured`` as JSON, because older revisions have only the text.

        :raises ValueError, TypeError: ``structured`` is not JSON.
        """
        return self._call_result(revision, None, structured)

    def failure(self, revision: Revision, failure: ToolFailure) -> dict[str, Any]:
        """A ``CallToolResult`` with ``isError``. :raises ValueError, TypeError: the failure's data are not JSON."""
        return self._call_result(revision, failure.reason, failure.structured)

    def _call_result(self, revision: Revision, reason: str | None, structured: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps(structured, ensure_ascii=False, allow_nan=False)
        content = [{"type": "text", "text": text if reason is None else reason}]
        result: dict[str, Any] = {"content": content, "isError": reason is not None}
        if revision.structured:
            result["structuredContent"] = structured
        return self.complete(revision, result)

    def complete(self, revision: Revision, result: dict[str, Any]) -> dict[str, Any]:
        """Returns ``result`` with the members that a stateless revision requires in every result: the result's type and
        the server's name. For a revision with the handshake, returns ``result`` unchanged."""
        if revision.lifecycle == "handshake":
            return result
        return {"resultType": "complete", **result, META: {SERVER_INFO_KEY: self._info}}


def progress_params(
    revision: Revision, token: Id, done: float, total: float | None, message: str | None
) -> dict[str, Any]:
    """The parameters of ``notifications/progress``."""
    params: dict[str, Any] = {"progressToken": token, "progress": done}
    if total is not None:
        params["total"] = total
    if message is not None and revision.progress_message:
        params["message"] = message
    return params


def _declared(meta: dict[str, Any]) -> Revision:
    name = meta[PROTOCOL_VERSION_KEY]
    if not isinstance(name, str):
        raise Refusal(INVALID_PARAMS, f"{PROTOCOL_VERSION_KEY} must be a string")
    if not isinstance(meta.get(CLIENT_CAPABILITIES_KEY), dict):
        raise Refusal(INVALID_PARAMS, f"_meta needs {CLIENT_CAPABILITIES_KEY}, an object")
    if CLIENT_INFO_KEY in meta and not _is_implementation(meta[CLIENT_INFO_KEY]):
        raise Refusal(INVALID_PARAMS, f"{CLIENT_INFO_KEY} needs name and version, both strings")
    revision = REVISIONS.get(name)
    if revision is None or revision.lifecycle != "stateless":
        data = {"supported": list(NEWEST_FIRST), "requested": name}
        raise Refusal(UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", data)
    return revision


def _is_implementation(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("name"), str) and isinstance(value.get("version"), str)


def _describe(tool: Tool, revision: Revision) -> dict[str, Any]:
    described = {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
    if revision.structured:
        described |= {"title": tool.title, "outputSchema": _result_or_failure(tool.output_schema)}
    return described


def _result_or_failure(output_schema: dict[str, Any]) -> dict[str, Any]:
    """The output schema that clients see. It accepts a result of the tool and also a failure of the tool.

    The protocol applies the output schema to both, and some clients drop a failure that does not match it.
    """
    whole = {name: part for name, part in output_schema.items() if name in ("$schema", "$defs")}
    result = {name: part for name, part in output_schema.items() if name not in whole}
    return whole | {"type": "object", "anyOf": [result, FAILURE]}


def _sentence(faults: tuple[FieldError, ...]) -> str:
    return "; ".join(f"{fault.pointer or 'the arguments'}: {fault.message}" for fault in faults)

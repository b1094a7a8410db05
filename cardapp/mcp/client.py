"""An MCP client for one server. It negotiates the revision, calls tools and validates their results."""

from __future__ import annotations

import contextlib
import os
import reprlib
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cardapp import procfs, unix_socket
from cardapp.errors import FieldError, McpClosed, McpProtocolError
from cardapp.mcp.jsonrpc import Notification
from cardapp.mcp.negotiation import negotiate
from cardapp.mcp.revisions import META, Lifecycle, request_meta
from cardapp.mcp.rpc_client import OnProgress, RpcClient
from cardapp.mcp.tool_schema import ToolSchema, UnusableSchema, peer_schema
from cardapp.mcp.transport import Stream, Transport

CheckResult = Callable[[str, Any], tuple[FieldError, ...]]
"""Takes the name of a tool and its structured result; returns the faults of the result."""

CLIENT_INFO = {"name": "cardapp", "version": "1"}
MAX_PAGES = 100
"""Maximum number of pages of a server's list of tools. A server with a longer list is refused."""
MAX_TOOLS = 5000
"""Maximum number of tools that a server may list."""


@dataclass(frozen=True)
class ToolResult:
    """The result of a tool call. ``is_error`` is true if the tool failed. If it is false, ``structured`` is valid."""

    structured: Any
    is_error: bool
    text: str


class McpClient:
    """A connection to one server. Any thread may use it until either side closes it."""

    def __init__(
        self,
        reader: Stream,
        writer: Stream,
        *,
        timeout: float = 10.0,
        client_info: dict[str, Any] | None = None,
        check_result: CheckResult | None = None,
        probe: bool = True,
    ) -> None:
        """Negotiate with the server over two streams that have file descriptors. Both may be the same socket. The
        client closes them.

        If ``check_result`` is given, it validates the structured results, and the server's output schemas are not used.
        The client then does not ask for the list of tools. If ``probe`` is false, the client does not send the probe
        ``server/discover`` first, but starts with the handshake.

        :raises McpTimeout, McpClosed, McpRemoteError, McpProtocolError: the negotiation failed or took longer than
            ``timeout`` seconds. The streams are closed.
        """
        self.peer_pid, self.peer_start = _peer(writer)
        self._info = client_info or CLIENT_INFO
        self._check_result = check_result
        self._listing = threading.Lock()
        self._stale = threading.Event()
        self._stale.set()
        self._tools: list[dict[str, Any]] = []
        self._outputs: dict[str, ToolSchema] = {}
        self._rpc = RpcClient(Transport(reader, writer))
        self.closed = self._rpc.closed
        """This event is set when either side has ended the connection."""
        try:
            agreement = negotiate(self._rpc, self._info, timeout, probe=probe)
        except BaseException:
            self._rpc.close()
            raise
        self._revision = agreement.revision
        self.server_info = agreement.server_info
        """The name and version that the server reports. They are not verified: only show them."""
        self._rpc.answers_requests = self._revision.lifecycle == "handshake"
        self._rpc.on_notification = self._notified

    @classmethod
    def connect(
        cls,
        path: str | os.PathLike[str],
        *,
        timeout: float = 10.0,
        client_info: dict[str, Any] | None = None,
        check_result: CheckResult | None = None,
    ) -> McpClient:
        """Connect to the server on the Unix socket ``path``, in at most ``timeout`` seconds.

        Early versions of the reference implementation's server close the connection when they receive the probe. The
        client then connects again and starts with the handshake.

        :raises McpClosed: no server listens on the socket. For other errors see the constructor.
        """
        deadline = time.monotonic() + timeout

        def connect(*, probe: bool) -> McpClient:
            connected = _connected(path, deadline - time.monotonic())
            left = deadline - time.monotonic()
            return cls(
                connected, connected, timeout=left, client_info=client_info, check_result=check_result, probe=probe
            )

        with contextlib.suppress(McpClosed):
            return connect(probe=True)
        return connect(probe=False)

    @property
    def lifecycle(self) -> Lifecycle:
        """``handshake`` (revisions up to 2025-11-25) or ``stateless`` (later revisions)."""
        return self._revision.lifecycle

    @property
    def revision(self) -> str:
        """The name of the revision in use."""
        return self._revision.name

    def call_tool(
        self,
        name: str,
        arguments: dict[str, Any],
        *,
        timeout: float,
        maximum: float,
        on_progress: OnProgress | None = None,
        cancel: threading.Event | None = None,
    ) -> ToolResult:
        """Call a tool and wait for its result.

        At most ``timeout`` seconds may pass between two progress messages, and ``maximum`` seconds in all.
        ``on_progress`` is called in this thread. When ``cancel`` is set, the wait ends and the server is notified.

        :raises McpTimeout, McpCancelled, McpClosed: the wait ended without a result.
        :raises McpRemoteError: the server answered with an error.
        :raises McpProtocolError: the result violates the protocol, or ``check_result`` found faults; if there is no
            ``check_result``, the result does not match the tool's output schema.
        """
        deadline = time.monotonic() + maximum
        output = None if self._check_result else self._output_schema(name, min(timeout, maximum), cancel)
        result = self._request(
            "tools/call",
            {"name": name, "arguments": arguments},
            timeout=timeout,
            maximum=deadline - time.monotonic(),
            on_progress=on_progress,
            cancel=cancel,
        )
        found = _tool_result(name, result, output)
        if self._check_result is not None and not found.is_error:
            _refuse(name, self._check_result(name, found.structured), "what this client expects")
        return found

    def list_tools(self, *, timeout: float = 10.0) -> list[dict[str, Any]]:
        """All tools of the server, as the server describes them."""
        with self._listing:
            self._refresh(timeout)
            return list(self._tools)

    def ping(self, *, timeout: float = 5.0) -> None:
        """Wait for an answer of the server to ``ping``, or to ``server/discover`` if the revision is stateless."""
        self._request("ping" if self.lifecycle == "handshake" else "server/discover", {}, timeout=timeout)

    def close(self) -> None:
        """Close the connection; pending calls fail with :class:`McpClosed`. Idempotent."""
        self._rpc.close()

    def _request(self, method: str, params: dict[str, Any], *, timeout: float, **waiting: Any) -> dict[str, Any]:
        meta = request_meta(self._revision, self._info)
        result = self._rpc.request(method, {**params, META: meta} if meta else params, timeout=timeout, **waiting)
        kind = result.get("resultType", "complete")
        if kind == "input_required":
            raise McpProtocolError(f"{method}: the server asks for further input, which this client does not support")
        if kind != "complete":
            raise McpProtocolError(f"{method}: the result has the unknown type {reprlib.repr(kind)}")
        return result

    def _notified(self, notification: Notification) -> None:
        if notification.method == "notifications/tools/list_changed":
            self._stale.set()

    def _output_schema(self, name: str, timeout: float, cancel: threading.Event | None) -> ToolSchema | None:
        """The compiled output schema of a tool; None if it has none, or if the server does not list the tool."""
        with self._listing:
            if self._stale.is_set():
                self._refresh(timeout, cancel)
            if name not in self._outputs:
                schema = next((tool.get("outputSchema") for tool in self._tools if tool["name"] == name), None)
                if schema is None:
                    return None
                try:
                    self._outputs[name] = peer_schema(schema)
                except UnusableSchema as why:
                    raise McpProtocolError(f"the output schema of {name} cannot be used: {why}") from why
            return self._outputs[name]

    def _refresh(self, timeout: float, cancel: threading.Event | None = None) -> None:
        # Cleared before the request, because a change during the request must mark the new list as stale.
        self._stale.clear()
        try:
            self._tools, self._outputs = self._fetch_tools(time.monotonic() + timeout, cancel), {}
        except BaseException:
            self._stale.set()
            raise

    def _fetch_tools(self, deadline: float, cancel: threading.Event | None) -> list[dict[str, Any]]:
        tools: list[dict[str, Any]] = []
        cursors: set[str] = set()
        params: dict[str, Any] = {}
        while True:
            result = self._request("tools/list", params, timeout=deadline - time.monotonic(), cancel=cancel)
            page, cursor = result.get("tools"), result.get("nextCursor")
            if not isinstance(page, list) or not all(_is_tool(tool) for tool in page):
                raise McpProtocolError("tools/list: tools must be a list of objects with a name")
            tools += page
            if len(tools) > MAX_TOOLS:
                raise McpProtocolError(f"tools/list: more than {MAX_TOOLS} tools")
            if cursor is None:
                return tools
            if not isinstance(cursor, str) or cursor in cursors or len(cursors) == MAX_PAGES:
                raise McpProtocolError("tools/list: the list of tools does not end")
            cursors.add(cursor)
            params = {"cursor": cursor}


def _connected(path: str | os.PathLike[str], timeout: float) -> socket.socket:
    """Connect a socket. :raises McpClosed: no server accepts the connection within ``timeout`` seconds."""
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connected.settimeout(max(0.001, timeout))  # 0 would mean non-blocking
        with unix_socket.pinned(path) as pinned:
            connected.connect(pinned)
        connected.settimeout(None)
    except OSError as why:
        connected.close()
        raise McpClosed(f"no MCP server listens on {path}: {why.strerror or why}") from why
    return connected


def _is_tool(tool: Any) -> bool:
    return isinstance(tool, dict) and isinstance(tool.get("name"), str)


def _tool_result(name: str, result: dict[str, Any], output: ToolSchema | None) -> ToolResult:
    content, is_error = result.get("content"), result.get("isError", False)
    if not isinstance(content, list) or not isinstance(is_error, bool):
        raise McpProtocolError(f"{name}: content must be a list and isError a boolean")
    texts = [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
    structured = result.get("structuredContent")
    # The output schema is not applied to a failure, because a failure has other members.
    if output is not None and not is_error:
        if "structuredContent" not in result:
            raise McpProtocolError(f"{name}: the tool has an output schema, but the result has no structuredContent")
        try:
            _refuse(name, output.faults(structured), "the tool's output schema")
        except UnusableSchema as why:
            raise McpProtocolError(f"{name}: the result cannot be validated by its output schema: {why}") from why
    return ToolResult(structured, is_error, "\n".join(texts))


def _refuse(name: str, faults: tuple[FieldError, ...], rule: str) -> None:
    if faults:
        detail = f"{name}: the result does not match {rule} at {faults[0].pointer or 'its root'}"
        raise McpProtocolError(f"{detail}: {faults[0].message}", errors=faults)


def _peer(stream: Stream) -> tuple[int | None, int | None]:
    """Pid and start time of the process at the other end of a Unix socket; None for other streams."""
    if not isinstance(stream, socket.socket) or stream.family != socket.AF_UNIX:
        return None, None
    pid, _uid = unix_socket.peer(stream)
    return pid, procfs.start_time(pid)

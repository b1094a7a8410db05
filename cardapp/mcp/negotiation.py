"""Finds the era and the revision of a server (source: revision 2026-07-28, stdio, "Backward Compatibility").

The client first sends the probe ``server/discover``. A modern server answers with a result or with the error -32022.
After any other error, or if there is no answer, the client sends the ``initialize`` handshake of the older revisions.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from cardapp.errors import McpProtocolError, McpRemoteError, McpTimeout
from cardapp.mcp.revisions import (
    LATEST_HANDSHAKE,
    LATEST_MODERN,
    META,
    NEWEST_FIRST,
    SERVER_INFO_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
    Revision,
    newest_common,
    request_meta,
)
from cardapp.mcp.rpc_client import RpcClient

PROBE_SHARE = 0.4
"""The client waits for an answer to the probe during this part of the timeout, then sends the handshake."""


@dataclass(frozen=True)
class Agreement:
    """The negotiated revision, and the name and version that the server reports (not verified, only for display)."""

    revision: Revision
    server_info: dict[str, Any]


def negotiate(rpc: RpcClient, client_info: dict[str, Any], timeout: float, *, probe: bool = True) -> Agreement:
    """Negotiate within ``timeout`` seconds. If ``probe`` is false, start with the handshake.

    :raises McpProtocolError: there is no common revision.
    :raises McpTimeout, McpClosed, McpRemoteError: the negotiation failed.
    """
    deadline = time.monotonic() + timeout
    if probe:
        agreement = _discover(rpc, client_info, LATEST_MODERN, timeout * PROBE_SHARE)
        if agreement is not None:
            return agreement
    try:
        return _handshake(rpc, client_info, deadline - time.monotonic())
    except McpRemoteError as why:
        # A modern server that answered the probe too late, or got no probe, refuses the handshake with -32022.
        revision = newest_common(_supported(why), "modern")
        if revision is None:
            raise
        late = _discover(rpc, client_info, revision, deadline - time.monotonic())
        if late is None:
            raise
        return late


def _discover(
    rpc: RpcClient, client_info: dict[str, Any], revision: Revision, timeout: float, *, again: bool = True
) -> Agreement | None:
    """Probe the server. Returns the agreement with a modern server; None if the server needs the handshake.

    If the server refuses ``revision`` but lists another one that is known here, and ``again`` is true, try that one.

    :raises McpProtocolError: the server is modern, but there is no common revision.
    """
    try:
        meta = request_meta(revision, client_info)
        result = rpc.request("server/discover", {META: meta}, timeout=timeout)
    except McpTimeout:
        return None
    except McpRemoteError as why:
        offered = _supported(why)
        common = _choose(offered)
        if common is None:
            return None
        if not again:
            raise _no_common(offered) from why
        return _discover(rpc, client_info, common, timeout, again=False)
    offered = _listed(result.get("supportedVersions"))
    common = _choose(offered)
    if common is None:
        return None
    return Agreement(common, _object(_object(result.get(META)).get(SERVER_INFO_KEY)))


def _choose(offered: list[str]) -> Revision | None:
    """The modern revision to use with a server that offers the revisions ``offered``; None for the handshake.

    :raises McpProtocolError: this client knows none of the offered revisions.
    """
    common = newest_common(offered, "modern")
    if common is None and offered and newest_common(offered, "handshake") is None:
        raise _no_common(offered)
    return common


def _handshake(rpc: RpcClient, client_info: dict[str, Any], timeout: float) -> Agreement:
    params = {"protocolVersion": LATEST_HANDSHAKE.name, "capabilities": {}, "clientInfo": client_info}
    # The protocol does not allow this request to be cancelled.
    result = rpc.request("initialize", params, timeout=timeout, cancellable=False)
    answered = _listed([result.get("protocolVersion")])
    revision = newest_common(answered, "handshake")
    if revision is None:
        raise _no_common(answered)
    rpc.batches = revision.batches
    rpc.notify("notifications/initialized", {})
    return Agreement(revision, _object(result.get("serverInfo")))


def _supported(why: McpRemoteError) -> list[str]:
    """The revisions that the error -32022 lists; empty for other errors."""
    return _listed(_object(why.data).get("supported")) if why.rpc_code == UNSUPPORTED_PROTOCOL_VERSION else []


def _listed(value: object) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _no_common(offered: list[str]) -> McpProtocolError:
    return McpProtocolError(f"no common revision: the server supports {offered}, this client {list(NEWEST_FIRST)}")


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}

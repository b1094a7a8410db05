"""Agrees with a server on a protocol revision (source: revision 2026-07-28, stdio, "Backward Compatibility").

The client first sends the probe ``server/discover``. A server of a stateless revision answers with a result or with the
error -32022. After any other error, or without an answer, the client sends the ``initialize`` handshake of the older
revisions.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from cardapp.errors import McpProtocolError, McpRemoteError, McpTimeout
from cardapp.mcp.revisions import (
    LATEST_HANDSHAKE,
    LATEST_STATELESS,
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
"""The part of the timeout for which the client waits for an answer to the probe. Then it sends the handshake."""


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
        agreement = _discover(rpc, client_info, LATEST_STATELESS, timeout * PROBE_SHARE)
        if agreement is not None:
            return agreement
    try:
        return _handshake(rpc, client_info, deadline - time.monotonic())
    except McpRemoteError as why:
        # A server of a stateless revision refuses the handshake with -32022. The client sent it the handshake because
        # the answer to the probe came too late, or because no probe was sent.
        revision = newest_common(_supported(why), "stateless")
        if revision is None:
            raise
        late = _discover(rpc, client_info, revision, deadline - time.monotonic())
        if late is None:
            raise
        return late


def _discover(
    rpc: RpcClient, client_info: dict[str, Any], revision: Revision, timeout: float, *, again: bool = True
) -> Agreement | None:
    """Probe the server. Returns the agreement on a stateless revision, or None if the server needs the handshake.

    If the server refuses ``revision`` and lists another one that this client knows, the client probes once more with
    the other one, unless ``again`` is false.

    :raises McpProtocolError: the server answered the probe, but there is no common revision.
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
    """The stateless revision to use with a server that offers the revisions ``offered``; None for the handshake.

    :raises McpProtocolError: this client knows none of the offered revisions.
    """
    common = newest_common(offered, "stateless")
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
    return McpProtocolError(
        f"the server and this client have no common revision of the protocol: the server supports {offered}, this "
        f"client supports {list(NEWEST_FIRST)}"
    )


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}

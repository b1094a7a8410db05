"""How a client finds out which era and revision a server speaks (revision 2026-07-28, stdio, "Backward Compatibility").

``server/discover`` is asked first. Its result, or the error -32022, shows a modern server; any other error, or silence,
an older one, which gets the ``initialize`` handshake. No decision hangs on one error code of an old server.
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
"""Of the time for connecting, what a silent server may spend on the probe before it is taken for an old one."""


@dataclass(frozen=True)
class Agreement:
    """What both sides will speak, and who the server says it is (unverified; for display only)."""

    revision: Revision
    server_info: dict[str, Any]


def negotiate(rpc: RpcClient, client_info: dict[str, Any], timeout: float, *, probe: bool = True) -> Agreement:
    """Agree with the server within ``timeout`` seconds; without ``probe`` by the handshake alone.

    :raises McpProtocolError: no common revision. :raises McpTimeout, McpClosed, McpRemoteError: it got not that far.
    """
    deadline = time.monotonic() + timeout
    if probe:
        agreement = _discover(rpc, client_info, LATEST_MODERN, timeout * PROBE_SHARE)
        if agreement is not None:
            return agreement
    try:
        return _handshake(rpc, client_info, deadline - time.monotonic())
    except McpRemoteError as why:
        # A modern server after all, which now names itself: the probe was too slow for its time, or left out.
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
    """The agreement with a modern server; None for an old one, which is to be asked by handshake.

    :raises McpProtocolError: the server is modern, but shares no revision with this client.
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
    """The modern revision to use with a server that lists ``offered``; None where only the handshake is left.

    :raises McpProtocolError: it lists revisions, and none is known here.
    """
    common = newest_common(offered, "modern")
    if common is None and offered and newest_common(offered, "handshake") is None:
        raise _no_common(offered)
    return common


def _handshake(rpc: RpcClient, client_info: dict[str, Any], timeout: float) -> Agreement:
    params = {"protocolVersion": LATEST_HANDSHAKE.name, "capabilities": {}, "clientInfo": client_info}
    # The protocol forbids to cancel this one request.
    result = rpc.request("initialize", params, timeout=timeout, cancellable=False)
    answered = _listed([result.get("protocolVersion")])
    revision = newest_common(answered, "handshake")
    if revision is None:
        raise _no_common(answered)
    rpc.batches = revision.batches
    rpc.notify("notifications/initialized", {})
    return Agreement(revision, _object(result.get("serverInfo")))


def _supported(why: McpRemoteError) -> list[str]:
    """The revisions that an error -32022 lists; empty for any other error."""
    return _listed(_object(why.data).get("supported")) if why.rpc_code == UNSUPPORTED_PROTOCOL_VERSION else []


def _listed(value: object) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _no_common(offered: list[str]) -> McpProtocolError:
    return McpProtocolError(f"the server speaks {offered}, this client {list(NEWEST_FIRST)}: no revision is common")


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}

"""The protocol revisions that client and server support, with the features of each. Pure.

Source: modelcontextprotocol.io/specification/<revision>. Up to 2025-11-25 a connection starts with an ``initialize``
handshake. From 2026-07-28 on each request names its revision in ``_meta``, and the connection has no state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Era: TypeAlias = Literal["handshake", "modern"]

UNSUPPORTED_PROTOCOL_VERSION = -32022

META = "_meta"
PROGRESS_TOKEN = "progressToken"
PROTOCOL_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO_KEY = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SERVER_INFO_KEY = "io.modelcontextprotocol/serverInfo"


@dataclass(frozen=True)
class Revision:
    """One revision and its features."""

    name: str
    era: Era
    batches: bool = False
    progress_message: bool = True
    structured: bool = True
    """Whether it has titles, output schemas and ``structuredContent`` (since 2025-06-18)."""
    argument_errors_are_results: bool = True
    """Since 2025-11-25 invalid arguments are a failure of the tool, so that a model can correct them. Before, they were
    the error -32602."""


REVISIONS = {
    revision.name: revision
    for revision in (
        Revision("2024-11-05", "handshake", False, False, False, False),
        Revision("2025-03-26", "handshake", True, True, False, False),
        Revision("2025-06-18", "handshake", False, True, True, False),
        Revision("2025-11-25", "handshake"),
        Revision("2026-07-28", "modern"),
    )
}
NEWEST_FIRST = tuple(reversed(REVISIONS))
LATEST_HANDSHAKE = REVISIONS["2025-11-25"]
LATEST_MODERN = REVISIONS["2026-07-28"]


def newest_common(offered: Iterable[str], era: Era) -> Revision | None:
    """The newest revision of ``era`` that is known here and that a peer ``offered``; None if there is none."""
    common = set(offered) & set(REVISIONS)
    return next((REVISIONS[name] for name in NEWEST_FIRST if name in common and REVISIONS[name].era == era), None)


def request_meta(revision: Revision, client_info: dict[str, Any]) -> dict[str, Any]:
    """The ``_meta`` that a request of ``revision`` must carry; empty in the handshake era."""
    if revision.era == "handshake":
        return {}
    return {PROTOCOL_VERSION_KEY: revision.name, CLIENT_INFO_KEY: client_info, CLIENT_CAPABILITIES_KEY: {}}

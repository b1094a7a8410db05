"""The protocol revisions that client and server support, with the features of each.

Source: modelcontextprotocol.io/specification/<revision>. Up to 2025-11-25 a connection starts with an ``initialize``
handshake. From 2026-07-28 on the protocol is stateless: there is no handshake, and each request names its revision in
``_meta``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Lifecycle: TypeAlias = Literal["handshake", "stateless"]

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
    lifecycle: Lifecycle
    batches: bool = False
    progress_message: bool = True
    structured: bool = True
    """Whether the revision has titles, output schemas and ``structuredContent`` (since 2025-06-18)."""
    argument_errors_are_results: bool = True
    """Whether invalid arguments are reported as a failure of the tool, so that a model can correct them (since
    2025-11-25). Older revisions report them as the error -32602."""


REVISIONS = {
    revision.name: revision
    for revision in (
        Revision("2024-11-05", "handshake", False, False, False, False),
        Revision("2025-03-26", "handshake", True, True, False, False),
        Revision("2025-06-18", "handshake", False, True, True, False),
        Revision("2025-11-25", "handshake"),
        Revision("2026-07-28", "stateless"),
    )
}
NEWEST_FIRST = tuple(reversed(REVISIONS))
LATEST_HANDSHAKE = REVISIONS["2025-11-25"]
LATEST_STATELESS = REVISIONS["2026-07-28"]


def newest_common(offered: Iterable[str], lifecycle: Lifecycle) -> Revision | None:
    """The newest revision that has this ``lifecycle``, is in ``REVISIONS`` and was ``offered`` by a peer; None if there
    is none."""
    common = set(offered) & set(REVISIONS)
    return next(
        (REVISIONS[name] for name in NEWEST_FIRST if name in common and REVISIONS[name].lifecycle == lifecycle), None
    )


def request_meta(revision: Revision, client_info: dict[str, Any]) -> dict[str, Any]:
    """The ``_meta`` that a request of ``revision`` must carry; empty if the revision has the handshake."""
    if revision.lifecycle == "handshake":
        return {}
    return {PROTOCOL_VERSION_KEY: revision.name, CLIENT_INFO_KEY: client_info, CLIENT_CAPABILITIES_KEY: {}}

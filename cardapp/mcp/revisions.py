"""The protocol revisions that both ends here speak, and what each allows. Pure.

Source: modelcontextprotocol.io/specification/<revision>. Up to 2025-11-25 a connection opens with an ``initialize``
handshake; from 2026-07-28 on every request carries its revision in ``_meta`` and nothing is remembered between them.
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
    """One revision. Each flag names what came (or went) with it."""

    name: str
    era: Era
    batches: bool = False
    progress_message: bool = True
    structured: bool = True
    """Titles, output schemas and ``structuredContent`` exist (2025-06-18)."""
    argument_errors_are_results: bool = True
    """Arguments outside a tool's schema are the tool's failure, for a model to correct (2025-11-25), not -32602."""


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
    """The newest revision of ``era`` that is known here and among those a peer ``offered``, or None."""
    common = set(offered) & set(REVISIONS)
    return next((REVISIONS[name] for name in NEWEST_FIRST if name in common and REVISIONS[name].era == era), None)


def request_meta(revision: Revision, client_info: dict[str, Any]) -> dict[str, Any]:
    """The ``_meta`` that a request of ``revision`` must carry; empty in the handshake era."""
    if revision.era == "handshake":
        return {}
    return {PROTOCOL_VERSION_KEY: revision.name, CLIENT_INFO_KEY: client_info, CLIENT_CAPABILITIES_KEY: {}}

from __future__ import annotations

import mcp_types
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from cardapp.mcp import revisions
from cardapp.mcp.revisions import LATEST_HANDSHAKE, LATEST_STATELESS, NEWEST_FIRST, REVISIONS, newest_common


def test_the_revisions_are_those_that_the_reference_implementation_knows() -> None:
    by_lifecycle = {
        lifecycle: tuple(name for name, r in REVISIONS.items() if r.lifecycle == lifecycle)
        for lifecycle in ("handshake", "stateless")
    }
    assert by_lifecycle == {"handshake": HANDSHAKE_PROTOCOL_VERSIONS, "stateless": MODERN_PROTOCOL_VERSIONS}
    assert NEWEST_FIRST[0] == LATEST_STATELESS.name
    assert NEWEST_FIRST[1] == LATEST_HANDSHAKE.name


def test_names_and_codes_equal_the_reference_implementations() -> None:
    assert revisions.PROTOCOL_VERSION_KEY == mcp_types.PROTOCOL_VERSION_META_KEY
    assert revisions.CLIENT_INFO_KEY == mcp_types.CLIENT_INFO_META_KEY
    assert revisions.CLIENT_CAPABILITIES_KEY == mcp_types.CLIENT_CAPABILITIES_META_KEY
    assert revisions.SERVER_INFO_KEY == mcp_types.SERVER_INFO_META_KEY
    assert revisions.UNSUPPORTED_PROTOCOL_VERSION == mcp_types.UNSUPPORTED_PROTOCOL_VERSION


def test_batches_exist_in_one_revision_only() -> None:
    assert [name for name, revision in REVISIONS.items() if revision.batches] == ["2025-03-26"]


def test_the_newest_common_revision_of_a_lifecycle_is_chosen() -> None:
    assert newest_common(["2024-11-05", "2025-06-18", "9999-01-01"], "handshake") == REVISIONS["2025-06-18"]
    assert newest_common(["2025-06-18"], "stateless") is None
    assert newest_common([], "handshake") is None

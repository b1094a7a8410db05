"""Optimistic locking: a change may name the revision that it is based on."""

from __future__ import annotations

from typing import Any

from cardapp.errors import RevisionConflict


def expect(body: dict[str, Any], present: int) -> None:
    """Raise :class:`RevisionConflict` if the body expects another revision than the current one."""
    expected = body.get("expected_revision", present)
    if expected != present:
        raise RevisionConflict(
            f"the current revision is {present}, not {expected}: read the state again and repeat the change",
            extra={"revision": present},
        )

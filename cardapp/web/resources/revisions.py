"""Optimistic locking: a change may name the revision that it was made from."""

from __future__ import annotations

from typing import Any

from cardapp.errors import RevisionConflict


def expect(body: dict[str, Any], present: int) -> None:
    """Raise :class:`RevisionConflict` when the body expects another revision than the present one."""
    expected = body.get("expected_revision", present)
    if expected != present:
        raise RevisionConflict(
            f"the present revision is {present}, not {expected}: read the state again and repeat the change on it",
            extra={"revision": present},
        )

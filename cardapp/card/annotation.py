"""The rules of an annotation that no schema can express: its rectangle is within its part, and its points suit its
kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cardapp.errors import InvalidValue

POINTS: Mapping[str, tuple[int, int]] = {
    "box": (2, 2),
    "arrow": (2, 2),
    "underline": (2, 2),
    "marker": (2, 2),
    "callout": (1, 2),
    "freehand": (2, 500),
}
"""The least and the greatest number of points of each kind.

Box and marker: two opposite corners. Arrow and underline: begin and end. Callout: the place of the text, and the target
of its pointer. Freehand: the line.
"""

_ROUNDING = 1e-6
"""The rounding error that is tolerated in the sum of two decimal fractions."""


def check(annotation: Mapping[str, Any]) -> None:
    """Raise :class:`InvalidValue` if the annotation, which meets the schema, breaks a rule."""
    target, kind = annotation["target"], annotation["style"]["kind"]
    for start, size in (("x", "w"), ("y", "h")):
        if target[start] + target[size] > 1 + _ROUNDING:
            raise InvalidValue.of(
                f"/target/{size}", f"reaches beyond the part: {start} + {size} is more than 1, the part's size"
            )
    least, greatest = POINTS[kind]
    count = len(annotation["geometry"]["points"])
    if not least <= count <= greatest:
        wanted = f"{least}" if least == greatest else f"{least} to {greatest}"
        raise InvalidValue.of("/geometry/points", f"has {count} points; the kind {kind} needs {wanted}")
    if kind == "callout" and not annotation["text"].strip():
        raise InvalidValue.of("/text", "is empty; a callout shows its text, so give one")

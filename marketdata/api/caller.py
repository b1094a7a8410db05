"""The client of a request, as its credential identifies it; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Scope = Literal["read", "write", "any", "admin"]
"""What a route requires: a token of that scope, a token of either scope (``any``), or the administrator's secret."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The token's id, name and scope; for the administrator's secret all three are ``admin``."""

    id: str
    name: str
    scope: str

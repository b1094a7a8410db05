"""A request as a handler receives it: routed, authenticated, its query validated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from marketdata.api.auth import Caller
from marketdata.api.services import Services


@dataclass(frozen=True, slots=True)
class Request:
    """``caller`` is None where the route requires no credential. ``path`` holds the path parameters by name. ``query``
    is valid by the route's schema, with its defaults. ``environ`` is the WSGI environment, for the body and headers."""

    services: Services
    caller: Caller | None
    path: Mapping[str, str]
    query: Mapping[str, Any]
    environ: Mapping[str, Any]

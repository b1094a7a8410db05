"""One row of the route table: everything that routing, checking and the API description need to know of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cardapp.web.http import JSON, Reply, Request

Handler = Callable[[Request], Reply]
Cache = Literal["no-cache", "no-store", "immutable"]

CACHE_CONTROL: dict[Cache, str] = {
    "no-cache": "no-cache",
    "no-store": "no-store",
    "immutable": "private, max-age=31536000, immutable",
}


@dataclass(frozen=True)
class Body:
    """What a route takes. ``schema`` names a JSON object's schema; ``optional``: a missing body equals ``{}``.

    ``media_types`` other than JSON are read by the handler itself; ``schema`` then describes the form's fields.
    """

    schema: str
    optional: bool = False
    media_types: tuple[str, ...] = (JSON,)


@dataclass(frozen=True)
class Route:
    """``path`` has its parameters in braces; ``answer`` names the success schema, None for anything but JSON.

    ``problems`` are the statuses that only this route's own rules give; those of the gate and of checking are implied.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    answer: str | None = None
    status: int = 200
    produces: tuple[str, ...] = (JSON,)
    body: Body | None = None
    query: str | None = None
    problems: tuple[int, ...] = ()
    cache: Cache = "no-store"

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names in braces."""
        return tuple(re.findall(r"\{(\w+)\}", self.path))

    def statuses(self) -> tuple[int, ...]:
        """Every documented status, ascending."""
        # Every answer is made from the state, which may be on a full disk.
        found = {self.status, 403, 421, 500, 503, *self.problems}
        if self.cache == "no-cache" or self.cache == "immutable":
            found.add(304)
        if self.parameters:
            found.add(404)
        if self.body is not None:
            found |= {400, 413, 415, 422}
        # A query is checked on every route, so an unknown name is refused everywhere.
        found.add(422)
        return tuple(sorted(found))

"""A row of the route table, with all that routing, validation and the API description need."""

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
    """The request body of a route. ``schema`` names the schema of a JSON object; if ``optional``, a missing body equals
    ``{}``. The handler itself reads other ``media_types``; ``schema`` then describes the form's fields.
    """

    schema: str
    optional: bool = False
    media_types: tuple[str, ...] = (JSON,)


@dataclass(frozen=True)
class Route:
    """``path`` has its parameters in braces; ``answer`` names the schema of a successful JSON response.

    ``problems`` are the error statuses of this route's own rules; those of the gate and of validation are implied.
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
        # 500 and 503: every response reads the stored state, whose disk may fail.
        found = {self.status, 403, 421, 500, 503, *self.problems}
        if self.cache == "no-cache" or self.cache == "immutable":
            found.add(304)
        if self.parameters:
            found.add(404)
        if self.body is not None:
            found |= {400, 413, 415, 422}
        # Every route refuses unknown query parameters.
        found.add(422)
        return tuple(sorted(found))

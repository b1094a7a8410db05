"""One row of the route table: everything that routing, checking and the API description need to know of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from marketdata.api.caller import Scope
from marketdata.api.http import JSON, Headers, Reply
from marketdata.api.request import Request

Handler = Callable[[Request], Reply]


@dataclass(frozen=True)
class Body:
    """What a route takes: the schema of its JSON, and its media types."""

    schema: str
    media_types: tuple[str, ...] = (JSON,)


@dataclass(frozen=True)
class Route:
    """``path`` has its parameters in braces; ``answer`` names the success schema, None for anything but JSON.

    ``problems`` are the statuses that only this route's own rules give; those of authentication, checking and the
    database are implied. ``revalidated``: the answer carries an ETag, unless it is a stream, and a matching
    ``If-None-Match`` gives 304. ``headers``: further ones of a success, and what they say.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    answer: str | None = None
    scope: Scope | None = None
    statuses: tuple[int, ...] = (200,)
    produces: tuple[str, ...] = (JSON,)
    query: str = "NoParameters"
    body: Body | None = None
    problems: tuple[int, ...] = ()
    revalidated: bool = False
    headers: Headers = ()
    database: bool = True

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names in braces."""
        return tuple(re.findall(r"\{(\w+)\}", self.path))

    def documented(self) -> tuple[int, ...]:
        """Every status that this route may answer, ascending."""
        found = {*self.statuses, *self.problems, 422, 500}
        if self.scope is not None:
            found |= {400, 401, 403}
        if self.scope is not None or self.database:
            found.add(503)
        if self.revalidated:
            found.add(304)
        if self.parameters:
            found.add(404)
        if self.body is not None:
            found |= {400, 413, 415, 429}
        return tuple(sorted(found))

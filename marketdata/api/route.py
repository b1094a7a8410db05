"""One row of the route table: what routing, validation and the API description derive from it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from marketdata.api.auth import Scope
from marketdata.api.request import Request
from marketdata.http.reply import JSON, Headers, Reply

Handler = Callable[[Request], Reply]


@dataclass(frozen=True)
class Body:
    """The body of a request: the schema of its JSON, and its media types."""

    schema: str
    media_types: tuple[str, ...] = (JSON,)


@dataclass(frozen=True)
class Route:
    """``path`` has its parameters in braces. ``answer`` names the schema of a success, None where that is not JSON.

    ``scope`` is None where no credential is required. ``problems`` are the error statuses that only this route has;
    those of authentication, validation and the database are implied. ``revalidated``: the answer has an ETag, unless it
    is a stream, and a matching ``If-None-Match`` gets 304. ``headers``: names and descriptions of further fields of a
    success. ``database``: whether the handler queries the database. ``websocket``: the schemas of the messages that a
    client sends and receives after the upgrade.
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
    websocket: tuple[str, str] | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the path parameters."""
        return tuple(re.findall(r"\{(\w+)\}", self.path))

    def documented(self) -> tuple[int, ...]:
        """Every status that this route may answer with, ascending."""
        found = {*self.statuses, *self.problems, 422, 500}
        if self.scope is not None:
            found |= {400, 401, 403}
        if self.scope is not None or self.database:
            found |= {503, 504}
        if self.revalidated:
            found.add(304)
        if self.parameters:
            found.add(404)
        if self.body is not None:
            found |= {400, 413, 415, 429}
        return tuple(sorted(found))

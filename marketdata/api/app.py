"""The API's table of routes; routing, checking and the API description are all made from it."""

from __future__ import annotations

from functools import cache
from typing import Any

from marketdata.api import admin, health, ingest, openapi
from marketdata.api.exchange import JSON, NDJSON, PROMETHEUS, Reply, Request, answer
from marketdata.api.failures import WsgiApp
from marketdata.api.route import Body, Route
from marketdata.api.routing import routed
from marketdata.api.services import Services


def description(_request: Request) -> Reply:
    """The API description, made from the table below."""
    return answer(_described())


# fmt: off
ROUTES: tuple[Route, ...] = (
    # -- the service -----------------------------------------------------------------------------------------------
    Route("GET", "/healthz", health.healthz, "Whether the process lives", "Health", database=False),
    Route("GET", "/ready", health.ready, "Whether the database answers and holds the version", "Ready"),
    Route("GET", "/metrics", health.metrics, "Counters for Prometheus", produces=(PROMETHEUS,), database=False),
    Route("GET", "/openapi.json", description, "This description", "Description", database=False),
    # -- writing ---------------------------------------------------------------------------------------------------
    Route("POST", "/v1/ingest/tick", ingest.ingest, "Store a tick or a batch", "Ingested", scope="write",
          statuses=(200, 201), body=Body("Ingest", (JSON, NDJSON)), problems=(409, 429)),
    # -- tokens ----------------------------------------------------------------------------------------------------
    Route("GET", "/v1/admin/tokens", admin.list_tokens, "List all tokens", "Tokens", scope="admin"),
    Route("POST", "/v1/admin/tokens", admin.create_token, "Make a token", "NewToken", scope="admin", statuses=(201,),
          body=Body("TokenRequest")),
    Route("DELETE", "/v1/admin/tokens/{id}", admin.revoke_token, "Revoke a token", "Token", scope="admin",
          problems=(404,)),
)
# fmt: on


@cache
def _described() -> dict[str, Any]:
    return openapi.describe(ROUTES)


def make_app(services: Services) -> WsgiApp:
    """The API over ``services``."""
    return routed(ROUTES, services)

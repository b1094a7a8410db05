"""Each error of the service as the clients of Binance get it."""

from __future__ import annotations

import json

from marketdata import errors as e
from marketdata.api.binance_errors import AS_BINANCE
from marketdata.http.failures import InternalError, kinds_shown
from tests.marketdata.api.conftest import check_shape

AGAIN = "Internal error; unable to process your request. Please try again: why"


def test_every_error_has_the_shape() -> None:
    simple = [kind for kind in kinds_shown() if kind.__init__ is e.MarketError.__init__]
    assert len(simple) > 20
    for kind in simple:
        check_shape("BinanceError", json.loads(bytes(AS_BINANCE.reply(kind("why", extra={"scope": "read"})).body)))


def test_an_error_has_the_number_of_the_exchange() -> None:
    for error, status, code, message in [
        (InternalError("why"), 500, -1000, "An unknown error occurred while processing the request: why"),
        (e.DatabaseUnavailable("why"), 503, -1001, AGAIN),
        (e.VersionMissing("why"), 503, -1001, AGAIN),
        (e.DatabaseStalled("why"), 504, -1007, "Timeout waiting for response from backend server: why"),
        (e.TooSlow("why"), 503, -1007, "Timeout waiting for response from backend server: why"),
        (e.Saturated("why"), 429, -1003, "Too many requests: why"),
        (e.NotFound("why", code="unknown_symbol"), 400, -1121, "Invalid symbol."),
        (e.NotFound("why"), 404, -1020, "This operation is not supported: why"),
        (e.InvalidValue("why"), 400, -1130, "Data sent for a parameter is not valid: why"),
        (e.Unauthorized("why"), 401, -2015, "Invalid API-key, IP, or permissions for action: why"),
    ]:
        reply = AS_BINANCE.reply(error)
        assert (reply.status, json.loads(bytes(reply.body))) == (status, {"code": code, "msg": message})
        assert ("Retry-After" in dict(reply.headers)) == (status in (429, 503, 507)), error

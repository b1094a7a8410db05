"""Errors as Binance documents them: ``{"code": -1121, "msg": "Invalid symbol."}``."""

from __future__ import annotations

from marketdata import errors as e
from marketdata.api.routing import ErrorShape
from marketdata.http.failures import MethodNotAllowed, headers_of, status_of
from marketdata.http.reply import JSON, Reply, encode
from marketdata.store.markets import AMBIGUOUS

COMBINATION = "combination"
"""The ``rule`` of a FieldError about parameters that exclude each other."""

_UNKNOWN_SYMBOL = "unknown_symbol"
_STATUSES = {e.InvalidValue.code: 400, _UNKNOWN_SYMBOL: 400}
"""The codes that have another status here than in a problem."""

_CODES: dict[type[e.MarketError], tuple[int, str]] = {
    e.MarketError: (-1000, "An unknown error occurred while processing the request"),
    e.DatabaseUnavailable: (-1001, "Internal error; unable to process your request. Please try again"),
    e.VersionMissing: (-1001, "Internal error; unable to process your request. Please try again"),
    e.Saturated: (-1003, "Too many requests"),
    e.NotFound: (-1020, "This operation is not supported"),
    MethodNotAllowed: (-1020, "This operation is not supported"),
    e.DatabaseStalled: (-1007, "Timeout waiting for response from backend server"),
    e.TooSlow: (-1007, "Timeout waiting for response from backend server"),
    e.InvalidValue: (-1130, "Data sent for a parameter is not valid"),
    e.Pruned: (-1130, "Data sent for a parameter is not valid"),
    e.InvalidRequest: (-2014, "API-key format invalid"),
    e.Unauthorized: (-2015, "Invalid API-key, IP, or permissions for action"),
    e.Forbidden: (-2015, "Invalid API-key, IP, or permissions for action"),
}
"""A class without a row has the code of its nearest base class that has one."""

_CODES_BY_RULE: dict[str, tuple[int, str]] = {
    "pattern": (-1100, "Illegal characters found in a parameter"),
    "type": (-1100, "Illegal characters found in a parameter"),
    "required": (-1102, "A mandatory parameter was not sent, was empty/null, or malformed"),
    "additionalProperties": (-1104, "Not all sent parameters were read"),
    AMBIGUOUS: (-1121, "Invalid symbol"),
    COMBINATION: (-1128, "Combination of optional parameters invalid"),
}
"""The code of the first invalid field, by the rule that it violates."""


def _body(error: e.MarketError) -> dict[str, int | str]:
    if error.code == _UNKNOWN_SYMBOL:
        return {"code": -1121, "msg": "Invalid symbol."}
    if isinstance(error, e.InvalidValue) and error.errors:
        first = error.errors[0]
        if (first.pointer, first.rule) == ("/interval", "enum"):
            return {"code": -1120, "msg": "Invalid interval."}
        code, about = _CODES_BY_RULE.get(first.rule, _CODES[e.InvalidValue])
    else:
        code, about = next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)
    return {"code": code, "msg": f"{about}: {error.detail}"}


def _reply(error: e.MarketError) -> Reply:
    status = _STATUSES.get(error.code, status_of(type(error)))
    return Reply(encode(_body(error)), status, JSON, headers_of(error))


AS_BINANCE = ErrorShape("BinanceError", JSON, _reply, _STATUSES, below="/api/v3/")

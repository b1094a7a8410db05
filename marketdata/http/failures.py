"""Makes the reply to an error: one table from exception class to status, and one body (RFC 9457) for every error.

All errors become replies through :func:`problem`. A client never gets a traceback. It gets no message of the database
either, except messages about a function's arguments (``store/postgres_errors.py``). For a status 500 the log gets the
message and the traceback.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

from marketdata import errors as e
from marketdata.http.reply import PROBLEM, Headers, Reply, encode

log = logging.getLogger("marketdata.api")

Problem = Callable[[e.MarketError], Reply]


class BadRequest(e.MarketError):
    """The request is not valid HTTP."""

    code = "bad_request"


class MethodNotAllowed(e.MarketError):
    """The path does not support this method; the header ``Allow`` lists the supported ones."""

    code = "method_not_allowed"

    def __init__(self, detail: str, allow: str) -> None:
        super().__init__(detail)
        self.allow = allow


class UpgradeRequired(e.MarketError):
    """The path is a WebSocket endpoint: the request must ask for version 13 of that protocol."""

    code = "upgrade_required"


class HeadersTooLarge(e.MarketError):
    """The header fields of the request are larger than the limit."""

    code = "headers_too_large"


class UnknownCoding(e.MarketError):
    """The request uses a transfer coding that this service does not support."""

    code = "unknown_coding"


class InternalError(e.MarketError):
    """An internal error of the service; its log has the details."""

    code = "internal_error"


STATUS: dict[type[e.MarketError], int] = {
    e.MarketError: 500,
    BadRequest: 400,
    e.MalformedJson: 400,
    e.InvalidRequest: 400,
    e.Unauthorized: 401,
    e.Forbidden: 403,
    e.NotFound: 404,
    MethodNotAllowed: 405,
    e.Conflict: 409,
    e.TooLarge: 413,
    e.UnsupportedMediaType: 415,
    e.InvalidValue: 422,
    UpgradeRequired: 426,
    e.Saturated: 429,
    HeadersTooLarge: 431,
    UnknownCoding: 501,
    e.DatabaseUnavailable: 503,
    e.DatabaseStalled: 504,
    e.TooSlow: 503,
    e.VersionMissing: 503,
}
"""A class without a row has the status of its nearest base class that has one."""

_RETRY_SECONDS = 1
_REALM = 'Bearer realm="marketdata"'


def status_of(kind: type[e.MarketError]) -> int:
    """Returns the HTTP status of an error class."""
    return next(STATUS[base] for base in kind.__mro__ if base in STATUS)


def title_of(kind: type[e.MarketError]) -> str:
    """Returns the class name as words: "Too large" for ``TooLarge``."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", kind.__name__).capitalize()


def problem_types() -> dict[str, dict[str, Any]]:
    """Returns every problem type by the code of its error class. The ``type`` of a problem refers to one of them."""
    kinds: list[type[e.MarketError]] = [e.MarketError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    return {kind.code: _type_of(kind) for kind in sorted(kinds, key=lambda kind: kind.code)}


def _type_of(kind: type[e.MarketError]) -> dict[str, Any]:
    about = " ".join((kind.__doc__ or "").split())
    return {"title": title_of(kind), "status": status_of(kind), "description": about}


def problem(error: e.MarketError) -> Reply:
    """Returns the reply to ``error`` with ``type, title, status, detail, code``, ``errors`` and ``error.extra``.

    ``type`` refers to the error class in the API description; ``code`` may be more specific.
    """
    kind = type(error)
    status = status_of(kind)
    body = {
        **error.extra,
        "type": f"/openapi.json#/x-problem-types/{kind.code}",
        "title": title_of(kind),
        "status": status,
        "detail": error.detail,
        "code": error.code,
    }
    if error.errors:
        body["errors"] = [{"pointer": each.pointer, "message": each.message} for each in error.errors]
    return Reply(encode(body), status, PROBLEM, (("Cache-Control", "no-store"), *_headers(error, status)))


def _headers(error: e.MarketError, status: int) -> Headers:
    if isinstance(error, MethodNotAllowed):
        return (("Allow", error.allow),)
    if isinstance(error, UpgradeRequired):
        return (("Sec-WebSocket-Version", "13"),)
    if status in (429, 503):
        return (("Retry-After", str(getattr(error, "retry_after", _RETRY_SECONDS))),)
    if isinstance(error, e.Unauthorized | e.InvalidRequest | e.Forbidden):
        return (("WWW-Authenticate", challenge(error)),)
    return ()


def challenge(error: e.MarketError) -> str:
    """Returns ``WWW-Authenticate`` (RFC 6750, section 3). It contains the realm and, if credentials were sent, the
    error and the required scope."""
    if error.code == e.Unauthorized.code:
        return _REALM
    text = f'{_REALM}, error="{error.code}"'
    return f'{text}, scope="{error.extra["scope"]}"' if "scope" in error.extra else text


def problem_of(error: Exception, what: str) -> Reply:
    """Returns the reply to any exception. If ``error`` is no :class:`MarketError`, it is logged with its traceback;
    ``what`` names the request in the log."""
    if not isinstance(error, e.MarketError):
        log.error("%s failed", what, exc_info=error)
        return problem(internal_error())
    reply = problem(error)
    if reply.status == 500:
        log.error("%s: %s", what, error.detail, exc_info=error.__cause__)
        return problem(internal_error(error.code))
    return reply


def internal_error(code: str | None = None) -> InternalError:
    """Returns the error that a client gets in place of an internal one."""
    return InternalError("internal error: send the request again; the log of the service has the details", code=code)

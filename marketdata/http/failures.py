"""Makes the reply to an error: one table from exception class to status, and one body (RFC 9457) for every error.

All errors become replies through :func:`problem`. A client never gets a traceback. It gets no message of the database
either, except messages about a function's arguments (``store/postgres_errors.py``). For a status 500 the log gets the
message and the traceback.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any

from marketdata import errors as e
from marketdata.http.reply import PROBLEM, Headers, Reply, encode

log = logging.getLogger("marketdata.api")

PROBLEMS = "/problems"
"""The path of the page to which the types of problems refer."""

Statuses = Mapping[type[e.MarketError], int]
Problem = Callable[[e.MarketError], Reply]


class BadRequest(e.MarketError):
    """The request is not valid HTTP."""

    code = "bad_request"
    remedy = "Send the request by a client that keeps to HTTP/1.1. The message says what is wrong."


class MethodNotAllowed(e.MarketError):
    """The path does not support this method; the header ``Allow`` lists the supported ones."""

    code = "method_not_allowed"
    remedy = "Use a method that the header Allow lists."

    def __init__(self, detail: str, allow: str) -> None:
        super().__init__(detail)
        self.allow = allow


class UpgradeRequired(e.MarketError):
    """The path is a WebSocket endpoint: the request must ask for version 13 of that protocol."""

    code = "upgrade_required"
    remedy = "Open the address as a WebSocket."


class HeadersTooLarge(e.MarketError):
    """The header fields of the request are larger than the limit."""

    code = "headers_too_large"
    remedy = "Send fewer or shorter header fields."


class UnknownCoding(e.MarketError):
    """The request uses a transfer coding that this service does not support."""

    code = "unknown_coding"
    remedy = "Send the body with Content-Length, or chunked."


class InternalError(e.MarketError):
    """An internal error of the service; its log has the details."""

    code = "internal_error"
    remedy = "Send the request again. If it fails again, tell the people who run the service."
    narrower = (
        e.Narrower(
            "database_defect",
            "The database rejected a statement of the service.",
            "Tell the people who run the service. Its log has the statement's error.",
        ),
    )


STATUS: dict[type[e.MarketError], int] = {
    e.MarketError: 500,
    BadRequest: 400,
    e.MalformedJson: 400,
    e.MalformedGzip: 400,
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
    e.StorageUnavailable: 503,
    e.DatabaseUnavailable: 503,
    e.DiskFull: 507,
    e.DatabaseStalled: 504,
    e.TooSlow: 503,
    e.VersionMissing: 503,
}
"""A class without a row has the status of its nearest base class that has one."""

RETRIED = (429, 503, 507)
"""The statuses of replies with ``Retry-After``."""
_RETRY_SECONDS = 1
_REALM = 'Bearer realm="marketdata"'


def status_of(kind: type[e.MarketError], statuses: Statuses = STATUS) -> int:
    """Returns the HTTP status of an error class."""
    return next(statuses[base] for base in kind.__mro__ if base in statuses)


def title_of(kind: type[e.MarketError]) -> str:
    """Returns the class name as words: "Too large" for ``TooLarge``."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", kind.__name__).capitalize()


def kinds_shown(statuses: Statuses = STATUS) -> list[type[e.MarketError]]:
    """Returns the error classes that clients can get, by their code. All internal errors are one class for them, and so
    are the classes that share the code of their base."""
    kinds: list[type[e.MarketError]] = [e.MarketError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    shown = (kind for kind in kinds if _shown(kind, statuses) is kind and "code" in vars(kind))
    return sorted(shown, key=lambda kind: kind.code)


def _shown(kind: type[e.MarketError], statuses: Statuses) -> type[e.MarketError]:
    return InternalError if status_of(kind, statuses) == 500 else kind


def reference(kind: type[e.MarketError], statuses: Statuses = STATUS) -> str:
    """Returns the ``type`` of a problem: the address of its error class on the page of problems. The API and the
    frontend have that page at the same path, so a problem of the API refers to it through the frontend, too."""
    return f"{PROBLEMS}#{_shown(kind, statuses).code}"


def about(kind: type[e.MarketError]) -> str:
    """Returns what an error of this class means: the class' docstring in one line."""
    return " ".join((kind.__doc__ or "").split())


def statuses_of_codes() -> dict[str, int]:
    """Returns every code that clients can get, with its status."""
    return {code: status_of(kind) for kind in kinds_shown() for code in (kind.code, *(n.code for n in kind.narrower))}


def problem_types() -> dict[str, dict[str, Any]]:
    """Returns the error classes that clients can get, for the API description."""
    return {kind.code: _type_of(kind) for kind in kinds_shown()}


def _type_of(kind: type[e.MarketError]) -> dict[str, Any]:
    return {
        "title": title_of(kind),
        "status": status_of(kind),
        "description": about(kind),
        "remedy": kind.remedy,
        "codes": {each.code: f"{each.about} {each.remedy}" for each in kind.narrower},
    }


def problem(error: e.MarketError) -> Reply:
    """Returns the reply to ``error`` with ``type, title, status, detail, code``, ``errors`` and ``error.extra``.

    ``type`` refers to the error class; ``code`` may be more specific.
    """
    kind = type(error)
    status = status_of(kind)
    body = {
        **error.extra,
        "type": reference(kind),
        "title": title_of(kind),
        "status": status,
        "detail": error.detail,
        "code": error.code,
    }
    if error.errors:
        body["errors"] = [{"pointer": each.pointer, "message": each.message} for each in error.errors]
    return Reply(encode(body), status, PROBLEM, headers_of(error))


def headers_of(error: e.MarketError) -> Headers:
    """Returns the header fields of a reply to ``error``, whatever its body is."""
    return (("Cache-Control", "no-store"), *_headers(error, status_of(type(error))))


def _headers(error: e.MarketError, status: int) -> Headers:
    if isinstance(error, MethodNotAllowed):
        return (("Allow", error.allow),)
    if isinstance(error, e.UnsupportedMediaType) and error.accepted_coding is not None:
        return (("Accept-Encoding", error.accepted_coding),)  # RFC 9110, section 12.5.3
    if isinstance(error, UpgradeRequired):
        return (("Sec-WebSocket-Version", "13"),)
    if status in RETRIED:
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
    """Returns the reply to any exception. ``what`` names the request in the log."""
    return problem(shown_error(error, what))


def shown_error(error: Exception, what: str) -> e.MarketError:
    """Returns the error that a client gets in place of any exception, and logs an internal one. ``what`` names the
    request in the log."""
    if not isinstance(error, e.MarketError):
        log.error("%s failed", what, exc_info=error)
        return internal_error()
    if status_of(type(error)) == 500:
        log.error("%s: %s", what, error.detail, exc_info=error.__cause__)
        return internal_error(error.code)
    return error


def internal_error(code: str | None = None) -> InternalError:
    """Returns the error that a client gets in place of an internal one with this code."""
    if code not in {each.code for each in InternalError.narrower}:
        code = None
    return InternalError("internal error: send the request again; the log of the service has the details", code=code)

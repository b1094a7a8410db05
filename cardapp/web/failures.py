"""Turns errors into responses. One table has the statuses, and all bodies have the same form (RFC 9457).

:func:`problem` makes the response for the router's 404 and 405, the gate's refusals, the domain's errors, internal
errors (500), and requests that the listener cannot parse. A traceback is logged and never sent.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import Any

from cardapp import errors as e
from cardapp.web.http import PROBLEM, Reply, StartResponse, WsgiApp, encode, send

log = logging.getLogger("cardapp.web")


class BadRequest(e.CardAppError):
    """The request is not valid HTTP, or its form cannot be read."""

    code = "bad_request"


class MethodNotAllowed(e.CardAppError):
    """The path exists but does not support the method; ``Allow`` lists the supported ones."""

    code = "method_not_allowed"

    def __init__(self, detail: str, allow: str) -> None:
        super().__init__(detail)
        self.allow = allow


class HeadersTooLarge(e.CardAppError):
    """The request's headers are larger than the limit."""

    code = "headers_too_large"


class UnknownCoding(e.CardAppError):
    """The service does not support the transfer coding of the request."""

    code = "unknown_coding"


class TooManyBodies(e.CardAppError):
    """The request bodies that are arriving exceed the total size that the service keeps at once. Repeat the request
    after the seconds in ``Retry-After``."""

    code = "too_many_bodies"


class ForeignUser(e.CardAppError):
    """Another account of this machine made the connection. Only the service's account and root may use the service
    (``CARD_API_PEERS``)."""

    code = "foreign_user"


class ForeignSession(e.CardAppError):
    """The request comes from a container whose session is not the chosen one."""

    code = "foreign_session"


class UpgradeRequired(e.CardAppError):
    """The path is a WebSocket endpoint, and the request is not a handshake."""

    code = "upgrade_required"


class TooManyConnections(e.CardAppError):
    """The limit of open WebSocket connections is reached."""

    code = "too_many_connections"


class InternalError(e.CardAppError):
    """An internal error of the service; its log has the details."""

    code = "internal_error"


STATUS: dict[type[e.CardAppError], int] = {
    e.CardAppError: 500,
    BadRequest: 400,
    e.MalformedJson: 400,
    ForeignUser: 403,
    ForeignSession: 403,
    e.ForbiddenOrigin: 403,
    e.NotFound: 404,
    MethodNotAllowed: 405,
    e.Conflict: 409,
    e.TooLarge: 413,
    e.UnsupportedMediaType: 415,
    e.WrongHost: 421,
    e.InvalidValue: 422,
    UpgradeRequired: 426,
    HeadersTooLarge: 431,
    e.InvalidCard: 500,
    UnknownCoding: 501,
    e.DebuggerFailed: 502,
    e.McpError: 502,
    e.SessionUnavailable: 503,
    e.EditorUnavailable: 503,
    e.MissingRequirement: 503,
    e.StateError: 503,
    TooManyBodies: 503,
    TooManyConnections: 503,
    e.McpClosed: 503,
    e.TooSlow: 504,
    e.McpTimeout: 504,
}
"""An error has the status of its nearest base class in this table, so a subclass needs a row only if it differs."""

RETRY_SECONDS = 1
"""The value of ``Retry-After`` when too many bodies are arriving."""


def status_of(kind: type[e.CardAppError]) -> int:
    """The HTTP status of a class of errors."""
    return next(STATUS[base] for base in kind.__mro__ if base in STATUS)


def title_of(kind: type[e.CardAppError]) -> str:
    """The class's name in words: "Level not syncable" for ``LevelNotSyncable``."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", kind.__name__).capitalize()


def problem_types() -> dict[str, dict[str, Any]]:
    """All types of problems by code. The member ``type`` of a problem response refers to one of them."""
    kinds: list[type[e.CardAppError]] = [e.CardAppError]
    for kind in kinds:
        kinds += kind.__subclasses__()
    return {kind.code: _type_of(kind) for kind in sorted(kinds, key=lambda kind: kind.code)}


def _type_of(kind: type[e.CardAppError]) -> dict[str, Any]:
    about = " ".join((kind.__doc__ or "").split())
    return {"title": title_of(kind), "status": status_of(kind), "description": about}


def problem(error: e.CardAppError) -> Reply:
    """The response for ``error``, with ``type, title, status, detail, code``, ``errors`` and the members in its
    ``extra``.

    ``type`` refers to the error's class in the API description; ``code`` may be more specific.
    """
    kind = type(error)
    status = status_of(kind)
    body = {
        **error.extra,
        "type": f"/api/openapi.json#/x-problem-types/{kind.code}",
        "title": title_of(kind),
        "status": status,
        "detail": error.detail,
        "code": error.code,
    }
    if error.errors:
        body["errors"] = [{"pointer": each.pointer, "message": each.message} for each in error.errors]
    headers: tuple[tuple[str, str], ...] = (("Cache-Control", "no-store"),)
    if isinstance(error, MethodNotAllowed):
        headers += (("Allow", error.allow),)
    elif isinstance(error, TooManyBodies):
        headers += (("Retry-After", str(RETRY_SECONDS)),)
    return Reply(encode(body), status, PROBLEM, headers)


def problem_of(error: Exception, what: str) -> Reply:
    """The response for any exception. If it is not a CardAppError, its traceback is logged; ``what`` names the
    request."""
    if isinstance(error, e.CardAppError):
        reply = problem(error)
        if reply.status == 500 or isinstance(error, e.StateError):
            log.error("%s: %s", what, error.detail)
        return reply
    log.error("%s failed", what, exc_info=error)
    return problem(InternalError("an internal error occurred: repeat the request, or see the log of the service"))


def reporting(app: WsgiApp) -> WsgiApp:
    """Returns ``app`` with a handler of exceptions, which answers them with problem responses."""

    def reported(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        try:
            return app(environ, start_response)
        except Exception as error:
            what = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']!r}"
            return send(problem_of(error, what), start_response, bare=environ["REQUEST_METHOD"] == "HEAD")

    return reported

"""The errors of the frontend and their responses: one table of statuses, and one body (RFC 9457) for all errors."""

from __future__ import annotations

import http
import logging
import math

from marketdata import errors as e
from marketdata.frontend.pages import HTML, message
from marketdata.http import failures
from marketdata.http.failures import MethodNotAllowed, title_of
from marketdata.http.reply import PROBLEM, Headers, Reply, encode

log = logging.getLogger("marketdata.frontend")

CHALLENGE = ("WWW-Authenticate", 'Basic realm="marketdata", charset="UTF-8"')
CHALLENGE_WITHOUT_PROMPT = ("WWW-Authenticate", 'X-Basic realm="marketdata"')
"""Browsers do not know this scheme, so they show no prompt. The page shows its login form instead."""


class LoginRequired(e.MarketError):
    """There are no credentials, or they are wrong."""

    code = "login_required"


class TooManyTries(e.MarketError):
    """Too many wrong passwords came from this address, or for this user; ``retry_after`` is in seconds."""

    code = "too_many_tries"

    def __init__(self, seconds: float) -> None:
        super().__init__("too many wrong passwords: try again later")
        self.retry_after = max(1, math.ceil(seconds))


class ForeignOrigin(e.MarketError):
    """A page of another origin sent the request."""

    code = "foreign_origin"


class WrongHost(e.MarketError):
    """The Host header does not name this frontend."""

    code = "wrong_host"


class UpstreamFailed(e.MarketError):
    """The data API cannot be reached, or its response cannot be used."""

    code = "upstream_failed"


class UpstreamSlow(e.MarketError):
    """The data API did not respond in time."""

    code = "upstream_slow"


class Busy(e.MarketError):
    """Too many requests wait for the data API, or for their login."""

    code = "busy"
    retry_after = 1


class LoginUnavailable(e.MarketError):
    """The users' file cannot be used, so nobody can log in."""

    code = "login_unavailable"
    retry_after = 5


class DataUnavailable(e.MarketError):
    """The file of the read token cannot be used, so nobody can read data."""

    code = "data_unavailable"
    retry_after = 5


STATUS: dict[type[e.MarketError], int] = failures.STATUS | {
    LoginRequired: 401,
    ForeignOrigin: 403,
    WrongHost: 421,
    TooManyTries: 429,
    UpstreamFailed: 502,
    Busy: 503,
    LoginUnavailable: 503,
    DataUnavailable: 503,
    UpstreamSlow: 504,
}
"""The statuses of the data API, and those of the frontend's own errors. An error has the status of its nearest base
class in the table."""


def problem_of(error: Exception, what: str, challenge: tuple[str, str] = CHALLENGE, *, as_page: bool = False) -> Reply:
    """The reply to any exception. ``challenge`` is the header of a 401. With ``as_page``, the body is a page instead of
    JSON.

    An unexpected exception is logged as a failure of ``what``; the reply does not contain its text.
    """
    if not isinstance(error, e.MarketError):
        log.error("%s failed", what, exc_info=error)
        error = e.MarketError("internal error: the log of the frontend has the details", code="internal_error")
    status = next(STATUS[base] for base in type(error).__mro__ if base in STATUS)
    title = http.HTTPStatus(status).phrase if type(error) is e.MarketError else title_of(type(error))
    headers = (("Cache-Control", "no-store"), *_headers(error, challenge))
    if as_page:
        text = f"{error.detail[:1].upper()}{error.detail[1:]}."
        return Reply(message(title, text, "Log in" if status == 401 else "To the chart"), status, HTML, headers)
    body = {"type": "about:blank", "title": title, "status": status, "detail": error.detail, "code": error.code}
    return Reply(encode(body), status, PROBLEM, headers)


def refusal(error: e.MarketError) -> Reply:
    """The reply to a request that the listener refuses."""
    return problem_of(error, "a request")


def _headers(error: e.MarketError, challenge: tuple[str, str]) -> Headers:
    if isinstance(error, LoginRequired):
        return (challenge,)
    if isinstance(error, MethodNotAllowed):
        return (("Allow", error.allow),)
    seconds = getattr(error, "retry_after", None)
    return () if seconds is None else (("Retry-After", str(seconds)),)

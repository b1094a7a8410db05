"""The errors of the frontend and their responses: one table of statuses, and one body (RFC 9457) for all errors."""

from __future__ import annotations

import logging
import math
from functools import cache

from marketdata import errors as e
from marketdata.frontend.pages import message
from marketdata.http import failures
from marketdata.http.failures import InternalError, MethodNotAllowed, reference, title_of
from marketdata.http.problem_page import problem_page
from marketdata.http.reply import HTML, PROBLEM, Headers, Reply, encode

log = logging.getLogger("marketdata.frontend")

CHALLENGE = ("WWW-Authenticate", 'Basic realm="marketdata", charset="UTF-8"')
CHALLENGE_WITHOUT_PROMPT = ("WWW-Authenticate", 'X-Basic realm="marketdata"')
"""Browsers do not know this scheme, so they show no prompt. The page shows its login form instead."""


class LoginRequired(e.MarketError):
    """There are no credentials, or they are wrong."""

    code = "login_required"
    remedy = "Log in with your user name and password. bin/marketdata-user passwd sets a new password."


class TooManyTries(e.MarketError):
    """Too many wrong passwords came from this address, or for this user."""

    code = "too_many_tries"
    remedy = "Wait the seconds in Retry-After before the next try."

    def __init__(self, seconds: float) -> None:
        super().__init__("too many wrong passwords: try again later")
        self.retry_after = max(1, math.ceil(seconds))


class ForeignOrigin(e.MarketError):
    """A page of another origin sent the request."""

    code = "foreign_origin"
    remedy = "Open the page at the address of the frontend. MARKET_FRONTEND_ORIGINS lists its further addresses."


class WrongHost(e.MarketError):
    """The Host header does not name this frontend."""

    code = "wrong_host"
    remedy = "Use an address that MARKET_FRONTEND_ORIGINS lists, or a loopback address."


class UpstreamFailed(e.MarketError):
    """The data API cannot be reached, or its response cannot be used."""

    code = "upstream_failed"
    remedy = "Try again in a moment. The people who run the frontend must check API_UPSTREAM if this lasts."
    narrower = (
        e.Narrower(
            "upstream_refused",
            "The data API refuses the read token of the frontend.",
            "The people who run the frontend must put a valid token into read.json.",
        ),
    )


class UpstreamSlow(e.MarketError):
    """The data API did not respond in time."""

    code = "upstream_slow"
    remedy = "Try again later, or ask for less data at a time."


class Busy(e.MarketError):
    """Too many requests wait for the data API, or for their login."""

    code = "busy"
    remedy = "Try again after the seconds in Retry-After."
    retry_after = 1


class LoginUnavailable(e.MarketError):
    """The users' file cannot be used, so nobody can log in."""

    code = "login_unavailable"
    remedy = "The people who run the frontend must repair frontend.json. Its log names the fault."
    retry_after = 5


class DataUnavailable(e.MarketError):
    """The file of the read token cannot be used, so nobody can read data."""

    code = "data_unavailable"
    remedy = "The people who run the frontend must repair read.json. Its log names the fault."
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

    A fault of the frontend itself is logged as a failure of ``what``. The reply does not contain its text, which may
    name files.
    """
    if not isinstance(error, e.MarketError) or _is_own_fault(error):
        log.error("%s failed", what, exc_info=error)
        error = InternalError("internal error: the log of the frontend has the details")
    status = failures.status_of(type(error), STATUS)
    title = title_of(type(error))
    headers = (("Cache-Control", "no-store"), *_headers(error, challenge))
    if as_page:
        text = f"{error.detail[:1].upper()}{error.detail[1:]}."
        return Reply(message(title, text, "Log in" if status == 401 else "To the chart"), status, HTML, headers)
    body = {
        "type": reference(type(error), STATUS),
        "title": title,
        "status": status,
        "detail": error.detail,
        "code": error.code,
    }
    return Reply(encode(body), status, PROBLEM, headers)


def _is_own_fault(error: e.MarketError) -> bool:
    """Whether the frontend is at fault. An InternalError has a text for clients already."""
    return failures.status_of(type(error), STATUS) == 500 and not isinstance(error, InternalError)


@cache
def explained() -> bytes:
    """The page to which the types of problems refer. It has those of the data API, too."""
    return problem_page(STATUS)


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

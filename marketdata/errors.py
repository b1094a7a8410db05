"""The exceptions of the market-data service.

A package that calls a driver translates the driver's exceptions to these classes, for example in
``store/postgres_errors.py``. Each class has a stable ``code`` in snake_case. An instance may replace the code by a
narrower one. The message gives the cause and a remedy. An exception about invalid fields also has their JSON pointers.
``http/failures.py`` maps the classes to HTTP statuses, and ``cli.py`` maps them to exit codes. ``http/problem_page.py``
shows each code that a client can get, with the class' docstring and ``remedy``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self


@dataclass(frozen=True)
class FieldError:
    """An invalid field: its JSON pointer ("" is the whole document) and a message. ``rule`` is the keyword of JSON
    Schema that the field violates, or "" for another rule."""

    pointer: str
    message: str
    rule: str = ""


class Narrower(NamedTuple):
    """A code that says more than the code of the error's class."""

    code: str
    about: str
    remedy: str


class MarketError(Exception):
    """The base class. ``detail`` is the message; ``extra`` has further members of the HTTP problem body."""

    code = "error"
    remedy = "Tell the people who run the service. Its log has the reason."
    narrower: tuple[Narrower, ...] = ()
    """The codes that instances may have instead of ``code``."""

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        errors: tuple[FieldError, ...] = (),
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        if code is not None:
            self.code = code
        self.errors = errors
        self.extra = dict(extra or {})


# -- the request -----------------------------------------------------------------------------------------------------


class MalformedJson(MarketError):
    """The body is not valid JSON."""

    code = "malformed_json"
    remedy = "Send one JSON document in UTF-8. The message says where reading it failed."


class MalformedGzip(MarketError):
    """The body cannot be unpacked, though its Content-Encoding is gzip."""

    code = "malformed_gzip"
    remedy = "Pack the whole body with gzip, or send it without Content-Encoding."


class InvalidValue(MarketError):
    """A value does not match its schema, or is out of range."""

    code = "invalid_value"
    remedy = "Correct the fields that `errors` lists. GET /openapi.json describes each field."
    narrower = (
        Narrower(
            "too_many_subscriptions",
            "The connection has the maximum of subscriptions.",
            "Unsubscribe from one, or open another connection.",
        ),
    )

    @classmethod
    def of(cls, pointer: str, message: str) -> Self:
        """The error for one invalid field."""
        return cls(f"{pointer} {message}", errors=(FieldError(pointer, message),))


class TooLarge(MarketError):
    """The body or the batch is larger than its limit."""

    code = "too_large"
    remedy = "Send fewer items at a time."

    @classmethod
    def body(cls, most: int) -> Self:
        """The error for a body of more than ``most`` bytes."""
        return cls(f"the body is larger than {most} bytes: send it in parts")


class UnsupportedMediaType(MarketError):
    """The route does not accept the body's media type, charset or coding."""

    code = "unsupported_media_type"
    remedy = "Send one of the media types that GET /openapi.json lists for the path."
    accepted_coding: str | None = None
    """If the coding is the reason: the one that is accepted."""


class NotFound(MarketError):
    """The resource does not exist."""

    code = "not_found"
    remedy = "Check the address. GET /openapi.json lists every path."
    narrower = (
        Narrower("unknown_symbol", "No symbol has this name.", "GET /v1/symbols lists all symbols."),
        Narrower("unknown_token", "No token has this id.", "GET /v1/admin/tokens lists all tokens."),
        Narrower(
            "not_subscribed",
            "This connection has no such subscription.",
            "Name symbol, interval and time zone as in `subscribe`.",
        ),
    )


# -- authentication --------------------------------------------------------------------------------------------------


class InvalidRequest(MarketError):
    """The Authorization header is not ``Bearer <token68>``, or is repeated (RFC 6750, section 3.1)."""

    code = "invalid_request"
    remedy = "Send the header once, as `Authorization: Bearer TOKEN`."


class Unauthorized(MarketError):
    """There are no credentials, or the token is not valid."""

    code = "unauthorized"
    remedy = "Send a token as `Authorization: Bearer TOKEN`. bin/marketdata-token create makes one."
    narrower = (
        Narrower(
            "invalid_token",
            "The token is malformed, unknown, expired or revoked.",
            "Use another token. bin/marketdata-token create makes one.",
        ),
    )


class Forbidden(MarketError):
    """The token is valid, but the route requires another scope."""

    code = "insufficient_scope"
    remedy = "Use a token of the scope that `scope` names."


# -- state -----------------------------------------------------------------------------------------------------------


class Conflict(MarketError):
    """The request conflicts with stored data."""

    code = "conflict"
    remedy = "Read what is stored, and decide what to send."
    narrower: tuple[Narrower, ...] = (
        Narrower(
            "tick_conflict",
            "Another tick with this id is stored, and stored ticks never change.",
            "Send the tick with an id of its own.",
        ),
        Narrower(
            "retracted",
            "The block of the tick was retracted.",
            "If the block is part of the chain again, send `restore` first.",
        ),
        Narrower(
            "lease_held",
            "Another holder has the lease, which `holder` names.",
            "Wait until the lease expires or is released.",
        ),
    )


PRUNED_UNTIL = "pruned_until"
"""The member of a problem ``pruned`` that has the line in milliseconds."""


class Pruned(Conflict):
    """The ticks that this needs, or would change, were pruned: only their candles are kept."""

    code = "pruned"
    remedy = (
        "`pruned_until` is the line (milliseconds). Ask for times from the line on, or for candles of `1m` or longer, "
        "which are kept. Nothing can be stored or removed before the line any more."
    )
    narrower = ()


# -- the service and its database ------------------------------------------------------------------------------------


class Saturated(MarketError):
    """The service has too much work."""

    code = "saturated"
    remedy = "Send the request again after the seconds in Retry-After."
    narrower = (
        Narrower(
            "missed",
            "More has changed than a WebSocket could send.",
            "Read the range again, from /v1/chart or /v1/ticks.",
        ),
    )
    retry_after = 1
    """The value of Retry-After in seconds."""


class StorageUnavailable(MarketError):
    """The service could not keep the body in a file. Nothing of it was stored."""

    code = "storage_unavailable"
    remedy = "Send the request again later. If this lasts, tell the people who run the service."
    retry_after = 5


class DatabaseUnavailable(MarketError):
    """The database does not answer, or closed the connection. The request was not acknowledged."""

    code = "database_unavailable"
    remedy = "Send the request again after the seconds in Retry-After. A tick is stored once."
    retry_after = 1


class DatabaseStalled(DatabaseUnavailable):
    """The database accepted the request and did not react within the deadline. The request was not acknowledged."""

    code = "database_stalled"
    remedy = "Send the request again later. A tick that was stored is a duplicate then."


class DatabaseExhausted(DatabaseUnavailable):
    """The database is out of memory or connections, or the pool had no free connection for too long."""

    code = "database_exhausted"
    remedy = "Send the request again later. If this lasts, the people who run the service must make room."
    retry_after = 5


class DiskFull(DatabaseExhausted):
    """A file system is full, which the message names. Nothing can be stored until there is room. The status is 507 for
    a request that writes, and 503 for one that reads."""

    code = "disk_full"
    remedy = "Send the request again later. The people who run the service must make room on the file system."


class PartlyStored(DatabaseUnavailable):
    """A part of the batch is stored: its symbols are on several nodes, and one of these does not answer. ``accepted``,
    ``duplicates`` and ``refused`` count the items that are stored or were refused."""

    code = "partly_stored"
    remedy = "Send the whole batch again later. The ticks that are stored are duplicates then."


class Contended(DatabaseUnavailable):
    """The transaction conflicted with another one (SQLSTATE class 40). Send the request again."""

    code = "contended"
    remedy = "Send the request again. It was not stored."


class TooSlow(MarketError):
    """A statement reached its time limit and was cancelled."""

    code = "too_slow"
    remedy = "Ask for less data at a time."


class VersionMissing(MarketError):
    """The database lacks the table or the function of the version to serve."""

    code = "version_missing"
    remedy = (
        "Send the request again later. The people who run the service must make the version: bin/marketdata-version N."
    )


class DatabaseDefect(MarketError):
    """The database rejected a statement. Either this program has a defect, or somebody else changed the schema."""

    code = "database_defect"


DATABASE_ERRORS = (DatabaseUnavailable, TooSlow, VersionMissing, DatabaseDefect)
"""The classes whose ``__cause__`` may be an error of the driver."""

_ATTEMPT = "- host: "
"""If the driver tried several hosts, its error has a line for each host. Such a line starts with this text."""


def reason(error: MarketError) -> str:
    """The driver's message if the driver caused the error, else the detail.

    The result is for operators and not for clients, because it names the database's host. It does not contain
    PostgreSQL's DETAIL and CONTEXT, which may quote stored values. It contains no password either, because libpq writes
    none into its errors.
    """
    cause: BaseException | None = error
    while isinstance(cause, MarketError):
        cause = cause.__cause__
    if cause is None:
        return error.detail
    lines = str(cause).strip().splitlines() or [type(cause).__name__]
    attempts = [line.removeprefix("- ") for line in lines if line.startswith(_ATTEMPT)]
    return "; ".join(attempts or lines[:1])


# -- the provider of a chain -----------------------------------------------------------------------------------------


class ProviderError(MarketError):
    """The provider of a chain gave no usable answer, even after retries."""

    code = "provider"
    suggested: int | None = None
    """The number of blocks that the provider says it accepts."""

    @property
    def may_be_too_large(self) -> bool:
        """Whether a smaller range may succeed. A refusal of unknown meaning is treated as "too many blocks"."""
        return self.code in ("range_refused", "call_refused")


class RangeRefused(ProviderError):
    """The provider refuses a range of blocks as too large. ``suggested`` is the number of blocks that the provider
    says it accepts, or None if it names no number."""

    code = "range_refused"

    def __init__(self, detail: str, suggested: int | None = None) -> None:
        super().__init__(detail)
        self.suggested = suggested


# -- the process -----------------------------------------------------------------------------------------------------


class Stopped(MarketError):
    """The work was given up because the process ends."""

    code = "stopped"


class UsageError(MarketError):
    """Wrong arguments or settings (exit code 2)."""

    code = "usage"


class MissingRequirement(MarketError):
    """A required program or file is missing (exit code 3)."""

    code = "missing"


class StateError(MarketError):
    """Existing files or data cannot be used, for example because of another major version or a lock (exit code 1)."""

    code = "state"


class AlreadyRunning(MarketError):
    """Another process does this work; the message names it (exit code 4)."""

    code = "already_running"

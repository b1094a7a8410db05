"""Everything that can go wrong in the market-data service, as one tree.

Domain code raises these; a driver's own exceptions are translated where the driver is called (``store/pool.py``). Each
class carries a stable snake_case ``code`` (an instance may narrow it), a sentence for people that says why and what to
do next, and, where a field is at fault, its JSON pointer. The web maps classes to statuses in one table, the command
line to exit codes in another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class FieldError:
    """One field at fault: a JSON pointer into what was sent ("" is the whole) and what is wrong with it."""

    pointer: str
    message: str


class MarketError(Exception):
    """Root of the tree. ``detail`` says why and the way out; ``extra`` holds further members of a problem body."""

    code = "error"

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


# -- what was sent -------------------------------------------------------------------------------------------------


class MalformedJson(MarketError):
    """The body is not JSON, or not of the form that the route takes."""

    code = "malformed_json"


class InvalidValue(MarketError):
    """A value is outside its schema or its range."""

    code = "invalid_value"

    @classmethod
    def of(cls, pointer: str, message: str) -> Self:
        """One field at fault."""
        return cls(f"{pointer} {message}", errors=(FieldError(pointer, message),))


class TooLarge(MarketError):
    """A body is larger than its limit."""

    code = "too_large"

    @classmethod
    def body(cls, most: int) -> Self:
        """Of a body of more than ``most`` bytes."""
        return cls(f"the body is larger than {most} bytes: send it in parts")


class UnsupportedMediaType(MarketError):
    """The body's media type is not one that the route takes."""

    code = "unsupported_media_type"


class NotFound(MarketError):
    """The thing asked for does not exist (``unknown_symbol``, an unknown token, a path)."""

    code = "not_found"


# -- who asks ------------------------------------------------------------------------------------------------------


class InvalidRequest(MarketError):
    """The Authorization header is no ``Bearer <token68>``, or is there twice (RFC 6750, section 3.1)."""

    code = "invalid_request"


class Unauthorized(MarketError):
    """No credentials, or (code ``invalid_token``) a token that cannot be used, whatever the reason."""

    code = "unauthorized"


class Forbidden(MarketError):
    """The token is good, its scope is not the one that the route wants."""

    code = "insufficient_scope"


# -- state ---------------------------------------------------------------------------------------------------------


class Conflict(MarketError):
    """The request is sound, the state of things forbids it (``tick_conflict``, ``lease_held``, ``exists``)."""

    code = "conflict"


# -- the service's own condition -----------------------------------------------------------------------------------


class Saturated(MarketError):
    """More work is queued than the service takes; ``retry_after`` is in seconds."""

    code = "saturated"
    retry_after = 1


class DatabaseUnavailable(MarketError):
    """The database does not answer, or cut the connection. Nothing of the request was acknowledged."""

    code = "database_unavailable"
    retry_after = 1


class DatabaseExhausted(DatabaseUnavailable):
    """The database answers, and is out of disk, memory or connections; or our own pool is empty for too long."""

    code = "database_exhausted"
    retry_after = 5


class Contended(DatabaseUnavailable):
    """A transaction met another one (SQLSTATE class 40); the same request can be sent again as it is."""

    code = "contended"


class TooSlow(MarketError):
    """A statement ran into its time limit and was cancelled."""

    code = "too_slow"


class VersionMissing(MarketError):
    """The version to serve (its tables or its function) is not in the database."""

    code = "version_missing"


class DatabaseDefect(MarketError):
    """The database refused a statement of ours: a defect of this program or a foreign change to its schema."""

    code = "database_defect"


# -- the process ---------------------------------------------------------------------------------------------------


class UsageError(MarketError):
    """Wrong arguments or settings (exit code 2)."""

    code = "usage"


class MissingRequirement(MarketError):
    """A program or file that is needed is not there (exit code 3); the text names it and how to get it."""

    code = "missing"


class StateError(MarketError):
    """What is on disk or in the database cannot be used as it is (another major version, a newer schema, a lock)."""

    code = "state"

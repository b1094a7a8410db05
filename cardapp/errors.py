"""The exception classes of the card application.

Where a driver is called, the driver's exceptions are translated into these. Each class has a stable snake_case
``code``; an instance may have a more specific one. The message gives the cause and the remedy. ``errors`` names the
invalid fields by JSON pointer. ``web/failures.py`` maps the classes to HTTP statuses, ``cli.py`` to exit codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

MAX_PEER_TEXT = 2000
"""An error message that a peer may have written is cut after this number of characters."""


@dataclass(frozen=True)
class FieldError:
    """An invalid field: its JSON pointer ("" is the whole document) and what is wrong with it."""

    pointer: str
    message: str


class CardAppError(Exception):
    """Base class. ``extra`` has further members of the problem body.

    ``detail`` gives the cause, then the remedy. It begins in lower case and has no final period, because callers put it
    into a longer sentence.
    """

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


# -- the input -----------------------------------------------------------------------------------------------------


class MalformedJson(CardAppError):
    """The body is not JSON, or not a JSON object."""

    code = "malformed_json"


class InvalidValue(CardAppError):
    """A value does not meet its schema, or names something that the card does not have."""

    code = "invalid_value"

    @classmethod
    def of(cls, pointer: str, message: str) -> Self:
        """The error of a single field."""
        return cls(f"{pointer} {message}", errors=(FieldError(pointer, message),))


class CommandNotAllowed(InvalidValue):
    """A strategy has a gdb command that is not allowed, or one that would assign or call."""

    code = "command_not_allowed"


class InvalidCard(InvalidValue):
    """A card's source file is invalid; ``errors`` lists all faults."""

    code = "invalid_card"


class NoCard(InvalidCard):
    """There is no card at the given path."""

    code = "no_card"


class InvalidLayout(InvalidValue):
    """A layout file is invalid; ``errors`` lists all faults."""

    code = "invalid_layout"


class NoLayout(InvalidLayout):
    """There is no layout with the given id or path."""

    code = "unknown_layout"


class TooLarge(CardAppError):
    """A body is larger than its limit."""

    code = "too_large"


class UnsupportedMediaType(CardAppError):
    """The route does not accept the body's media type."""

    code = "unsupported_media_type"


class NotFound(CardAppError):
    """The resource that the path names does not exist."""

    code = "not_found"


# -- access --------------------------------------------------------------------------------------------------------


class ForbiddenOrigin(CardAppError):
    """A web page of another origin sent the request."""

    code = "forbidden_origin"


class WrongHost(CardAppError):
    """The Host header does not name this service."""

    code = "wrong_host"


# -- state ---------------------------------------------------------------------------------------------------------


class Conflict(CardAppError):
    """The request is valid, but the current state does not allow it."""

    code = "conflict"


class RevisionConflict(Conflict):
    """``expected_revision`` is not the current revision."""

    code = "revision_conflict"


class LearnerExists(Conflict):
    """A learner has this name already."""

    code = "learner_exists"


class LevelNotSyncable(Conflict):
    """The focus level of the position is card or task. These levels have no checkpoint."""

    code = "level_not_syncable"


class EditorSyncOff(Conflict):
    """Keyboard control of the editor requires that the editor's sync is on."""

    code = "editor_sync_off"


class EditorBlocked(Conflict):
    """Neovim waits for a key and would not answer the call before it gets one."""

    code = "editor_blocked"


class CheckpointRejected(Conflict):
    """The guard rejected the activation of a checkpoint. ``code`` says why."""

    code = "checkpoint_rejected"


class CheckpointCancelled(Conflict):
    """The activation was cancelled. The code ``superseded`` means that a newer activation replaced it."""

    code = "superseded"


class SnapshotDrift(Conflict):
    """The program reached the stop, but a value differs from the card."""

    code = "snapshot_drift"


# -- the session ---------------------------------------------------------------------------------------------------


class SessionUnavailable(CardAppError):
    """No session is selected, or the selected one does not answer."""

    code = "no_session"


class EditorUnavailable(CardAppError):
    """The session's Neovim does not run or does not answer."""

    code = "editor_unavailable"


class DebuggerFailed(CardAppError):
    """The debugger could not bring the program to the stop. The session gives the ``code``."""

    code = "debugger_failed"


class ProgramNotStopped(Conflict):
    """The program runs, has ended or was not started, so it cannot be stepped."""

    code = "program_not_stopped"


class TooSlow(CardAppError):
    """A time limit was exceeded."""

    code = "timeout"


# -- sheets --------------------------------------------------------------------------------------------------------


class TypesettingFailed(CardAppError):
    """LaTeX could not typeset a card's sheets; the message names the part of the card."""

    code = "typesetting_failed"


# -- MCP -----------------------------------------------------------------------------------------------------------


class McpError(CardAppError):
    """Base class of MCP errors. ``detail`` is shortened, because the peer may have written part of it."""

    code = "mcp_error"

    def __init__(self, detail: str, **rest: Any) -> None:
        super().__init__(detail if len(detail) <= MAX_PEER_TEXT else f"{detail[:MAX_PEER_TEXT]}…", **rest)


class McpTimeout(McpError):
    """The peer did not answer in time. The request was cancelled if the protocol allows that."""

    code = "mcp_timeout"


class McpCancelled(McpError):
    """The caller cancelled the request."""

    code = "mcp_cancelled"


class McpClosed(McpError):
    """The connection was closed; every pending request fails with this error."""

    code = "mcp_closed"


class McpProtocolError(McpError):
    """The peer sent a message that the protocol does not allow."""

    code = "mcp_protocol"


class McpRemoteError(McpError):
    """The peer answered with a JSON-RPC error; ``rpc_code`` is its error code."""

    code = "mcp_remote"

    def __init__(self, rpc_code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.rpc_code = rpc_code
        self.data = data


# -- the process ---------------------------------------------------------------------------------------------------


class UsageError(CardAppError):
    """Wrong arguments or settings (exit code 2)."""

    code = "usage"


class MissingRequirement(CardAppError):
    """A required program or file is missing (exit code 3). The message names it and says how to get it."""

    code = "missing"


class StateError(CardAppError):
    """The stored state cannot be used (a symbolic link, another instance's lock, an unknown schema version, …)."""

    code = "state"

"""Everything that can go wrong in the card application, as one tree.

Domain code raises these; a driver's own exceptions are translated where the driver is called. Each class carries a
stable snake_case ``code`` (an instance may narrow it), a sentence for people that says why and what to do next, and,
where a field is at fault, its JSON pointer. The web maps classes to statuses in one table (``web/failures.py``), the
command line to exit codes in another (``cli.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

PEER_TEXT = 2000
"""Characters of a failure's text that are kept where a peer wrote it."""


@dataclass(frozen=True)
class FieldError:
    """One field at fault: a JSON pointer into what was sent ("" is the whole) and what is wrong with it."""

    pointer: str
    message: str


class CardAppError(Exception):
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


class MalformedJson(CardAppError):
    """The body is not JSON, or not a JSON object."""

    code = "malformed_json"


class InvalidValue(CardAppError):
    """A value is outside its schema or names something that does not exist in the card."""

    code = "invalid_value"

    @classmethod
    def of(cls, pointer: str, message: str) -> Self:
        """One field at fault."""
        return cls(f"{pointer} {message}", errors=(FieldError(pointer, message),))


class InvalidCard(InvalidValue):
    """A card's source file cannot be used; ``errors`` name the places."""

    code = "invalid_card"


class NoCard(InvalidCard):
    """Where a card was named there is none."""

    code = "no_card"


class InvalidLayout(InvalidValue):
    """A layout file cannot be used; ``errors`` name the places."""

    code = "invalid_layout"


class NoLayout(InvalidLayout):
    """Where a layout was named there is none."""

    code = "unknown_layout"


class TooLarge(CardAppError):
    """A body is larger than its limit."""

    code = "too_large"


class UnsupportedMediaType(CardAppError):
    """The body's media type is not one that the route takes."""

    code = "unsupported_media_type"


class NotFound(CardAppError):
    """The thing named by the path does not exist."""

    code = "not_found"


# -- who asks ------------------------------------------------------------------------------------------------------


class ForbiddenOrigin(CardAppError):
    """A page of another origin asks."""

    code = "forbidden_origin"


class WrongHost(CardAppError):
    """The Host header does not name this service."""

    code = "wrong_host"


# -- state ---------------------------------------------------------------------------------------------------------


class Conflict(CardAppError):
    """The request is sound, the state of things forbids it."""

    code = "conflict"


class RevisionConflict(Conflict):
    """``expected_revision`` is not the current one."""

    code = "revision_conflict"


class LevelNotSyncable(Conflict):
    """The position is at the card or task level, which selects no checkpoint."""

    code = "level_not_syncable"


class EditorSyncOff(Conflict):
    """Keyboard control of the editor needs its sync."""

    code = "editor_sync_off"


class EditorBlocked(Conflict):
    """Neovim waits for a key, so the call would hang."""

    code = "editor_blocked"


class CheckpointRejected(Conflict):
    """A checkpoint's guard refused it. ``code`` is one of the typed rejections."""

    code = "checkpoint_rejected"


class CheckpointCancelled(Conflict):
    """A newer generation took the session over."""

    code = "superseded"


class SnapshotDrift(Conflict):
    """The program stands at the stop, yet a value is not the card's."""

    code = "snapshot_drift"


# -- the session ---------------------------------------------------------------------------------------------------


class SessionUnavailable(CardAppError):
    """No session is chosen, or the chosen one does not answer."""

    code = "no_session"


class EditorUnavailable(CardAppError):
    """The session has no Neovim that answers."""

    code = "editor_unavailable"


class DebuggerFailed(CardAppError):
    """The debugger could not bring the program to the stop. ``code`` is the session's own."""

    code = "debugger_failed"


class TooSlow(CardAppError):
    """Something did not answer within its bound."""

    code = "timeout"


# -- sheets --------------------------------------------------------------------------------------------------------


class TypesettingFailed(CardAppError):
    """LaTeX could not set a card's sheets; the text names the place in the card."""

    code = "typesetting_failed"


# -- MCP -----------------------------------------------------------------------------------------------------------


class McpError(CardAppError):
    """Any failure of a conversation with an MCP peer; the peer may have written a part of ``detail``, at any length."""

    code = "mcp_error"

    def __init__(self, detail: str, **rest: Any) -> None:
        super().__init__(detail if len(detail) <= PEER_TEXT else f"{detail[:PEER_TEXT]}…", **rest)


class McpTimeout(McpError):
    """A request was not answered in time. It was cancelled where the protocol allows it; a late answer is ignored."""

    code = "mcp_timeout"


class McpCancelled(McpError):
    """The caller cancelled the request."""

    code = "mcp_cancelled"


class McpClosed(McpError):
    """The peer went away; every pending request fails with this."""

    code = "mcp_closed"


class McpProtocolError(McpError):
    """The peer said something that the protocol does not allow."""

    code = "mcp_protocol"


class McpRemoteError(McpError):
    """The peer answered with a JSON-RPC error; ``rpc_code`` is its number."""

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
    """A program or file that is needed is not there (exit code 3); the text names it and how to get it."""

    code = "missing"


class StateError(CardAppError):
    """The state on disk cannot be used as it is (a symlink, another instance's lock, an unknown schema version)."""

    code = "state"

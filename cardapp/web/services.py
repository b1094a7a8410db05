"""What the handlers work with; the composition root fills it in, tests fill in stubs.

The Protocols name the calls that the web makes and nothing else. Every one may raise errors of ``cardapp.errors``,
which ``failures.py`` turns into problems; a call that must not fail says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from cardapp.card.catalog import Catalog
from cardapp.card.model import Card, Identity
from cardapp.settings import Settings
from cardapp.state.database import Connection, Database


class LoadedCard(Protocol):
    """The card as it is served now; ``path`` is its source file."""

    @property
    def card(self) -> Card: ...
    @property
    def catalog(self) -> Catalog: ...
    @property
    def identity(self) -> Identity: ...
    @property
    def path(self) -> Path: ...


class CardLoader(Protocol):
    """Holds the card, loads it again when its source changes; ``fault`` is why the file on the disk is not served."""

    @property
    def fault(self) -> str | None: ...

    def current(self) -> LoadedCard: ...

    def revision(self) -> dict[str, Any]:
        """``{revision, changed_at}`` over source, layout and code files."""
        ...


class Checkpoints(Protocol):
    """The guarded replay."""

    def status(self, conn: Connection, uuid: str) -> dict[str, Any]:
        """``{generation, active, last}`` of the card ``uuid``; the first query of a read transaction."""
        ...

    def activate(self, request: dict[str, Any]) -> dict[str, Any]:
        """Waits for the end; the finished operation when it is ``ready``, else the error that fits."""
        ...

    def sync(self, actor: str | None) -> dict[str, Any]:
        """Replays the checkpoint of the saved position; otherwise as ``activate``."""
        ...


class Control(Protocol):
    """Page synchronisation, as stored."""

    def state(self) -> dict[str, Any]:
        """The body of ``GET /api/control/state``; never asks the session."""
        ...

    def published_operation(self) -> str | None:
        """The operation that published what is shown now."""
        ...

    def switch_off(self, tx: Any, operation_id: str | None, reason: str, *, actor: str) -> bool:
        """Inside a write: SYNC goes off, with its event, unless another operation has published meanwhile."""
        ...


class Sessions(Protocol):
    """The chosen session."""

    def describe(self) -> dict[str, Any]:
        """``{binding, runtime, mcp_socket}``; ``SessionUnavailable`` without one."""
        ...

    def brief(self) -> dict[str, Any]:
        """What ``GET /api/state`` shows of it. Never raises, never waits."""
        ...


class Editor(Protocol):
    """The session's Neovim; every call is bounded in time."""

    def availability(self) -> dict[str, Any]:
        """``{available, reason}``; never raises."""
        ...

    def state(self) -> dict[str, Any]: ...
    def set_cursor(self, row: int, column: int, window: int | None) -> dict[str, Any]: ...
    def input(self, text: str) -> dict[str, Any]: ...
    def reset(self) -> dict[str, Any]: ...
    def redraw(self, cols: int | None, rows: int | None) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Services:
    """Everything a handler may use. ``clock`` gives the present as RFC 3339, UTC, milliseconds."""

    settings: Settings
    card_loader: CardLoader
    database: Database
    checkpoints: Checkpoints
    editor: Editor
    sessions: Sessions
    control: Control
    clock: Callable[[], str]
    started: float = field(default_factory=time.monotonic)

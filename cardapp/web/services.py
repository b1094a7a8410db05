"""The services that the handlers use. The composition root provides them, tests provide stubs.

Each Protocol lists only the calls that the handlers make. A call may raise errors of ``cardapp.errors``, which
``failures.py`` turns into problem replies, unless its docstring says that it never raises.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from cardapp.card.catalog import Catalog
from cardapp.card.model import Card, Identity
from cardapp.card.search import Match
from cardapp.session_client.editor_stream import EditorStream
from cardapp.settings import Settings
from cardapp.state.database import Connection, Database
from cardapp.web.live import LiveFeed


class LoadedCard(Protocol):
    """The served card; ``path`` is its source file."""

    @property
    def card(self) -> Card: ...
    @property
    def catalog(self) -> Catalog: ...
    @property
    def identity(self) -> Identity: ...
    @property
    def path(self) -> Path: ...


class CardLoader(Protocol):
    """Loads the card again when its source changes; ``fault`` says why the file on the disk is not served."""

    @property
    def fault(self) -> str | None: ...

    def current(self) -> LoadedCard: ...

    def revision(self) -> dict[str, Any]:
        """``{revision, changed_at}`` over source, layout and code files."""
        ...


class Checkpoints(Protocol):
    """The activation of checkpoints."""

    def status(self, conn: Connection, uuid: str) -> dict[str, Any]:
        """``{generation, active, last}`` of the card ``uuid``; the first query of a read transaction."""
        ...

    def fallbacks(self) -> dict[str, int]:
        """How often replays had to take a slow way since the service started, by name; does not call the session."""
        ...

    def activate(self, request: dict[str, Any]) -> Mapping[str, Any]:
        """Waits for the end. Returns the finished operation if it is ``ready``, else raises the error that fits."""
        ...

    def sync(self, actor: str | None) -> Mapping[str, Any]:
        """Activates the checkpoint of the saved position; otherwise like ``activate``."""
        ...

    def cancel(self, actor: str) -> None:
        """Cancels the activation under way and waits for its end; ``Conflict`` if there is none."""
        ...


class Control(Protocol):
    """The stored state of SYNC."""

    @property
    def reset_lock(self) -> AbstractContextManager[Any]:
        """Held while a request resets the target and switches SYNC off."""
        ...

    def state(self) -> dict[str, Any]:
        """The body of ``GET /api/control/state``, without a call to the session."""
        ...

    def published_operation(self) -> str | None:
        """The id of the operation whose result is published now."""
        ...

    def switch_off(self, tx: Any, operation_id: str | None, reason: str, *, actor: str) -> bool:
        """Switch SYNC off in the write transaction ``tx``, with its event, unless another operation has published."""
        ...


class Sheets(Protocol):
    """The card's sheets, diagrams and search."""

    def page(self, index: int) -> tuple[str, str]: ...
    def style(self) -> str: ...
    def diagram(self, key: str) -> str: ...
    def search(self, text: str) -> list[Match]: ...


class Sessions(Protocol):
    """The chosen session."""

    def describe(self) -> dict[str, Any]:
        """``{name, binding, runtime, mcp_socket, card}``; raises ``SessionUnavailable`` if there is none."""
        ...

    def brief(self) -> dict[str, Any]:
        """``{available, name, binding, reason}`` for ``GET /api/state``. Never raises."""
        ...


class Editor(Protocol):
    """The session's Neovim; every call has a timeout."""

    def availability(self) -> dict[str, Any]:
        """``{available, reason}``; never raises."""
        ...

    def state(self) -> dict[str, Any]: ...
    def set_cursor(self, row: int, column: int, window: int | None) -> dict[str, Any]: ...
    def input(self, text: str) -> dict[str, Any]: ...
    def reset(self) -> dict[str, Any]: ...
    def redraw(self, cols: int | None, rows: int | None) -> dict[str, Any]: ...

    def stream(self) -> EditorStream:
        """A new stream of the editor's UI."""
        ...


@dataclass(frozen=True)
class Services:
    """All services. ``clock`` returns the time in RFC 3339, UTC, with milliseconds."""

    settings: Settings
    card_loader: CardLoader
    database: Database
    checkpoints: Checkpoints
    editor: Editor
    sessions: Sessions
    control: Control
    sheets: Sheets
    live: LiveFeed
    clock: Callable[[], str]
    started: float = field(default_factory=time.monotonic)

"""The parts of the service that the handlers use. ``cardapp.serve`` creates them; tests replace some of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from cardapp.card_loader import CardLoader
from cardapp.publish.sheet_pages import SheetPages
from cardapp.session_client.checkpoint import Checkpoints
from cardapp.session_client.editor import Editor
from cardapp.session_client.editor_panels import EditorPanels
from cardapp.session_client.program import Program
from cardapp.session_client.series import Series
from cardapp.session_client.session_status import SessionStatus
from cardapp.session_client.sync import Control
from cardapp.settings import Settings
from cardapp.state.database import Database
from cardapp.web.live import LiveFeed


@dataclass(frozen=True)
class Services:
    """The parts of the service. ``clock`` returns the time as RFC 3339 text, in UTC, with milliseconds. ``started`` is
    the monotonic time of the start."""

    settings: Settings
    card_loader: CardLoader
    database: Database
    checkpoints: Checkpoints
    editor: Editor
    panels: EditorPanels
    program: Program
    sessions: SessionStatus
    series: Series
    control: Control
    sheets: SheetPages
    live: LiveFeed
    clock: Callable[[], str]
    started: float = field(default_factory=time.monotonic)

"""Real sessions for the functional tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.session_process import RunningSession, SessionTool, TestCard


@pytest.fixture
def tool(state_dir: Path) -> Iterator[SessionTool]:
    """``card-session`` over a fresh state directory; whatever was started is stopped."""
    found = SessionTool(state_dir)
    yield found
    found.stop_all()


@pytest.fixture
def card(tmp_path: Path) -> TestCard:
    """A card on the small target, in a folder of its own."""
    return TestCard(tmp_path / "card")


@pytest.fixture
def session(tool: SessionTool, card: TestCard) -> Iterator[RunningSession]:
    """A running session on ``card``."""
    running = RunningSession(tool, card)
    yield running
    running.stop()

"""Whose panel decides the size of the editor's grid."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from cardapp.errors import SessionUnavailable
from cardapp.session_client.editor_panels import EditorPanels
from cardapp.session_client.editor_stream import EditorStream

FIRST, SECOND, THIRD = (Mock(EditorStream) for _ in range(3))


@pytest.fixture
def sizes() -> list[tuple[int, int]]:
    """The sizes that the session's pane got."""
    return []


@pytest.fixture
def panels(sizes: list[tuple[int, int]]) -> EditorPanels:
    return EditorPanels(lambda cols, rows: sizes.append((cols, rows)))


def test_the_only_panel_decides_without_the_focus(panels: EditorPanels, sizes: list[tuple[int, int]]) -> None:
    panels.report(FIRST, 70, 30, focused=False)
    panels.report(FIRST, 70, 20, focused=False)
    assert sizes == [(70, 30), (70, 20)]


def test_the_page_focused_last_decides(panels: EditorPanels, sizes: list[tuple[int, int]]) -> None:
    panels.report(FIRST, 70, 30, focused=True)
    panels.report(SECOND, 100, 40, focused=False)
    assert sizes == [(70, 30)]
    panels.report(SECOND, 100, 40, focused=True)
    panels.report(FIRST, 70, 20, focused=False)  # the other page's change, which the first page follows
    panels.report(SECOND, 100, 20, focused=False)
    assert sizes == [(70, 30), (100, 40), (100, 20)]


def test_after_the_end_of_the_deciding_page_the_one_focused_before_decides(
    panels: EditorPanels, sizes: list[tuple[int, int]]
) -> None:
    for stream, cols in ((FIRST, 70), (SECOND, 80), (THIRD, 90)):
        panels.report(stream, cols, 30, focused=True)
    panels.leave(FIRST)
    panels.leave(THIRD)
    panels.leave(SECOND)
    panels.leave(SECOND)
    assert sizes == [(70, 30), (80, 30), (90, 30), (80, 30)]


def test_a_session_that_does_not_answer_ends_no_stream() -> None:
    def follow(_cols: int, _rows: int) -> None:
        raise SessionUnavailable("it does not answer")

    EditorPanels(follow).report(FIRST, 70, 30, focused=True)

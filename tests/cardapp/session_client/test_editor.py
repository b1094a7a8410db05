"""Refusals and reports of the editor that need no Neovim."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cardapp.errors import CardAppError, EditorUnavailable, SessionUnavailable, TooSlow
from cardapp.session_client.editor import Editor

RESET = {"stop_id": "7", "debugger_restarted": True, "editor_restarted": True}


def never(*arguments: object) -> Any:
    raise AssertionError("not to be called")


def fails_with(error: CardAppError) -> Any:
    def locate() -> str:
        raise error

    return locate


def editors(state_dir: Path) -> dict[str, Editor]:
    return {
        "no session is chosen": Editor(fails_with(SessionUnavailable("no session is chosen")), lambda: RESET, never),
        "no Neovim": Editor(lambda: None, lambda: RESET, never),
        "no socket": Editor(lambda: str(state_dir / "absent"), lambda: RESET, never),
    }


def test_without_an_editor_the_reads_say_why_and_the_rest_is_refused(state_dir: Path) -> None:
    for reason, editor in editors(state_dir).items():
        availability = editor.availability()
        assert availability["available"] is False
        assert reason in availability["reason"]
        state = editor.state()
        assert {name for name, value in state.items() if value is None} == set(state) - {"available", "reason"}
        assert state["reason"] == availability["reason"]
        for operation in (lambda e=editor: e.set_cursor(1, 0), lambda e=editor: e.input("x"), editor.redraw):
            with pytest.raises(EditorUnavailable, match=reason):
                operation()
        assert editor.free_prompt() is False
        assert editor.reset() == RESET  # a reset starts Neovim again


def test_a_session_that_is_too_slow_leaves_the_reads_answering() -> None:
    editor = Editor(fails_with(TooSlow("the session did not answer")), never, never)
    assert editor.availability() == {"available": False, "reason": "the session did not answer"}
    assert editor.state()["available"] is False
    assert editor.free_prompt() is False
    with pytest.raises(TooSlow):
        editor.input("x")


def test_after_close_there_is_no_editor(state_dir: Path) -> None:
    (state_dir / "n").touch()
    editor = Editor(lambda: str(state_dir / "n"), never, never)
    editor.close()
    editor.close()
    with pytest.raises(EditorUnavailable, match="stopping"):
        editor.input("x")

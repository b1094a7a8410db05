"""``start --foreground`` recognises that its session was stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cardapp.session_host.commands import is_session_stopped
from cardapp.session_host.directory import State
from cardapp.session_host.lifecycle import Sessions
from tests.cardapp.session_host.test_directory import RECORD


def test_a_session_in_a_new_container_is_the_same_session(state_dir: Path) -> None:
    state = State.of({"CARD_STATE_DIR": str(state_dir)})
    state.create()
    sessions, directory = Sessions(state), state.session(RECORD.name)
    assert is_session_stopped(sessions, RECORD)
    directory.create()
    directory.write(replace(RECORD, container_id="another"))
    assert not is_session_stopped(sessions, RECORD)
    directory.write(replace(RECORD, created_at="2024-01-01T00:00:01.000Z"))
    assert is_session_stopped(sessions, RECORD)
    directory.record.write_text("{")
    assert not is_session_stopped(sessions, RECORD)

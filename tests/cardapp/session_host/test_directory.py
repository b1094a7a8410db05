"""A session on disk: names, paths, the record, the choice, the lock."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cardapp.errors import StateError, UsageError
from cardapp.session_host.directory import Record, SessionDirectory, State
from cardapp.session_host.process import Process

RECORD = Record(
    name="s",
    container_id="c",
    card_source="/card/card_source.json",
    card_id="arena",
    profile="local",
    target="arena",
    source_directory="/work",
    created_at="2024-01-01T00:00:00.000Z",
    runtime="local",
    host=Process(7, 8),
)


@pytest.fixture
def state(state_dir: Path) -> State:
    found = State.of({"CARD_STATE_DIR": str(state_dir)})
    found.create()
    return found


@pytest.fixture
def directory(state: State) -> SessionDirectory:
    found = state.session("s")
    found.create()
    return found


def test_the_environment_names_the_state_directory_and_the_choice(tmp_path: Path) -> None:
    assert State.of({}).directory.parts[-2:] == (".state", "card")
    found = State.of({"CARD_STATE_DIR": str(tmp_path), "CARD_MCP_CHOICE": "/elsewhere/choice.json"})
    assert (found.directory, found.choice) == (tmp_path, Path("/elsewhere/choice.json"))


def test_a_bad_name_is_refused_and_a_path_too_long_names_the_setting(state: State) -> None:
    for name in ("", "A", "a b", "../up", "-a", "a" * 33, "ä"):
        with pytest.raises(UsageError, match="session name"):
            state.session(name)
    state.session("a" * 32)
    deep = State(state.directory / ("d" * 80), state.choice)
    with pytest.raises(UsageError, match="CARD_STATE_DIR"):
        deep.session("s").create()


def test_an_open_state_directory_is_closed_to_others_and_a_link_is_refused(state_dir: Path) -> None:
    state_dir.chmod(0o755)
    State(state_dir, state_dir / "choice").create()
    assert state_dir.stat().st_mode & 0o777 == 0o700
    (state_dir / "link").symlink_to(state_dir)
    with pytest.raises(StateError, match="symbolic link"):
        State(state_dir / "link", state_dir / "choice").create()


def test_a_record_is_read_as_it_was_written_and_a_damaged_one_is_none(directory: SessionDirectory) -> None:
    directory.write(RECORD)
    assert directory.read() == RECORD
    for text in ("", "{", "[]", "{}", '{"name": "s"}'):
        directory.record.write_text(text)
        assert directory.read() is None, text


def test_clearing_leaves_the_sources(directory: SessionDirectory) -> None:
    directory.write(RECORD)
    directory.work("local").mkdir()
    directory.mcp_socket.touch()
    directory.clear()
    assert {path.name for path in directory.path.rglob("*")} == {"run", "work"}


def test_the_choice_is_made_and_forgotten(state: State, directory: SessionDirectory) -> None:
    assert state.chosen() is None
    state.choose(directory)
    assert json.loads(state.choice.read_text()) == {"name": "s", "socket": str(directory.mcp_socket)}
    state.forget_choice("other")
    assert state.chosen() == "s"
    state.forget_choice("s")
    assert not state.choice.exists()
    for text in ("", "[1]", '{"name": 3}'):
        state.choice.write_text(text)
        assert state.chosen() is None, text


def test_a_choice_that_cannot_be_written_names_its_setting(state_dir: Path, directory: SessionDirectory) -> None:
    with pytest.raises(StateError, match="CARD_MCP_CHOICE"):
        State(state_dir, state_dir / "absent" / "choice.json").choose(directory)


def test_a_second_command_waits_for_the_lock_and_names_the_reason(directory: SessionDirectory) -> None:
    with directory.locked(), pytest.raises(StateError, match="another card-session command"), directory.locked(0.1):
        pass
    with directory.locked(0.1):
        pass


def test_whatever_a_program_left_in_run_is_removed(directory: SessionDirectory) -> None:
    """The log also remains, because it tells why a session ended."""
    directory.log.write_text("the end")
    for path in (directory.mcp_socket, directory.tmux_socket, directory.editor_home):
        (path / "folder").mkdir(parents=True)
    directory.nvim_socket.symlink_to(directory.path)
    os.mkfifo(directory.gdb_socket)
    (directory.run / "other").write_text("")
    directory.run.chmod(0)
    directory.clear()
    assert list(directory.run.iterdir()) == [directory.log]
    assert directory.log.read_text() == "the end"

    directory.log.unlink()
    os.mkfifo(directory.log)
    directory.clear()
    assert not directory.log.exists()


def test_a_run_folder_that_a_program_closed_is_opened_again(directory: SessionDirectory) -> None:
    directory.run.chmod(0)
    directory.create()
    assert directory.run.stat().st_mode & 0o777 == 0o700

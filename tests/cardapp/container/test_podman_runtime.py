"""What a session's container is given to see. ``tests/functional`` starts containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from cardapp.container import podman_runtime
from cardapp.container.directory import State
from cardapp.container.podman_runtime import PodmanRuntime
from cardapp.errors import UsageError
from tests.cardapp.container.test_directory import RECORD


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(podman_runtime, "ROOT", tmp_path)
    return tmp_path


def hidden(state_dir: Path) -> set[str]:
    """The paths in the container that are empty there."""
    directory = State(state_dir, state_dir / "choice").session("s")
    mounts = PodmanRuntime(directory)._mounts(RECORD, state_dir)
    return {mount.split("=", 1)[1].split(":")[0] for mount in mounts if mount.startswith("--tmpfs=")}


def test_other_state_directories_in_the_repository_are_hidden(repository: Path) -> None:
    always = {"/workspace/.state", "/workspace/.state/card/sessions"}
    assert hidden(repository / ".state" / "card") == always
    assert hidden(repository / ".state" / "second") == always
    assert hidden(repository / "own" / "state") == {*always, "/workspace/own/state"}
    assert hidden(repository.parent / "elsewhere") == always
    assert (repository / ".state").is_dir()


def test_the_folder_of_the_socket_of_the_api_has_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    monkeypatch.setenv("CARD_API_SOCKET", str(folder / "api.sock"))
    runtime = PodmanRuntime(State(tmp_path, tmp_path / "choice").session("s"))
    (folder / "api.sock").touch()
    assert f"--volume={folder}:{folder}:ro" in runtime._api_socket(tmp_path)
    (folder / "bus").touch()
    with pytest.raises(UsageError, match=r"CARD_API_SOCKET=.*: give the socket a folder of its own"):
        runtime._api_socket(tmp_path)

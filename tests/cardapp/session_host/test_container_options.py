"""The options of a session's container: mounts and limits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cardapp.errors import UsageError
from cardapp.session_host.container_options import ContainerOptions
from cardapp.session_host.directory import State
from tests.cardapp.session_host.test_directory import RECORD


@pytest.fixture
def repository(state_dir: Path) -> Path:
    return state_dir / "repository"


def options(
    state: Path, repository: Path, *, limited: bool = True, profile: str = "podman", **environ: str
) -> list[str]:
    found = State(state, state / "choice")
    found.create()
    directory = found.session("s")
    directory.create()
    record = replace(RECORD, profile=profile)
    return ContainerOptions(directory, environ, limited=limited, root=repository).arguments(record)


def hidden(state: Path, repository: Path) -> set[str]:
    """The paths that are empty in the container."""
    paths = {
        option.split("=", 1)[1].split(":")[0] for option in options(state, repository) if option.startswith("--tmpfs=")
    }
    return paths - {"/tmp"}


def test_other_state_directories_in_the_repository_are_hidden(repository: Path) -> None:
    always = {"/workspace/.state", "/workspace/.state/card/sessions"}
    assert hidden(repository / ".state" / "card", repository) == always
    assert hidden(repository / ".state" / "second", repository) == always
    assert hidden(repository / "own" / "state", repository) == {*always, "/workspace/own/state"}
    assert hidden(repository.parent / "elsewhere", repository) == always


def test_the_folder_of_the_socket_of_the_api_has_nothing_else(repository: Path, state_dir: Path) -> None:
    folder = state_dir / "run"
    folder.mkdir()
    (folder / "api.sock").touch()
    socket = str(folder / "api.sock")
    assert f"--volume={folder}:{folder}:ro" in options(state_dir / "state", repository, CARD_API_SOCKET=socket)
    (folder / "bus").touch()
    with pytest.raises(UsageError, match=r"CARD_API_SOCKET=.*: move the socket to an empty folder"):
        options(state_dir / "state", repository, CARD_API_SOCKET=socket)


def test_the_limits_are_those_of_the_profile(repository: Path, state_dir: Path) -> None:
    given = set(options(state_dir / "state", repository))
    assert {"--memory=1024m", "--memory-swap=1024m", "--pids-limit=256", "--env=CARDAPP_PROGRAM_SECONDS=600"} <= given
    given = set(options(state_dir / "state", repository, limited=False))
    assert "--ulimit=nproc=256:256" in given
    assert not [option for option in given if option.startswith(("--memory", "--pids"))]


def test_a_profile_without_a_container_and_a_path_that_podman_cannot_mount_are_refused(
    repository: Path, state_dir: Path
) -> None:
    with pytest.raises(UsageError, match="profile local no longer has runtime = podman"):
        options(state_dir / "state", repository, profile="local")
    with pytest.raises(UsageError, match=r"a:b.*use another folder"):
        options(state_dir / "a:b", repository)

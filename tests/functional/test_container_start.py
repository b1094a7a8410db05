"""``card-session`` with sessions in containers: killed starts, missing requirements, and what remains after a stop."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cardapp.session_host.commands import LOOK_SECONDS
from cardapp.session_host.image import REPOSITORY
from cardapp.session_host.podman import Podman
from cardapp.session_host.process import DIRECTORY_VARIABLE, pids_with
from tests.functional.runtimes import PODMAN, containers_of, podman
from tests.functional.session_process import RunningSession, SessionTool, TestCard, eventually

pytestmark = [pytest.mark.functional, pytest.mark.full, pytest.mark.podman]


@pytest.fixture(scope="module")
def runtime(podman_image: None) -> str:
    return PODMAN


# -- a start that is killed ------------------------------------------------------------------------------------------


def kill_start(tool: SessionTool, card: TestCard, reached: Callable[[], object]) -> None:
    """Start the session ``s`` and kill the command as soon as ``reached`` is true."""
    with subprocess.Popen(
        tool.command("start", "--name", "s", str(card.folder)),
        env=tool.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        eventually(reached)
        process.kill()


def assert_repaired(tool: SessionTool, card: TestCard) -> None:
    """A start makes a usable session with one container. A stop leaves no container."""
    path = tool.state / "sessions" / "s"
    session = RunningSession(tool, card)
    session.check_usable()
    assert containers_of(path) == [session.record()["container_id"]]
    session.close()
    tool.must("stop", "s")
    assert containers_of(path) == []
    assert list(pids_with(str(path), DIRECTORY_VARIABLE)) == []
    assert not list(path.rglob("*.sock"))


@pytest.mark.parametrize(
    "point", ["session.json", "container", "work-podman/probe/build/target", "run/host.log", "run/mcp.sock"]
)
def test_a_start_repairs_what_a_killed_one_left(tool: SessionTool, card: TestCard, point: str) -> None:
    path = tool.state / "sessions" / "s"
    kill_start(tool, card, lambda: containers_of(path) if point == "container" else (path / point).exists())
    assert_repaired(tool, card)


def test_a_start_repairs_what_one_left_that_was_killed_at_any_moment(
    tool: SessionTool, card: TestCard, loops: Callable[..., int]
) -> None:
    chosen, pause = random.Random(7), threading.Event()
    for _ in range(loops(quick=1, full=8)):
        seconds = chosen.uniform(0.2, 2.5)
        kill_start(tool, card, lambda: pause.wait(seconds) or True)  # noqa: B023
        assert_repaired(tool, card)


def test_a_local_start_leaves_no_container_of_a_killed_one(tool: SessionTool, card: TestCard) -> None:
    path = tool.state / "sessions" / "s"
    kill_start(tool, card, lambda: containers_of(path))
    session = RunningSession(tool, card, "s", "--profile", "local")
    session.check_usable()
    session.stop()
    assert containers_of(path) == []


def test_a_killed_start_can_be_stopped_and_reset(tool: SessionTool, card: TestCard) -> None:
    path = tool.state / "sessions" / "s"
    for way in ("reset", "stop"):
        kill_start(tool, card, lambda: containers_of(path))
        tool.must(way, "s")
        if way == "reset":
            RunningSession.of(tool, "s").replay({"function": "mark"})
            tool.must("stop", "s")
        assert containers_of(path) == []


# -- what is missing -------------------------------------------------------------------------------------------------


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a podman with an empty storage."""
    folder = Path(tempfile.mkdtemp(prefix="card-storage-", dir="/var/tmp"))
    settings = folder / "storage.conf"
    settings.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n')
    environment = {"CONTAINERS_STORAGE_CONF": str(settings)}
    try:
        yield environment
    finally:
        Podman(os.environ | environment).run("rmi", "--all", "--force")
        shutil.rmtree(folder)


def refused(tool: SessionTool, card: TestCard, **environment: str) -> str:
    """The message of a start that lacks a requirement. The start must leave no session."""
    done = tool.run("start", "--name", "s", str(card.folder), **environment)
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tool.state.glob("sessions/*/session.json"))
    assert "no session" in tool.must("list")
    return done.stderr


def test_a_missing_or_outdated_image_is_reported_with_the_command_that_builds_it(
    tool: SessionTool, card: TestCard, storage: dict[str, str], tmp_path: Path
) -> None:
    command = "bin/card-session image"
    told = refused(tool, card, **storage)
    assert "the image for sessions in a container is missing" in told
    assert command in told
    older = tmp_path / "older.tar"
    with tarfile.open(older, "w") as archive:
        archive.add(__file__, "file")
    Podman(os.environ | storage).run("import", older, f"{REPOSITORY}:0123456789ab")
    told = refused(tool, card, **storage)
    assert "older than its recipe" in told
    assert command in told


def test_without_podman_every_command_says_so_and_loses_nothing(session: RunningSession, tmp_path: Path) -> None:
    tool, record = session.tool, session.record()
    podman("kill", record["container_id"])
    few = {"PATH": str(tmp_path)}
    for command in ("start", "reset", "refresh", "stop"):
        arguments = ("start", "--name", "s", str(session.card.folder)) if command == "start" else (command, "s")
        done = tool.run(*arguments, **few)
        assert (done.returncode, "podman is not on PATH" in done.stderr) == (3, True), (command, done.stderr)
        assert "Traceback" not in done.stderr
    assert "no podman" in tool.run("list", **few).stdout
    assert session.record() == record
    tool.must("reset", "s")
    session.check_usable()


def test_a_failing_podman_is_not_taken_for_a_removed_container(session: RunningSession, tmp_path: Path) -> None:
    podman("kill", session.record()["container_id"])
    broken = {"CONTAINERS_STORAGE_CONF": str(tmp_path / "absent")}
    assert "podman failed" in session.tool.run("list", **broken).stdout
    done = session.tool.run("reset", "s", **broken)
    assert (done.returncode, "absent" in done.stderr) == (1, True), done.stderr
    session.tool.must("reset", "s")
    session.check_usable()


# -- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_start_in_the_foreground_ends_its_container(
    tool: SessionTool, card: TestCard, number: signal.Signals
) -> None:
    path = tool.state / "sessions" / "s"
    command = tool.command("start", "--foreground", "--name", "s", str(card.folder))
    with subprocess.Popen(command, env=tool.environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any("Ctrl-C stops it" in line for line in process.stdout)
        assert len(containers_of(path)) == 1
        process.send_signal(number)
        assert process.wait(60) == 0
    assert containers_of(path) == []
    assert list(pids_with(str(path), DIRECTORY_VARIABLE)) == []


def test_a_session_in_the_foreground_is_the_same_one_after_its_container_was_replaced(
    tool: SessionTool, card: TestCard
) -> None:
    path = tool.state / "sessions" / "s"
    command = tool.command("start", "--foreground", "--name", "s", str(card.folder))
    with subprocess.Popen(
        command, env=tool.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert any("Ctrl-C stops it" in line for line in process.stdout)
        podman("rm", "--force", "--time=1", *containers_of(path))
        tool.must("reset", "s")
        threading.Event().wait(2 * LOOK_SECONDS)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        told = process.communicate(timeout=60)[1]
    assert (process.returncode, told) == (0, "")
    assert containers_of(path) == []


def test_a_start_in_the_foreground_that_is_interrupted_leaves_no_container(tool: SessionTool, card: TestCard) -> None:
    path = tool.state / "sessions" / "s"
    command = tool.command("start", "--foreground", "--name", "s", str(card.folder))
    with subprocess.Popen(command, env=tool.environment, stdout=subprocess.PIPE) as process:
        eventually(lambda: containers_of(path))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert containers_of(path) == []
    assert not list(tool.state.glob("sessions/*/session.json"))

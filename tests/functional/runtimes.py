"""The runtimes of the sessions in tests: ``local``, and with ``--full`` also ``podman`` in tests marked
``each_runtime``.

If podman is not usable, its tests are skipped with the reason.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cardapp.errors import CardAppError, MissingRequirement
from cardapp.session_host.container_options import LABEL
from cardapp.session_host.image import Image
from cardapp.session_host.podman import Podman

LOCAL, PODMAN = "local", "podman"
"""Names of runtimes and, in ``etc/card-session.ini``, of the profile of each."""
RUNTIMES = (LOCAL, pytest.param(PODMAN, marks=pytest.mark.podman))


def image_or_skip() -> None:
    """Build the image of sessions in containers if it does not exist. Skip, with the reason, if it cannot be built.

    The image remains in the storage of this user, because its build takes minutes. The next run, and sessions, use it.
    """
    try:
        Podman().command("version")
    except MissingRequirement as error:
        pytest.skip(f"not run: {error.detail}")
    built = subprocess.run(
        [sys.executable, "-P", "-m", "cardapp.session_host", "image"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if built.returncode != 0:
        pytest.skip(f"not run: there is no image for sessions in containers: {built.stderr[-500:]}")
    try:
        Podman().run("run", "--rm", "--pull=never", "--network=none", Image().name(), "true")
    except CardAppError as error:
        pytest.skip(f"not run: podman runs no container here: {error.detail[-500:]}")


def podman(*arguments: str) -> str:
    """The output of a command that must succeed."""
    return Podman().run(*arguments).stdout.strip()


def container_state(container_id: str) -> dict[str, Any] | None:
    """The state of a container as podman reports it; None if there is none."""
    listed = podman("ps", "--all", "--quiet", "--no-trunc", f"--filter=id={container_id}")
    if not listed:
        return None
    found: dict[str, Any] = json.loads(podman("container", "inspect", container_id))[0]["State"]
    return found


def containers_of(path: Path) -> list[str]:
    """The ids of the containers of the session in ``path``; none if podman is not installed."""
    if shutil.which("podman") is None:
        return []
    return podman("ps", "--all", "--quiet", "--no-trunc", f"--filter=label={LABEL}={path}").split()


def remove_containers(state: Path) -> None:
    """Remove the containers of all sessions of a state directory."""
    for path in state.glob("sessions/*"):
        for container in containers_of(path):
            podman("rm", "--force", "--time=1", container)

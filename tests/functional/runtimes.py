"""The runtimes of the sessions in tests: on this machine, and in tests/release also in containers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from cardapp.session_host.container_options import LABEL
from cardapp.session_host.podman import Podman

LOCAL, PODMAN = "local", "podman"
"""Names of runtimes and, in ``etc/card-session.ini``, of the profile of each."""


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

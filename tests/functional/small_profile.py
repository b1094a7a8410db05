"""A copy of the repository with one more profile, whose limits a program reaches in a moment.

Profiles are read from the repository that the session tool belongs to, on both sides of the container.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from cardapp.container.image import Image
from cardapp.container.podman import Podman
from cardapp.container.profile import ROOT
from cardapp.errors import CardAppError
from tests.functional.session_process import SessionTool

NAME = "small"
MEMORY, PROCESSES, SECONDS = 256, 64, 1
SECTION = f"""
[{NAME}]
runtime = podman
memory = {MEMORY}
processes = {PROCESSES}
program_seconds = {SECONDS}
"""


def image_or_skip() -> None:
    """Build the image of sessions if it is missing; skip where that is not possible, and say why."""
    if shutil.which("podman") is None:
        pytest.skip("not run: podman is not on PATH (Debian: apt-get install podman)")
    try:
        Image().build(Podman(), None, print)
        subprocess.run(
            Podman().command("run", "--rm", "--pull=never", "--network=none", Image().name(), "true"),
            check=True, capture_output=True,
        )  # fmt: skip
    except CardAppError as error:
        pytest.skip(f"not run: the image of sessions cannot be built: {error.detail}")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"not run: podman runs no container here: {error.stderr[-500:]!r}")


def repository(folder: Path) -> Path:
    """The copy, in ``folder``: what a session needs of the repository."""
    for name in ("cardapp", "etc"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "setup.cfg", folder)
    with (folder / "etc" / "card-session.ini").open("a") as profiles:
        profiles.write(SECTION)
    return folder


def tool_of(repository: Path, state: Path) -> SessionTool:
    """The session tool of that repository."""
    tool = SessionTool(state)
    tool.environment["PYTHONPATH"] = str(repository)
    return tool

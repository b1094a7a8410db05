"""A copy of the repository with one more profile, whose low limits a program reaches quickly.

Profiles are read from the repository that the session tool belongs to, on both sides of the container.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from cardapp.session_host.profile import ROOT

NAME = "small"
MEMORY, PROCESSES, SECONDS = 256, 64, 1
SECTION = f"""
[{NAME}]
runtime = podman
memory = {MEMORY}
processes = {PROCESSES}
program_seconds = {SECONDS}
"""


def repository(folder: Path) -> Path:
    """The copy, in ``folder``, of the files that a session needs."""
    for name in ("cardapp", "etc"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "setup.cfg", folder)
    add_to(folder)
    return folder


def add_to(repository: Path) -> None:
    with (repository / "etc" / "card-session.ini").open("a") as profiles:
        profiles.write(SECTION)

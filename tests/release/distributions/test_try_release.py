"""``try-release.sh``: everything is started in bare releases of Debian, and the units under systemd."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.capabilities import need

SCRIPT = Path(__file__).with_name("try-release.sh")


@pytest.mark.parametrize("release", ["bookworm", "trixie"])
def test_a_sync_is_proved_on_a_fresh(release: str) -> None:
    assert "prove-sync: proved and ended within " in tried(release)


def test_the_units_work_under_systemd() -> None:
    """Debian with systemd as its first process: the commands of etc/systemd/README.md, and services that end."""
    assert "prove-units: the units work\n" in tried("trixie", "--systemd")


def tried(*arguments: str) -> str:
    """What the script printed, with this machine's own environment variables."""
    need(os.geteuid() == 0, "root, who alone can make a bare root of Debian")
    done = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, check=False, timeout=1100)
    need("is not on PATH" not in done.stderr, "debootstrap, unshare, setpriv, wget or git (Debian package debootstrap)")
    need("no namespaces" not in done.stderr, "namespaces of its own")
    need("no control groups" not in done.stderr, "control groups of version 2")
    need("knows no mirror" not in done.stderr, "a mirror of Debian")
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout

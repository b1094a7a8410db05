"""The image of sessions in containers, built with settings that no layer of it may contain."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from contextlib import suppress
from pathlib import Path

from cardapp.errors import CardAppError
from cardapp.session_host.image import Image
from cardapp.session_host.image_build import RELEASE
from cardapp.session_host.podman import Podman
from tests.capabilities import need

PLANTED = ("planted-user", "planted-word", "planted-apt.example", "planted-pip.example")
SECONDS = 900.0


def mirror() -> str:
    """The mirror of Debian that apt uses, or DEBIAN_MIRROR."""
    wanted = ("apt-get", "indextargets", "--format", "$(REPO_URI)", "Origin: Debian", "Label: Debian")
    known = subprocess.run(wanted, capture_output=True, text=True, check=False).stdout.split()
    found = os.environ.get("DEBIAN_MIRROR") or next(iter(known), "")
    answers = False
    with suppress(OSError, ValueError):
        urllib.request.urlopen(f"{found.rstrip('/')}/dists/{RELEASE}/Release", timeout=30).close()
        answers = True
    need(answers, "a mirror of Debian that answers (DEBIAN_MIRROR names one)")
    return found


def provide() -> None:
    """Build the image unless this user's storage has it, where it stays for the next run."""
    need(shutil.which("podman"), "podman (Debian packages podman, debootstrap, uidmap)")
    if Image().state(Podman()) != "current":
        need(shutil.which("debootstrap", path=Podman().system_path), "debootstrap (Debian package debootstrap)")
        with tempfile.TemporaryDirectory(prefix="settings-", dir="/tmp") as folder:
            apt = Path(folder) / "apt.conf"
            apt.write_text('Acquire::https::Proxy::planted-apt.example "DIRECT";\n')
            planted = {
                "DEBIAN_MIRROR": mirror().replace("://", "://planted-user:planted-word@"),
                "APT_CONFIG": str(apt),
                "PIP_TRUSTED_HOST": "planted-pip.example",
            }
            done = build(**planted)
            assert (done.returncode, done.stdout) == (0, f"{Image().name()} is built\n"), done.stderr
    runs = False
    with suppress(CardAppError):
        Podman().run("run", "--rm", "--pull=never", "--network=none", Image().name(), "true")
        runs = True
    need(runs, "a kernel that runs containers of podman")


def build(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``card-session image``."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "cardapp.session_host", "image", *arguments],
        env=os.environ | environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        timeout=SECONDS,
    )  # fmt: skip

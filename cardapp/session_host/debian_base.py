"""The default base of the image: a Debian that debootstrap makes, so that no registry of images is needed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from cardapp.errors import MissingRequirement
from cardapp.session_host.image_work import ImageWork
from cardapp.session_host.podman import SYSTEM_PATH

RELEASE = "trixie"
BASE = f"localhost/debian:{RELEASE}"
# In namespaces of its own: what debootstrap mounts and starts ends with it, also when it is killed.
NAMESPACES = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
# debootstrap copies the name servers and the name of this machine, and writes the mirror into sources.list. Its test
# that devices can be made fails in a user namespace; it makes it in no container of this name.
MAKE_ROOT = """
set -eu
release=$1 mirror=$2 folder=$3
[ "$4" = 0 ] || export container=lxc
debootstrap --variant=minbase "$release" "$folder/root" "$mirror"
cd "$folder/root"
rm -f etc/resolv.conf etc/hostname etc/apt/sources.list
rm -rf var/cache/apt/* var/lib/apt/lists/* var/log/* dev/*
rm -rf usr/share/doc/* usr/share/info/* usr/share/locale/* usr/share/man/*
tar -cf "$folder/base.tar" .
"""


def provide(work: ImageWork) -> str:
    """Make the image :data:`BASE` if it is missing. Returns the URL of the mirror of Debian that this machine uses.

    :raises MissingRequirement: debootstrap is not installed, or no mirror is known.
    :raises StepFailed: debootstrap or the import failed.
    """
    mirror = find_mirror(work)
    if not work.has_image(BASE):
        _make(work, mirror)
    return mirror


def _make(work: ImageWork, mirror: str) -> None:
    path = f"{work.environ.get('PATH', os.defpath)}:{SYSTEM_PATH}"
    if shutil.which("debootstrap", path=path) is None:
        raise MissingRequirement(
            "debootstrap is not on PATH; install it (Debian: apt-get install debootstrap), or name an image of Debian "
            "with --base, for example --base docker.io/library/debian:trixie-slim"
        )
    work.environ["PATH"] = path
    folder, user = str(work.folder), str(os.geteuid())
    script = (*NAMESPACES, "sh", "-c", MAKE_ROOT, "sh", RELEASE, mirror, folder, user)
    work.run(f"making {BASE} with debootstrap (a minute or so)", work.in_namespace(*script))
    work.run(f"importing {BASE}", work.podman.command("import", Path(folder, "base.tar"), BASE))


def find_mirror(work: ImageWork) -> str:
    """``DEBIAN_MIRROR``, else the mirror that apt uses."""
    named = work.environ.get("DEBIAN_MIRROR")
    if named:
        return named
    try:
        found = subprocess.run(
            ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Origin: Debian", "Label: Debian"],
            env=work.environ, capture_output=True, text=True, check=False,
        ).stdout.split()  # fmt: skip
    except OSError:
        found = []
    if not found:
        raise MissingRequirement(
            "apt knows no mirror of Debian here; name one in DEBIAN_MIRROR, or an image with --base"
        )
    return found[0]

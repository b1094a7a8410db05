"""podman with separate storage, so that tests neither see nor change the machine's images and containers."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tests.capabilities import need

RELEASE = "trixie"
BASE = f"localhost/debian:{RELEASE}"
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
# Some virtual machines refuse podman's default limits. They also mount control groups of both versions, which crun does
# not support.
CONFIGURATION = """[containers]
default_ulimits = ["nofile=20000:20000", "nproc=32768:32768"]
[engine]
runtime = "runc"
"""
STORAGE = """[storage]
driver = "overlay"
graphroot = "{folder}/storage"
runroot = "{folder}/run"
"""


class Podman:
    """Runs ``podman`` and ``buildah``, as root only, on the storage in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = dict(os.environ)
        (folder / "storage.conf").write_text(STORAGE.format(folder=folder))
        self.environment["CONTAINERS_STORAGE_CONF"] = str(folder / "storage.conf")
        if shutil.which("runc") and "CONTAINERS_CONF" not in os.environ:
            (folder / "containers.conf").write_text(CONFIGURATION)
            self.environment["CONTAINERS_CONF"] = str(folder / "containers.conf")

    def run(self, *arguments: str | Path, program: str | Path = "podman") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *arguments], env=self.environment, capture_output=True, text=True, check=False, timeout=1800
        )

    def __call__(self, *arguments: str | Path) -> str:
        """The output of a command that must succeed."""
        done = self.run(*arguments)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout.strip()

    def make_base(self) -> None:
        """A Debian image with this machine's trusted certificates, made without an image registry."""
        root = self.folder / "root"
        command = ["debootstrap", "--variant=minbase", "--include=ca-certificates", RELEASE, str(root)]
        mirror = os.environ.get("DEBIAN_MIRROR")
        made = subprocess.run([*command, *([mirror] if mirror else [])], capture_output=True, text=True, check=False)
        need(made.returncode == 0, "a mirror of Debian that debootstrap reaches")
        if Path("/", CERTIFICATES).exists():
            shutil.copy(Path("/", CERTIFICATES), root / CERTIFICATES)
        with subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE) as packed:
            subprocess.run(
                ["podman", "import", "-", BASE], stdin=packed.stdout, env=self.environment, check=True,
                capture_output=True,
            )  # fmt: skip
        shutil.rmtree(root)

    def remove_all(self) -> None:
        self.run("rm", "--all", "--force", "--time", "1")
        self.run("volume", "rm", "--all", "--force")
        self.run("rmi", "--all", "--force")
        self.run(self.folder / "storage" / "overlay", program="umount")


class Storage(Protocol):
    """A podman whose commands must succeed, and a folder for an archive."""

    folder: Path

    def __call__(self, *arguments: str | Path) -> str: ...


def everything_of(podman: Storage, image: str) -> Iterator[tuple[str, bytes]]:
    """The name and the content of each file of each layer, and the image's configuration with its history."""
    packed = podman.folder / "image.tar"
    podman("save", "--output", packed, image)
    try:
        with tarfile.open(packed) as saved:
            for member in saved:
                file = saved.extractfile(member) if member.isfile() else None
                if file is None:
                    continue
                if not member.name.endswith(".tar"):
                    yield member.name, file.read()
                    continue
                with tarfile.open(fileobj=file) as layer:
                    for each in layer:
                        content = layer.extractfile(each) if each.isfile() else None
                        yield each.name.removeprefix("./"), content.read() if content else b""
    finally:
        packed.unlink()


@contextmanager
def podman_with_base() -> Iterator[Podman]:
    """podman on a storage of its own, which has the image :data:`BASE` and nothing else."""
    need(os.geteuid() == 0, "root")
    for program in ("podman", "debootstrap"):
        need(shutil.which(program), f"{program} (Debian package {program})")
    folder = Path(tempfile.mkdtemp(prefix="image-", dir="/var/tmp"))
    podman = Podman(folder)
    try:
        podman.make_base()
        tried = podman.run("run", "--rm", "--network=none", BASE, "true")
        need(tried.returncode == 0, "a kernel that runs containers of podman")
        yield podman
    finally:
        podman.remove_all()
        shutil.rmtree(folder, ignore_errors=True)
        assert str(folder) not in Path("/proc/self/mountinfo").read_text()

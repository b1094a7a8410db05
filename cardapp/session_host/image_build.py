"""Steps of a build of the image: the folder and its lock, the Debian base, the settings for package servers.

The folder is ``card-session-image-UID`` in ``TMPDIR`` (default: ``/var/tmp``), because all state directories of a user
share one storage of images. The lock is on the folder itself. A build also removes the remains of an interrupted build.
"""

from __future__ import annotations

import ast
import contextlib
import fcntl
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from cardapp import private_directories
from cardapp.errors import CardAppError, MissingRequirement
from cardapp.session_host.podman import Podman, PodmanFailed

BUILD_BASE = "localhost/card-session-base:latest"
"""A second name of the base during a build. podman derives the names of a build's containers from it."""
UNFINISHED = "card-session-base-working-container"
LAST_LINES = 15
USER_IDS = 65536
"""The number of user ids that a Debian system needs, for the users 0 to 65534."""
VFS = (
    "podman copies the whole image for each container here (storage driver vfs), so a start takes long. To change it, "
    'write driver = "overlay" below [storage] into ~/.config/containers/storage.conf and run podman system reset; it '
    "removes all your containers and images"
)


class StepFailed(CardAppError):
    """A step of the build failed. The text has the last lines of its output."""

    code = "image_build_failed"


class ImageWork:
    """Holds the lock of the build's folder during the ``with`` block, and removes the folder at the end."""

    def __init__(self, podman: Podman, announce: Callable[[str], None]) -> None:
        self.podman = podman
        self.folder = Path(podman.environ.get("TMPDIR") or "/var/tmp") / f"card-session-image-{os.geteuid()}"
        info = podman.info()
        self._runtime = str(info["host"]["ociRuntime"]["path"])
        # podman keeps the files of a build in TMPDIR. With this value the next build finds the files of a killed build.
        self.environ = podman.environ | {"TMPDIR": str(self.folder / "tmp")}
        if os.geteuid() != 0:
            check_user_ids(info, os.geteuid())
            # If XDG_RUNTIME_DIR is not set, podman would look for its running state in the new TMPDIR.
            self.environ["XDG_RUNTIME_DIR"] = str(Path(info["host"]["remoteSocket"]["path"]).parent.parent)
        if info["store"]["graphDriverName"] == "vfs":
            announce(VFS)
        self.announce = announce
        self._lock = -1

    def __enter__(self) -> Self:
        waits = False
        while True:
            private_directories.make_directory(self.folder, "TMPDIR")
            self._lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not waits:
                    self.announce("another card-session image command is building the image; waiting for its end")
                waits = True
                fcntl.flock(self._lock, fcntl.LOCK_EX)
            # The build that held the lock may have removed the folder; then try again.
            if self._is_locked_folder():
                return self
            os.close(self._lock)

    def _is_locked_folder(self) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(self._lock), self.folder.lstat())
        return False

    def __exit__(self, *_exception: object) -> None:
        try:
            self._remove_leftovers()
            self.folder.rmdir()
        finally:
            os.close(self._lock)

    def prepare(self) -> None:
        """Empty the folder: end the processes of an interrupted build, and remove its containers and files."""
        self._remove_leftovers()
        (self.folder / "tmp").mkdir()

    def _remove_leftovers(self) -> None:
        for folder in self.folder.glob("tmp/buildah*"):
            # The container's processes outlive a killed podman. If they have ended, the runtime reports an error.
            with contextlib.suppress(StepFailed):
                self._run_in_namespace(self._runtime, "delete", "--force", f"buildah-{folder.name}")
        listed = self.podman.run("ps", "--all", "--external", "--format=json", f"--filter=name={UNFINISHED}")
        for container in json.loads(listed.stdout or "[]"):
            self.podman.run("rm", "--force", container["Id"])
        with contextlib.suppress(PodmanFailed):  # there is no such image
            self.podman.run("untag", BUILD_BASE, BUILD_BASE)
        for path in self.folder.iterdir():
            self._run_in_namespace("rm", "-rf", "--one-file-system", str(path))

    def _run_in_namespace(self, *command: str) -> None:
        """Run ``command`` with all user ids of this user, because the files of a Debian system belong to several of
        them."""
        done = subprocess.run(
            self.in_namespace(*command), env=self.environ, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise StepFailed(
                f"the files of an earlier build cannot be removed: {' '.join(command)}: {done.stderr.strip()}"
            )

    def in_namespace(self, *command: str) -> list[str]:
        """The command line that runs ``command`` with all user ids of this user."""
        return list(command) if os.geteuid() == 0 else self.podman.command("unshare", *command)

    def has_image(self, name: str) -> bool:
        with contextlib.suppress(PodmanFailed):
            self.podman.run("image", "exists", name)
            return True
        return False

    def tag_base(self, base: str) -> None:
        """Fetch the base if it is missing, and give it the name :data:`BUILD_BASE`."""
        if not self.has_image(base):
            self.run(f"fetching {base}", self.podman.command("pull", base))
        self.podman.run("tag", base, BUILD_BASE)

    def run(self, step: str, command: Sequence[str]) -> None:
        """Run ``command`` to its end, without input and with its output in a file.

        :raises StepFailed: the command cannot be run, or its exit code is not 0.
        """
        self.announce(f"{step} …")
        log = self.folder / "log"
        with log.open("wb") as output:
            # The command ends with this process, also if this process is killed.
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command],
                env=self.environ, cwd="/", stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip
        try:
            code = process.wait()
        except BaseException:  # Ctrl-C
            process.kill()
            process.wait()
            raise
        if code != 0:
            with log.open(encoding="utf-8", errors="replace") as lines:
                last = "".join(deque(lines, LAST_LINES)).rstrip()
            raise StepFailed(f"{step} failed with exit code {code}; the end of its output:\n{last}")


def check_user_ids(info: dict[str, Any], uid: int) -> None:
    """:raises MissingRequirement: the user ``uid`` has no ids for the users in a container, as ``podman info`` says."""
    if sum(each["size"] for each in info["host"]["idMappings"]["uidmap"] or []) >= USER_IDS:
        return
    name = pwd.getpwuid(uid).pw_name
    raise MissingRequirement(
        f"{name} has no user ids for containers: /etc/subuid and /etc/subgid have no range of {USER_IDS} for {name}, "
        "or newuidmap is missing (Debian: apt-get install uidmap). As root add a range that no other user has: usermod "
        f"--add-subuids 100000-165535 --add-subgids 100000-165535 {name}; then run podman system migrate"
    )


# -- the Debian that the image is built on -------------------------------------------------------------------------
# debootstrap makes it, so that no registry of images is needed.

RELEASE = "trixie"
DEBIAN_BASE = f"localhost/debian:{RELEASE}"
# debootstrap runs in new namespaces, so its mounts and processes end with it, also if it is killed.
NAMESPACES = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
# The files etc/resolv.conf, etc/hostname and sources.list are removed because debootstrap writes this machine's name
# servers, name and mirror into them. In a user namespace debootstrap's test that devices can be made fails, so
# `container` makes it skip the test.
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


def provide_debian_base(work: ImageWork) -> str:
    """Make the image :data:`DEBIAN_BASE` if it is missing. Returns the URL of this machine's Debian mirror.

    :raises MissingRequirement: debootstrap is not installed, or no mirror is known.
    :raises StepFailed: debootstrap or the import failed.
    """
    mirror = find_mirror(work)
    if not work.has_image(DEBIAN_BASE):
        _make_debian_base(work, mirror)
    return mirror


def _make_debian_base(work: ImageWork, mirror: str) -> None:
    path = work.podman.system_path
    if shutil.which("debootstrap", path=path) is None:
        raise MissingRequirement(
            "debootstrap is not on PATH; install it (Debian: apt-get install debootstrap), or name an image of Debian "
            "with --base, for example --base docker.io/library/debian:trixie-slim"
        )
    work.environ["PATH"] = path
    folder, user = str(work.folder), str(os.geteuid())
    script = (*NAMESPACES, "sh", "-c", MAKE_ROOT, "sh", RELEASE, mirror, folder, user)
    work.run(f"making {DEBIAN_BASE} with debootstrap (a minute or so)", work.in_namespace(*script))
    work.run(f"importing {DEBIAN_BASE}", work.podman.command("import", Path(folder, "base.tar"), DEBIAN_BASE))


def find_mirror(work: ImageWork) -> str:
    """The mirror in ``DEBIAN_MIRROR``; if that is not set, the mirror that apt uses."""
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


# -- the package servers -------------------------------------------------------------------------------------------
# The build gets this machine's settings for package servers as files. Each file is a secret of the build: it is mounted
# during the build only, and no layer and no history contains it.

SECRETS = "/run/secrets"
BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
APT_SETTING = re.compile(r"Acquire::(https?::(Proxy(::\S+)?|Verify-Peer|Verify-Host)|Retries|ForceIPv[46]) ")
PLACES = ("index-url", "extra-index-url", "find-links")
PIP_SETTINGS = (*PLACES, "trusted-host", "proxy", "timeout", "default-timeout", "retries")


def write_package_settings(
    folder: Path, mirror: str | None, environ: Mapping[str, str], bundles: Sequence[str] = BUNDLES
) -> list[Path]:
    """Write the files into the new ``folder`` and return them. If ``mirror`` is None, apt uses the base's sources.
    ``bundles`` are the places of this machine's trusted certificates."""
    folder.mkdir(mode=0o700)
    bundle = next((path for path in (environ.get("SSL_CERT_FILE"), *bundles) if path and Path(path).is_file()), None)
    texts = {
        "apt.conf": apt_settings(_printed(environ, "apt-config", "dump"), mirror is not None, bundle is not None),
        "pip.conf": pip_settings(_printed(environ, sys.executable, "-m", "pip", "config", "list"), bundle is not None),
    }
    if mirror is not None:
        texts["sources.list"] = f"deb {mirror} {RELEASE} main\n"
    if bundle is not None:
        texts["certificates.pem"] = Path(bundle).read_text("utf-8", "replace")
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
    return [folder / name for name in texts]


def _printed(environ: Mapping[str, str], *command: str) -> str:
    """The output of the command; empty if the command is not installed."""
    try:
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


def apt_settings(dump: str, sources: bool, bundle: bool) -> str:
    """Make an ``apt.conf(5)`` from the output of ``apt-config dump``, with only the settings for reaching servers."""
    lines = [line for line in dump.splitlines() if APT_SETTING.match(line)]
    if sources:
        lines += [f'Dir::Etc::SourceList "{SECRETS}/sources.list";', 'Dir::Etc::SourceParts "/dev/null";']
    if bundle:
        lines.append(f'Acquire::https::CaInfo "{SECRETS}/certificates.pem";')
    return "\n".join([*lines, ""])


def pip_settings(listed: str, bundle: bool) -> str:
    """Make a ``pip.conf`` from the output of ``pip config list``, with only the settings for reaching indexes.

    As in pip, the settings of the command ``install`` override global ones, and environment variables override both.
    """
    found: dict[str, str] = {}
    entries = [line.split("=", 1) for line in listed.splitlines() if "=" in line]
    for section in ("global", "install", ":env:"):
        for key, value in entries:
            name = key.removeprefix(f"{section}.")
            if name != key and name in PIP_SETTINGS:
                found[name] = " ".join(_reachable(name, str(ast.literal_eval(value)).split()))
    if bundle:
        found["cert"] = f"{SECRETS}/certificates.pem"
    return "".join(["[global]\n", *(f"{name} = {value}\n" for name, value in found.items() if value)])


def _reachable(name: str, values: list[str]) -> list[str]:
    """Drop folders of this machine from the values, because the build does not see these folders."""
    return [value for value in values if name not in PLACES or value.startswith(("http://", "https://"))]

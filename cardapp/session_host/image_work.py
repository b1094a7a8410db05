"""A build of the image: its folder, its lock, its steps, and what an interrupted one left behind.

The folder is ``card-session-image-UID`` in ``TMPDIR`` (default: ``/var/tmp``), because all state directories of a user
share one storage of images. The lock is on the folder itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from cardapp import private_directories
from cardapp.errors import CardAppError, MissingRequirement
from cardapp.session_host.podman import Podman, PodmanFailed

BASE = "localhost/card-session-base:latest"
"""A second name of the base during a build. podman names the containers of a build by it."""
UNFINISHED = "card-session-base-working-container"
LAST_LINES = 15
USER_IDS = 65536
"""As many as a Debian uses: it has the users 0 to 65534."""
VFS = (
    "podman copies the whole image for each container here (storage driver vfs), so a start takes long. To change it, "
    'write driver = "overlay" below [storage] into ~/.config/containers/storage.conf and run podman system reset; it '
    "removes all your containers and images"
)


class StepFailed(CardAppError):
    """A step of the build failed; the text has the last lines of its output."""

    code = "image_build_failed"


class ImageWork:
    """Holds the lock and the folder until the end of the ``with``, which removes the folder."""

    def __init__(self, podman: Podman, announce: Callable[[str], None]) -> None:
        self.podman = podman
        self.folder = Path(podman.environ.get("TMPDIR") or "/var/tmp") / f"card-session-image-{os.geteuid()}"
        info = podman.info()
        self._runtime = str(info["host"]["ociRuntime"]["path"])
        # podman keeps the files of a build in TMPDIR. In this folder the next build finds those of a killed one.
        self.environ = podman.environ | {"TMPDIR": str(self.folder / "tmp")}
        if os.geteuid() != 0:
            _check_user_ids(info)
            # Where XDG_RUNTIME_DIR is not set, podman would look for its running state in the new TMPDIR.
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
                    self.announce("another card-session image builds it already; waiting for its end")
                waits = True
                fcntl.flock(self._lock, fcntl.LOCK_EX)
            # The build that had the lock removed the folder.
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
        """Empty the folder: end what an interrupted build started, and remove its containers and files."""
        self._remove_leftovers()
        (self.folder / "tmp").mkdir()

    def _remove_leftovers(self) -> None:
        for folder in self.folder.glob("tmp/buildah*"):
            # Its processes outlive a killed podman. If they have ended, the runtime does not know the container.
            with contextlib.suppress(StepFailed):
                self._run_in_namespace(self._runtime, "delete", "--force", f"buildah-{folder.name}")
        listed = self.podman.run("ps", "--all", "--external", "--format=json", f"--filter=name={UNFINISHED}")
        for container in json.loads(listed.stdout or "[]"):
            self.podman.run("rm", "--force", container["Id"])
        with contextlib.suppress(PodmanFailed):  # there is none
            self.podman.run("untag", BASE, BASE)
        for path in self.folder.iterdir():
            self._run_in_namespace("rm", "-rf", "--one-file-system", str(path))

    def _run_in_namespace(self, *command: str) -> None:
        """Files of a Debian root belong to further user ids, which only root and podman's user namespace have."""
        done = subprocess.run(
            self.in_namespace(*command), env=self.environ, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise StepFailed(
                f"what an earlier build left cannot be removed: {' '.join(command)}: {done.stderr.strip()}"
            )

    def in_namespace(self, *command: str) -> list[str]:
        """``command`` as it runs with all user ids of this user."""
        return list(command) if os.geteuid() == 0 else self.podman.command("unshare", *command)

    def has_image(self, name: str) -> bool:
        with contextlib.suppress(PodmanFailed):
            self.podman.run("image", "exists", name)
            return True
        return False

    def tag_base(self, base: str) -> None:
        """Give the base the name :data:`BASE`, after which podman names the unfinished containers of a build."""
        if not self.has_image(base):
            self.run(f"fetching {base}", self.podman.command("pull", base))
        self.podman.run("tag", base, BASE)

    def run(self, step: str, command: Sequence[str]) -> None:
        """Run ``command`` to its end, without input and with its output in a file.

        :raises StepFailed: it cannot be run, or its exit code is not 0.
        """
        self.announce(f"{step} …")
        log = self.folder / "log"
        with log.open("wb") as output:
            # It ends with this process, also when that is killed.
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


def _check_user_ids(info: dict[str, Any]) -> None:
    """:raises MissingRequirement: this user has no ids for the users in a container."""
    if sum(each["size"] for each in info["host"]["idMappings"]["uidmap"] or []) >= USER_IDS:
        return
    name = pwd.getpwuid(os.geteuid()).pw_name
    raise MissingRequirement(
        f"{name} has no user ids for containers: /etc/subuid and /etc/subgid have no range of {USER_IDS} for it, or "
        "newuidmap is missing (Debian: apt-get install uidmap). root adds a range that no other user has: usermod "
        f"--add-subuids 100000-165535 --add-subgids 100000-165535 {name}; then run podman system migrate"
    )

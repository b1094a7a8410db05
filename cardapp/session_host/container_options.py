"""The options of a session's container: isolation, limits, and the mounts from the host.

These folders have the same path in the container as on the host: the session's directory and the card's folder, which
are read-only, and the session's ``run`` and its copy of the sources, which are writable. The repository is at
``/workspace``, read-only. The state directory with the API's socket is at ``/workspace/.state/card``; other sessions in
it are hidden. Other state directories in the repository are hidden, too, because a program could use their sockets even
on a read-only mount.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from cardapp.errors import CardAppError, UsageError
from cardapp.session_choice import write_json
from cardapp.session_host.container_limits import LIMITED_VARIABLE
from cardapp.session_host.directory import Record, SessionDirectory
from cardapp.session_host.process import DIRECTORY_VARIABLE
from cardapp.session_host.profile import ROOT, Limits, load_profile

WORKSPACE = "/workspace"
STATES = ".state"  # the repository's folder for state directories
STATE_INSIDE = f"{STATES}/card"
LABEL = "cardapp.session"
"""The label of sessions' containers. A stop finds the containers by this label."""
EMPTY = "ro,nosuid,nodev,size=4k,mode=700,notmpcopyup"
MAX_FILE = 1 << 30  # bytes of one file that a program in the container may write


class ContainerOptions:
    """Makes the options for the session of ``directory``. ``limited`` is true if podman can limit memory and
    processes. ``root`` is the repository."""

    def __init__(
        self, directory: SessionDirectory, environ: Mapping[str, str], *, limited: bool, root: Path = ROOT
    ) -> None:
        self._root = root
        self._directory = directory
        self._environ = environ
        self._limited = limited

    def arguments(self, record: Record) -> list[str]:
        """The options of ``podman run``, which precede the image.

        :raises UsageError: a setting or the profile does not allow a container.
        :raises CardAppError: a folder that the mounts need cannot be made in the repository.
        """
        limits, state = load_profile(record.profile).limits, self._directory.path.parent.parent
        if limits is None:
            raise UsageError(f"profile {record.profile} no longer has runtime = podman: stop the session")
        seccomp = write_seccomp_profile(self._directory.path / "seccomp.json")
        return [
            f"--name={self._name()}",
            f"--label={LABEL}={self._directory.path}",
            f"--hostname={self._directory.name}",
            "--pull=never",
            "--network=none",
            "--read-only",
            "--read-only-tmpfs=false",
            "--cap-drop=all",
            "--security-opt=no-new-privileges",
            *([f"--security-opt=seccomp={seccomp}"] if seccomp else []),
            *self._limits(limits),
            f"--ulimit=fsize={MAX_FILE}:{MAX_FILE}",
            "--ulimit=core=0:0",
            # Files in these folders count as memory, also after the program has ended.
            f"--tmpfs=/tmp:rw,nosuid,nodev,size={limits.memory // 8}m,mode=1777",
            f"--shm-size={limits.memory // 8}m",
            *self._mounts(record, state),
            *self._api_socket(state),
            f"--workdir={WORKSPACE}",
            "--env=HOME=/tmp",
            f"--env=CARD_STATE_DIR={WORKSPACE}/{STATE_INSIDE}",
            f"--env=CARDAPP_PROGRAM_SECONDS={limits.program_seconds}",
            f"--env={DIRECTORY_VARIABLE}={self._directory.path}",
        ]

    def _limits(self, limits: Limits) -> list[str]:
        if not self._limited:
            # This limit counts the processes of all containers of this user. It protects the machine.
            return [f"--ulimit=nproc={limits.processes}:{limits.processes}"]
        return [
            f"--memory={limits.memory}m",
            f"--memory-swap={limits.memory}m",
            f"--pids-limit={limits.processes}",
            f"--env={LIMITED_VARIABLE}=1",
        ]

    def _mounts(self, record: Record, state: Path) -> list[str]:
        card, work = Path(record.card_source).parent, self._directory.work(record.runtime)
        _make_mount_point(self._root / STATES)
        hidden = {f"{WORKSPACE}/{STATES}", f"{WORKSPACE}/{STATE_INSIDE}/sessions"}
        if state.is_relative_to(self._root) and not state.is_relative_to(self._root / STATES):
            hidden.add(f"{WORKSPACE}/{state.relative_to(self._root)}")
        return [
            _mount(self._root, WORKSPACE, "ro"),
            *(f"--tmpfs={path}:{EMPTY}" for path in sorted(hidden)),
            _mount(state, f"{WORKSPACE}/{STATE_INSIDE}", "ro"),
            _mount(card, str(card), "ro"),
            _mount(self._directory.path, str(self._directory.path), "ro"),
            _mount(self._directory.run, str(self._directory.run), "rw"),
            _mount(work, str(work), "rw"),
        ]

    def _api_socket(self, state: Path) -> list[str]:
        """The option with the path of the API's socket in the container. If the socket is outside of the state
        directory, also the option that mounts its folder.

        :raises UsageError: the socket's folder has other files, like sockets of other services in ``/run/user/UID``.
        """
        socket = Path(self._environ.get("CARD_API_SOCKET") or state / "card-api.sock").absolute()
        if socket.parent.resolve() == state:
            return [f"--env=CARD_API_SOCKET={WORKSPACE}/{STATE_INSIDE}/{socket.name}"]
        if any(path.name != socket.name for path in socket.parent.glob("*")):
            raise UsageError(
                f"CARD_API_SOCKET={socket}: the folder has other files, which a program in the container could use: "
                "move the socket to an empty folder"
            )
        return [f"--env=CARD_API_SOCKET={socket}", _mount(socket.parent, str(socket.parent), "ro")]

    def _name(self) -> str:
        """A name that is unique among the sessions of all state directories."""
        digest = hashlib.sha256(str(self._directory.path).encode()).hexdigest()[:8]
        return f"card-{self._directory.name}-{digest}"


def _mount(source: Path, target: str, mode: str) -> str:
    for path in (str(source), target):
        if ":" in path or "," in path:
            raise UsageError(f"{path} has a ':' or ',' in its path, which podman does not mount: use another folder")
    return f"--volume={source}:{target}:{mode}"


def _make_mount_point(path: Path) -> None:
    """Make a folder in the repository. The container cannot make it, because the repository is read-only there."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise CardAppError(
            f"{path} cannot be made ({error.strerror}), and the container needs it to mount the state directory there: "
            "make it once as the owner of the repository"
        ) from error


SECCOMP_DEFAULTS = (Path("/etc/containers/seccomp.json"), Path("/usr/share/containers/seccomp.json"))
ADDR_NO_RANDOMIZE = 0x0040000
"""The flag of personality(2) with which gdb starts programs, so that their addresses are the same in each run."""
SECCOMP_RULE = {
    "names": ["personality"],
    "action": "SCMP_ACT_ALLOW",
    "args": [{"index": 0, "value": ADDR_NO_RANDOMIZE, "op": "SCMP_CMP_EQ"}],
}


def write_seccomp_profile(path: Path, defaults: tuple[Path, ...] = SECCOMP_DEFAULTS) -> Path | None:
    """Write the seccomp profile to ``path`` and return the path; None if podman's default profile is not a file.

    If there is no file, podman uses its built-in profile, and a program has other addresses in each run.
    """
    for default in defaults:
        try:
            profile = json.loads(default.read_bytes())
        except FileNotFoundError:
            continue
        write_json(path, profile | {"syscalls": [*profile["syscalls"], SECCOMP_RULE]})
        return path
    return None

"""A new account of this machine that runs podman without root, with the image of sessions in its own storage."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from cardapp.session_host.image import Image
from cardapp.session_host.podman import Podman
from tests.functional import small_profile
from tests.functional.other_accounts import PYTHON, environment_for_all, requirements
from tests.functional.runtimes import image_or_skip
from tests.functional.session_process import SessionTool

PATH = "/usr/local/bin:/usr/bin:/bin"


class Account:
    """An account with a folder that has its home, the repository and the packages that a session needs."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.home = folder / "home"
        self.uid = pwd.getpwnam(name).pw_uid
        self.repository = folder / "repository"
        self._packages = Path()
        self._runtime = folder / "runtime"

    def prepare(self) -> None:
        self._runtime.mkdir(mode=0o700)
        os.chown(self._runtime, self.uid, self.uid)
        small_profile.repository(self.repository)
        (self.repository / ".state").mkdir()
        required = [*requirements("sheets"), *requirements("card")]
        self._packages = environment_for_all(self.folder / "environment", required)

    def command(self, *words: str, **environment: str) -> list[str]:
        """The command line that runs ``words`` as this account."""
        given = {
            "HOME": str(self.home), "USER": self.name, "PATH": PATH, "XDG_RUNTIME_DIR": str(self._runtime),
            "PYTHONPATH": f"{self.repository}:{self._packages}", "PYTHONDONTWRITEBYTECODE": "1", **environment,
        }  # fmt: skip
        become = ["setpriv", f"--reuid={self.name}", f"--regid={self.name}", "--init-groups"]
        return [*become, "env", "-i", *(f"{name}={value}" for name, value in given.items()), *words]

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words, **environment),
            capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300, check=False,
            cwd=self.home,
        )  # fmt: skip

    def podman(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run(*Podman({"PATH": os.environ["PATH"]}).command(*words))

    def take_image(self) -> None:
        """Copy root's image of sessions into the account's storage. An account can run images of its own storage
        only."""
        archive = self.folder / "image.tar"
        subprocess.run(
            Podman().command("save", "--quiet", "--output", archive, Image().name()), check=True, capture_output=True
        )
        archive.chmod(0o644)
        loaded = self.podman("load", "--quiet", "--input", str(archive))
        assert loaded.returncode == 0, loaded.stderr
        archive.unlink()
        tried = self.podman("run", "--rm", "--pull=never", "--network=none", Image().name(), "true")
        if tried.returncode != 0:
            pytest.skip(f"not run: podman runs no container without root here: {tried.stderr[-500:]}")

    def processes(self) -> dict[int, str]:
        """The account's processes with their names."""
        found = {}
        for entry in Path("/proc").iterdir():
            with suppress(OSError):  # it has ended
                if entry.name.isdigit() and entry.stat().st_uid == self.uid:
                    found[int(entry.name)] = (entry / "comm").read_text().strip()
        return found

    def end_processes(self) -> None:
        """podman leaves a process that keeps its user namespace open."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class AccountTool(SessionTool):
    """The session tool as that account runs it."""

    def __init__(self, account: Account) -> None:
        super().__init__(account.home / "state")
        self.account = account

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.account.run(
            PYTHON, "-P", "-m", "cardapp.session_host", *arguments, CARD_STATE_DIR=str(self.state), **environment
        )


@contextmanager
def account_with_podman() -> Iterator[Account]:
    """Skips, with the reason, if no account can be made or the account cannot run a container."""
    if os.geteuid() != 0:
        pytest.skip("not run: only root can make an account")
    for program in ("useradd", "setpriv", "newuidmap"):
        if shutil.which(program) is None:
            pytest.skip(f"not run: {program} is not on PATH (Debian packages passwd, util-linux, uidmap)")
    image_or_skip()
    name = f"cardtest{secrets.token_hex(3)}"
    folder = Path(tempfile.mkdtemp(prefix="card-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        subprocess.run(["useradd", "--create-home", f"--home-dir={folder}/home", name], check=True)
        account = Account(name, folder)
        account.prepare()
        account.take_image()
        yield account
    finally:
        with suppress(KeyError):
            Account(name, folder).end_processes()
            subprocess.run(["userdel", "--force", name], check=True, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)

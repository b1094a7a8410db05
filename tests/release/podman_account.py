"""A new account of this machine that runs podman without root, with a clone of the repository and its own image."""

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

from cardapp.session_host.image import Image
from cardapp.session_host.podman import Podman
from cardapp.session_host.profile import ROOT
from tests.capabilities import need
from tests.functional.session_process import SessionTool
from tests.release import small_profile
from tests.release.session_image import SECONDS, mirror

PASSED = ("SSL_CERT_FILE", "LANG", *(name for name in os.environ if name.startswith("PIP_")))


class Account:
    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.uid = pwd.getpwnam(name).pw_uid
        self.home, self.repository = folder / "home", folder / "home" / "repository"
        self._runtime = folder / "runtime"

    def prepare(self) -> None:
        """Clone the repository, add the small profile, and build the image."""
        self._runtime.mkdir(mode=0o700)
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, self.repository], check=True)
        small_profile.add_to(self.repository)
        settings = self.home / ".config" / "containers" / "storage.conf"
        settings.parent.mkdir(parents=True)
        settings.write_text('[storage]\ndriver = "overlay"\n')  # podman's default may copy the image for each container
        subprocess.run(["chown", "--recursive", f"{self.name}:", self._runtime, self.home], check=True)
        need(self.run("podman", "unshare", "true").returncode == 0, "a kernel that runs podman without root")
        done = self.run("bin/card-session", "image", DEBIAN_MIRROR=mirror())
        assert (done.returncode, done.stdout) == (0, f"{Image(self.repository).name()} is built\n"), done.stderr

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run ``words`` as this account, in its clone."""
        given = {name: os.environ[name] for name in PASSED if name in os.environ} | {
            "HOME": str(self.home), "USER": self.name, "PATH": "/usr/local/bin:/usr/bin:/bin",
            "XDG_RUNTIME_DIR": str(self._runtime), "TMPDIR": str(self.home), **environment,
        }  # fmt: skip
        become = ["setpriv", f"--reuid={self.name}", f"--regid={self.name}", "--init-groups"]
        return subprocess.run(
            [*become, "env", "-i", *(f"{name}={value}" for name, value in given.items()), *words],
            capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=SECONDS, check=False,
            cwd=self.repository,
        )  # fmt: skip

    def podman(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run(*Podman({"PATH": os.environ["PATH"]}).command(*words))

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
        return self.account.run("bin/card-session", *arguments, CARD_STATE_DIR=str(self.state), **environment)


@contextmanager
def account_with_podman() -> Iterator[Account]:
    need(os.geteuid() == 0, "root")
    programs = ("podman", "useradd", "setpriv", "newuidmap")
    need(all(map(shutil.which, programs)), "podman and newuidmap (Debian packages podman, uidmap)")
    name = f"cardtest{secrets.token_hex(3)}"
    folder = Path(tempfile.mkdtemp(prefix="card-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        subprocess.run(["useradd", "--create-home", f"--home-dir={folder}/home", name], check=True)
        account = Account(name, folder)
        account.prepare()
        yield account
    finally:
        with suppress(KeyError):
            Account(name, folder).end_processes()
            subprocess.run(["userdel", "--force", name], check=True, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)

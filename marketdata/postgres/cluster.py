"""The private PostgreSQL cluster of a state directory: made, started, watched and ended. Only the owner process
(``owner.py``) drives it, from its main thread.

    <state>/cluster/            0700, of the account that PostgreSQL runs as; holds the UNIX socket, the only way in
    <state>/cluster/data/       the data directory
    <state>/postgresql.conf     made at each start from etc/postgresql.conf
    <state>/database.log        what PostgreSQL and its owner have to say

PostgreSQL gets SIGINT from the kernel, a fast and clean shutdown, when the thread that started it dies of whatever
(prctl PR_SET_PDEATHSIG). PostgreSQL refuses to run as root: there it runs as ``postgres``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

from marketdata.errors import StateError, UsageError
from marketdata.postgres import binaries
from marketdata.postgres.processes import Account, end, named, tie_to_this_process, works_in
from marketdata.settings import ROOT

DATABASE = "marketdata"
SUPERUSER = "marketdata"
PORT = 5432
SOCKET_PATH_MAX = 107  # sockaddr_un.sun_path on Linux holds 108 bytes with the final NUL

FAST_SECONDS = 60.0
"""How long a fast shutdown, which writes everything out, may take before an immediate one."""
IMMEDIATE_SECONDS = 10.0

_LOG_BYTES = 8 << 20


class Cluster:
    """One private cluster. ``prepare``, then any number of ``launch``, ``ready`` and ``stop``."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir.resolve()
        self.folder = self._state_dir / "cluster"
        self.data = self.folder / "data"
        self.log = self._state_dir / "database.log"
        self._configuration = self._state_dir / "postgresql.conf"
        self._account: Account | None = None
        self._programs: binaries.Binaries | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def conninfo(self) -> str:
        return conninfo(self._state_dir)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The running postmaster."""
        assert self._process is not None, "launch comes first"
        return self._process

    # -- making it -------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Find the programs and, the first time, make the cluster. Our own errors say what stands in the way."""
        check_socket_path(self.folder / f".s.PGSQL.{PORT}")
        self._account = Account.of_this_process()
        self._make_folder(self._account)
        self._programs = binaries.find(data_major=self._data_major(), data=self.data)
        if self._data_major() is None:
            self._initialise()
        rotate(self.log)
        self._write_configuration()

    def _make_folder(self, account: Account) -> None:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        if os.geteuid() == 0:
            os.chown(self.folder, account.uid, account.gid, follow_symlinks=False)
            os.chmod(self._state_dir, 0o711)  # postgres has to pass through
        os.chmod(self.folder, 0o700)
        barred = _barred(self.folder, account)
        if barred is not None:
            raise StateError(
                f"PostgreSQL runs as the account postgres, which cannot pass through {barred} to {self.folder}. Let "
                f"others pass (chmod o+x {barred}), or set MARKET_STATE_DIR to a folder elsewhere",
                code="untraversable",
            )

    def _data_major(self) -> int | None:
        try:
            return int((self.data / "PG_VERSION").read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise StateError(
                f"{self.data} is no data directory of PostgreSQL ({error}); set MARKET_STATE_DIR to another folder"
            ) from error

    def _initialise(self) -> None:
        """initdb into a folder of its own, given its name when all of it is there."""
        for leftover in self.folder.glob("data.new-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        fresh = self.folder / f"data.new-{os.getpid()}"
        programs = self._found()
        # Sorting by code point whatever the system's C library says, now and after its next update.
        locale = ["--locale=C"]
        if programs.major >= 17:
            locale = ["--locale-provider=builtin", "--locale=C.UTF-8"]
        self._run(
            "initdb", "-D", fresh, "--username", SUPERUSER, "--encoding=UTF8", *locale, "--data-checksums",
            "--auth-local=trust", "--auth-host=reject", "--no-instructions",
        )  # fmt: skip
        self._run("postgres", "--single", "-D", fresh, "postgres", text=f"CREATE DATABASE {DATABASE};\n")
        fresh.rename(self.data)

    def _run(self, program: str, *arguments: str | Path, text: str = "") -> None:
        done = subprocess.run(
            [self._found().folder / program, *arguments],
            input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **self._child(),
        )  # fmt: skip
        # The single-user server exits with 0 whatever a statement of it came to.
        if done.returncode != 0 or "ERROR:" in done.stdout:
            raise StateError(f"{program} could not make the cluster in {self.folder}:\n{done.stdout.strip()}")

    def _write_configuration(self) -> None:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
        text = (ROOT / "etc" / "postgresql.conf").read_text(encoding="utf-8")
        text += (
            f"shared_buffers = {min(max(memory // 8, 64), 2048)}MB\neffective_cache_size = {max(memory // 2, 64)}MB\n"
        )
        fresh = self._configuration.with_suffix(".new")
        fresh.write_text(text, encoding="utf-8")
        os.chmod(fresh, 0o644)  # postgres reads it
        fresh.replace(self._configuration)

    # -- running it ------------------------------------------------------------------------------------------------

    def residents(self) -> list[int]:
        """The processes of any PostgreSQL that works in the data directory: each has it as its working directory."""
        return [pid for pid in named("postgres") if works_in(pid, self.data)]

    def launch(self) -> None:
        """Start the postmaster. Nothing may work in the data directory any more (``residents``).

        Then a ``postmaster.pid`` there is stale. PostgreSQL would see that itself, but not where its number has gone
        to another process of the same account since, as it does after a reboot.
        """
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        (self.folder / f".s.PGSQL.{PORT}.lock").unlink(missing_ok=True)
        with self.log.open("ab") as log:
            os.chmod(self.log, 0o600)
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                [
                    self._found().folder / "postgres", "-D", self.data, "-c", f"config_file={self._configuration}",
                    "-c", f"unix_socket_directories={_listed(self.folder)}", "-c", f"port={PORT}",
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, **self._child(),
            )  # fmt: skip

    def ready(self) -> bool:
        """True when the postmaster of ``launch`` takes connections (the last line of its pid file says so)."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(self.process.pid) and lines[7].strip() == "ready"

    def stop(self) -> None:
        """Shut down: fast, then immediate, then by force. Returns when no process of it is left."""
        if self._process is not None:
            for how, seconds in ((signal.SIGINT, FAST_SECONDS), (signal.SIGQUIT, IMMEDIATE_SECONDS)):
                if self._process.poll() is None:
                    self._process.send_signal(how)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        self._process.wait(seconds)
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
        end(self.residents(), signal.SIGKILL, IMMEDIATE_SECONDS)

    def last_words(self) -> str:
        """What PostgreSQL wrote since ``launch``, at most its last lines."""
        with contextlib.suppress(OSError), self.log.open("rb") as log:
            log.seek(max(self._log_start, log.seek(0, os.SEEK_END) - 2000))
            return log.read().decode(errors="replace").strip()
        return ""

    def _found(self) -> binaries.Binaries:
        assert self._programs is not None, "prepare comes first"
        return self._programs

    def _child(self) -> dict[str, Any]:
        assert self._account is not None, "prepare comes first"
        # A variable like PGDATA or PGOPTIONS in the shell around must not reach it.
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
        return {"cwd": "/", "env": environment, "preexec_fn": tie_to_this_process(), **self._account.options}


def conninfo(state_dir: Path) -> str:
    """The libpq connection string of the private cluster of ``state_dir``."""
    host = str(state_dir.resolve() / "cluster").replace("\\", "\\\\").replace("'", "\\'")
    return f"host='{host}' port={PORT} user={SUPERUSER} dbname={DATABASE}"


def check_socket_path(path: Path) -> None:
    """Refuse a UNIX socket path that the kernel would cut, or PostgreSQL's clients."""
    if "," in str(path):
        raise UsageError(
            f"the socket path {path} has a comma, at which PostgreSQL's clients separate hosts: "
            "set MARKET_STATE_DIR to a place without one"
        )
    length = len(str(path).encode())
    if length > SOCKET_PATH_MAX:
        raise UsageError(
            f"the socket path {path} is {length} bytes long, the kernel takes {SOCKET_PATH_MAX}: "
            "set MARKET_STATE_DIR to a shorter place"
        )


def rotate(log: Path) -> None:
    """Set a log that has grown large aside, as ``….1``."""
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > _LOG_BYTES:
            log.replace(log.with_suffix(".log.1"))


def _listed(folder: Path) -> str:
    """The path as the one element of PostgreSQL's list settings, which split at commas and strip spaces."""
    return '"' + str(folder).replace('"', '""') + '"'


def _barred(folder: Path, account: Account) -> Path | None:
    """The outermost of the folders down to ``folder`` that ``account`` cannot enter."""
    if os.geteuid() != 0:
        return None  # this process just made something in there
    way = [str(place) for place in (*reversed(folder.parents), folder)]
    script = 'for place; do [ -x "$place" ] || { printf %s "$place"; exit 1; }; done'
    command = ["sh", "-c", script, "sh", *way]
    done = subprocess.run(command, stdout=subprocess.PIPE, cwd="/", check=False, **account.options)
    return Path(os.fsdecode(done.stdout)) if done.returncode != 0 else None

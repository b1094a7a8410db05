"""Creates, starts, checks and stops the private PostgreSQL cluster of a state directory. Only the owner process
(``owner.py``) and a command with exclusive use (``exclusive.py``) call these functions, from their main threads.

    <state>/cluster/            0700, owned by the account that PostgreSQL runs as; holds the UNIX socket
    <state>/cluster/data/       the data directory; access.py writes who may log in
    <state>/postgresql.conf     written at each start from etc/postgresql.conf
    <state>/database.log        the log of PostgreSQL and its owner

PostgreSQL listens on UNIX sockets only. When the thread that started it dies, the kernel sends SIGINT to PostgreSQL
(prctl PR_SET_PDEATHSIG). This causes a fast and clean shutdown. PostgreSQL refuses to run as root, so root runs it as
``postgres``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path
from time import monotonic
from typing import Any

from marketdata.errors import StateError
from marketdata.postgres import binaries
from marketdata.postgres.access import (
    PORT,
    SUPERUSER,
    check_socket_path,
    check_traversable,
    prepare_socket_dir,
    remove_stale_lock,
    socket_in,
    write_rules,
)
from marketdata.postgres.binaries import ReplacementWatch
from marketdata.postgres.processes import (
    Account,
    continue_stopped,
    end_with_parent,
    find_by_name,
    has_working_directory,
    signal_and_wait,
)
from marketdata.settings import ROOT, Settings

DATABASE = "marketdata"

FAST_SHUTDOWN_TIMEOUT = 60.0
"""If a fast shutdown, which writes a checkpoint, takes longer than this many seconds, an immediate shutdown follows."""
IMMEDIATE_SHUTDOWN_TIMEOUT = 10.0
HELD_SECONDS = 2.0
"""How long a shutdown waits for a stopped process that does not continue because a debugger holds it."""
_LOOK_SECONDS = 0.2

_MAX_LOG_BYTES = 8 << 20


class Cluster:
    """One private cluster. Call ``prepare`` once, then ``start``, ``is_ready`` and ``stop`` any number of times.

    ``socket_dir`` is the folder of a second socket.
    """

    def __init__(self, state_dir: Path, socket_dir: Path | None = None) -> None:
        self._state_dir = state_dir.resolve()
        self.folder = self._state_dir / "cluster"
        self._socket_dir = socket_dir
        self.data = self.folder / "data"
        self.log = self._state_dir / "database.log"
        self._configuration = self._state_dir / "postgresql.conf"
        self._account: Account | None = None
        self._binaries: binaries.Binaries | None = None
        self._replacement_watch: ReplacementWatch | None = None
        self._postmaster: subprocess.Popen[bytes] | None = None
        self._log_offset = 0

    @property
    def conninfo(self) -> str:
        return conninfo(self._state_dir)

    @property
    def postmaster(self) -> subprocess.Popen[bytes]:
        """The process that ``start`` started."""
        assert self._postmaster is not None, "call start first"
        return self._postmaster

    # -- create ----------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Find the programs, create the cluster the first time, and write its configuration.

        Raises StateError, UsageError or MissingRequirement when this is not possible.
        """
        check_socket_path(socket_in(self.folder), "MARKET_STATE_DIR")
        self._account = Account.of_this_process()
        self._make_folder(self._account)
        if self._socket_dir is not None:
            prepare_socket_dir(self._socket_dir, self._account)
        self._binaries = binaries.find(data_major=self._data_major(), data=self.data)
        self._replacement_watch = ReplacementWatch(self._binaries)
        if self._data_major() is None:
            self._initialise(self._account)
        else:
            write_rules(self.data, self._account)
        rotate_log(self.log)
        self._write_configuration()

    def _make_folder(self, account: Account) -> None:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        if os.geteuid() == 0:
            os.chown(self.folder, account.uid, account.gid, follow_symlinks=False)
            os.chmod(self._state_dir, 0o711)  # so that postgres can traverse it
        os.chmod(self.folder, 0o700)
        check_traversable(self.folder, account, "MARKET_STATE_DIR")

    def _data_major(self) -> int | None:
        try:
            return int((self.data / "PG_VERSION").read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise StateError(
                f"{self.data} is not a data directory of PostgreSQL ({error}); set MARKET_STATE_DIR to another folder"
            ) from error

    def _initialise(self, account: Account) -> None:
        """Run initdb in a temporary folder and then rename it, so that an interrupted run leaves no broken cluster."""
        for leftover in self.folder.glob("data.new-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        fresh = self.folder / f"data.new-{os.getpid()}"
        # Text is sorted by code point, because the order must not depend on the version of the system's C library.
        locale = ["--locale=C"]
        if self._found().major >= 17:
            locale = ["--locale-provider=builtin", "--locale=C.UTF-8"]
        self._run(
            "initdb", "-D", fresh, "--username", SUPERUSER, "--encoding=UTF8", *locale, "--data-checksums",
            "--auth=reject", "--no-instructions",
        )  # fmt: skip
        self._run("postgres", "--single", "-D", fresh, "postgres", text=f"CREATE DATABASE {DATABASE};\n")
        write_rules(fresh, account)
        fresh.rename(self.data)

    def _run(self, program: str, *arguments: str | Path, text: str = "") -> None:
        done = subprocess.run(
            [self._found().folder / program, *arguments],
            input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            **self._child_options(),
        )  # fmt: skip
        # The single-user server exits with 0 even when a statement fails.
        if done.returncode != 0 or "ERROR:" in done.stdout:
            raise StateError(f"{program} failed to create the cluster in {self.folder}:\n{done.stdout.strip()}")

    def _write_configuration(self) -> None:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
        text = (ROOT / "etc" / "postgresql.conf").read_text(encoding="utf-8")
        text += (
            f"shared_buffers = {min(max(memory // 8, 64), 2048)}MB\neffective_cache_size = {max(memory // 2, 64)}MB\n"
        )
        fresh = self._configuration.with_suffix(".new")
        fresh.write_text(text, encoding="utf-8")
        os.chmod(fresh, 0o644)  # so that the account postgres can read it
        fresh.replace(self._configuration)

    # -- run -------------------------------------------------------------------------------------------------------

    def processes(self) -> list[int]:
        """The ids of all PostgreSQL processes that use the data directory, which is their working directory."""
        return [pid for pid in find_by_name("postgres") if has_working_directory(pid, self.data)]

    def start(self, *settings: str) -> None:
        """Start the postmaster, with these ``name=value`` settings. Before the call, no PostgreSQL process may use the
        data directory (``processes``).

        So an existing ``postmaster.pid`` is stale. It is removed, because PostgreSQL would refuse to start if another
        process of the account had the process id in this file, as happens after a reboot.
        """
        self._watch().started()
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        Path(f"{socket_in(self.folder)}.lock").unlink(missing_ok=True)
        folders, configured = [self.folder], {}
        if self._socket_dir is not None:
            remove_stale_lock(self._socket_dir, self.data)
            folders.append(self._socket_dir)
            # The modes of the folders decide who can reach the sockets; the folder of the first socket has 0700.
            configured["unix_socket_permissions"] = "0777"
        configured |= {
            "config_file": str(self._configuration),
            "unix_socket_directories": ", ".join(map(_quoted_item, folders)),
            "port": str(PORT),
        }
        with self.log.open("ab") as log:
            os.chmod(self.log, 0o600)
            self._log_offset = log.tell()
            self._postmaster = subprocess.Popen(
                [
                    self._found().folder / "postgres", "-D", self.data,
                    *(part for name, value in configured.items() for part in ("-c", f"{name}={value}")),
                    *(f"--{setting}" for setting in settings),
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, **self._child_options(),
            )  # fmt: skip

    def is_replaced(self) -> bool:
        """Whether PostgreSQL's programs were replaced since ``start`` and can be started."""
        return self._watch().is_replaced()

    def is_ready(self) -> bool:
        """Whether the postmaster accepts connections. As soon as it does, it writes ``ready`` to the last line of its
        pid file."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(self.postmaster.pid) and lines[7].strip() == "ready"

    def stop(self) -> None:
        """Shut down: fast, then immediately, then with SIGKILL. Returns when no process is left."""
        if self._postmaster is not None:
            for number, timeout in (
                (signal.SIGINT, FAST_SHUTDOWN_TIMEOUT),
                (signal.SIGQUIT, IMMEDIATE_SHUTDOWN_TIMEOUT),
            ):
                if self._postmaster.poll() is None:
                    self._postmaster.send_signal(number)
                    self._wait_for_end(timeout)
            if self._postmaster.poll() is None:
                self._postmaster.kill()
                # If a debugger holds the postmaster, its end is not visible to this process.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._postmaster.wait(HELD_SECONDS)
        signal_and_wait(self.processes(), signal.SIGKILL, IMMEDIATE_SHUTDOWN_TIMEOUT)

    def _wait_for_end(self, timeout: float) -> None:
        """Wait up to ``timeout`` seconds for the end of the postmaster, but only ``HELD_SECONDS`` if a stopped process
        cannot be continued."""
        deadline, held_since = monotonic() + timeout, None
        while (now := monotonic()) < deadline:
            if not continue_stopped(self.processes()):
                held_since = None
            elif held_since is None:
                held_since = now
            elif now - held_since >= HELD_SECONDS:
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.postmaster.wait(min(_LOOK_SECONDS, deadline - now))
                return

    def recent_log(self) -> str:
        """What PostgreSQL logged since ``start``, at most the last 2000 bytes."""
        with contextlib.suppress(OSError), self.log.open("rb") as log:
            log.seek(max(self._log_offset, log.seek(0, os.SEEK_END) - 2000))
            return log.read().decode(errors="replace").strip()
        return ""

    def _found(self) -> binaries.Binaries:
        assert self._binaries is not None, "call prepare first"
        return self._binaries

    def _watch(self) -> ReplacementWatch:
        assert self._replacement_watch is not None, "call prepare first"
        return self._replacement_watch

    def _child_options(self) -> dict[str, Any]:
        assert self._account is not None, "call prepare first"
        # Variables of this process, like PGDATA or PGOPTIONS, would change PostgreSQL's settings. So PostgreSQL gets
        # none of them.
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
        return {"cwd": "/", "env": environment, "preexec_fn": end_with_parent(), **self._account.options}


def conninfo(state_dir: Path) -> str:
    """The libpq connection string of the private cluster of ``state_dir``."""
    return f"host={_quoted_value(state_dir.resolve() / 'cluster')} port={PORT} user={SUPERUSER} dbname={DATABASE}"


def reader_conninfo(settings: Settings, role: str, passfile: Path) -> str:
    """The libpq connection string for other accounts that can reach a socket."""
    folder = settings.socket_dir or settings.state_dir.resolve() / "cluster"
    return f"host={_quoted_value(folder)} port={PORT} user={role} dbname={DATABASE} passfile={_quoted_value(passfile)}"


def _quoted_value(path: Path) -> str:
    """The path as a value in a libpq connection string."""
    return "'" + str(path).replace("\\", "\\\\").replace("'", "\\'") + "'"


def rotate_log(log: Path) -> None:
    """Rename a log of more than 8 MiB to ``….log.1``."""
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > _MAX_LOG_BYTES:
            log.replace(log.with_suffix(".log.1"))


def _quoted_item(folder: Path) -> str:
    """The path as a quoted item of a PostgreSQL list setting. PostgreSQL splits such a setting at commas and strips
    spaces around unquoted items."""
    return '"' + str(folder).replace('"', '""') + '"'

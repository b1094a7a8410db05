"""``try-release.sh``: what it says where it cannot run, that it leaves nothing, and and what it is for."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.capabilities import need
from tests.functional.session_process import eventually

SCRIPT = Path(__file__).with_name("try-release.sh")
NOT_THERE = "http://127.0.0.1:9"  # the port of discard, which nothing serves
# Begins a root, says where it is, and does not end.
DEBOOTSTRAP = (
    '#!/bin/bash\nmkdir -p "$4/proc"; mount -t tmpfs tmpfs "$4/proc"; echo "$4" >"$STUB_LOG"; exec sleep 600\n'
)


def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [shutil.which("bash") or "bash", str(SCRIPT), *arguments]
    return subprocess.run(command, env=os.environ | more, capture_output=True, text=True, check=False, timeout=120)


class Mirror(BaseHTTPRequestHandler):
    """A mirror that knows one release and has nothing of it."""

    def do_HEAD(self) -> None:
        self.send_response(200 if self.path == "/dists/trixie/Release" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def mirror() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Mirror) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every account may read, with a PATH on which ``debootstrap`` is a stand-in."""
    with tempfile.TemporaryDirectory(prefix="release-", dir="/tmp") as folder:
        place = Path(folder)
        place.chmod(0o755)
        (place / "bin").mkdir()
        (place / "bin" / "debootstrap").write_text(DEBOOTSTRAP)
        (place / "bin" / "debootstrap").chmod(0o755)
        (place / "temporary").mkdir()
        yield place


# -- where it cannot run ----------------------------------------------------------------------------------------------


def test_wrong_use_is_told() -> None:
    for arguments in ([], ["--tests"], ["trixie", "--test"], ["trixie", "--systemd", "x"], ["../x"]):
        done = run(*arguments)
        assert done.returncode == 2, arguments
        assert done.stderr.startswith("try-release: ")


@contextmanager
def stand_in(place: Path, mirror: str) -> Iterator[dict[str, str]]:
    """The environment for a run with the stand-in for debootstrap; skips where the machine allows no such run."""
    need_root()
    environment = {
        "PATH": f"{place}/bin:{os.environ['PATH']}",
        "TMPDIR": str(place / "temporary"),
        "STUB_LOG": str(place / "log"),
        "DEBIAN_MIRROR": mirror,
    }
    yield environment
    assert os.listdir(place / "temporary") == []
    assert str(place) not in Path("/proc/self/mountinfo").read_text()


def need_root() -> None:
    need(os.geteuid() == 0, "root, who alone can make a bare root of Debian")


def need_a_machine(done: subprocess.CompletedProcess[str]) -> None:
    """Skip a test whose run ended because something is missing on this machine."""
    need("is not on PATH" not in done.stderr, "debootstrap, unshare, setpriv, wget or git (Debian package debootstrap)")
    need("no namespaces" not in done.stderr, "namespaces of its own")
    need("no control groups" not in done.stderr, "control groups of version 2")
    need("knows no mirror" not in done.stderr, "a mirror of Debian")


def test_a_mirror_that_does_not_answer_or_lacks_the_release_is_told(place: Path, mirror: str) -> None:
    for address, release, fault in (
        (NOT_THERE, "trixie", " does not answer; check the network, or name another in DEBIAN_MIRROR"),
        (mirror, "potato", " has no release named potato"),
    ):
        with stand_in(place, address) as environment:
            done = run(release, **environment)
        need_a_machine(done)
        assert (done.returncode, done.stderr) == (3, f"try-release: the mirror {address}{fault}\n")


# -- what it leaves ---------------------------------------------------------------------------------------------------


def running(place: Path) -> list[str]:
    """The command lines of all processes that were started with this log."""
    mark, found = f"STUB_LOG={place}/log".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # it ended meanwhile
    return found


def test_a_failure_leaves_nothing(place: Path, mirror: str) -> None:
    (place / "bin" / "debootstrap").write_text(DEBOOTSTRAP.replace("exec sleep 600", "echo no room; exit 1"))
    with stand_in(place, mirror) as environment:
        done = run("trixie", **environment)
        need_a_machine(done)
        assert done.returncode == 1
        assert "no room\n" in done.stdout
        assert "or the root could not be made; see above\n" in done.stderr
    assert running(place) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_mount_and_no_process_outlives_it(place: Path, mirror: str, number: signal.Signals) -> None:
    with stand_in(place, mirror) as environment:
        with subprocess.Popen(
            ["env", "--default-signal", "bash", SCRIPT, "trixie"],
            env=os.environ | environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process:
            eventually(lambda: (place / "log").exists() or process.poll() is not None, seconds=30)
            if process.poll() == 3 and process.stderr is not None:
                pytest.fail(process.stderr.read().decode())
            eventually(lambda: any("sleep 600" in command for command in running(place)), seconds=30)
            process.send_signal(number)
            assert process.wait(30) == (143 if number is signal.SIGTERM else -number)
        eventually(lambda: running(place) == [], seconds=10)
        if number is signal.SIGKILL:  # nobody is left to remove the folder, whose mounts ended
            shutil.rmtree(place / "temporary")
            (place / "temporary").mkdir()


# -- what it is for ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", ["bookworm", "trixie"])
def test_a_sync_is_proved_on_a_fresh(release: str) -> None:
    assert "prove-sync: proved and ended within " in tried(release)


def test_the_units_work_under_systemd() -> None:
    """Debian with systemd as its first process: the commands of etc/systemd/README.md, and services that end."""
    assert "prove-units: the units work\n" in tried("trixie", "--systemd")


def tried(*arguments: str) -> str:
    """What the script printed, with this machine's own environment variables."""
    need_root()
    done = subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, check=False, timeout=1100)
    need_a_machine(done)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout

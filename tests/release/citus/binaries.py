"""The programs of a PostgreSQL with Citus, which are built once and kept outside the repository.

``TEST_CITUS`` names a prefix in which they are already; ``TEST_CITUS_SOURCE`` the source from which ``build.sh`` builds
them into the cache. Neither begins with ``MARKET_``, so that no program of the tests warns of an unknown setting.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from marketdata.postgres.access import check_traversable
from marketdata.postgres.processes import Account
from tests.capabilities import need

RELEASE = "citus-13.2.2"
_BUILD = Path(__file__).with_name("build.sh")
_PROGRAMS = Path("usr/lib/postgresql/15/bin")
_PACKAGES = (
    "postgresql-15", "postgresql-server-dev-15", "libcurl4-openssl-dev", "liblz4-dev", "libzstd-dev", "flex", "bison",
    "autoconf", "libkrb5-dev", "libssl-dev", "libselinux1-dev", "libxslt1-dev", "libpam0g-dev", "libreadline-dev",
    "zlib1g-dev", "gcc", "make", "xz-utils",
)  # fmt: skip


def binaries() -> Path:
    """The folder of ``initdb`` and ``postgres``."""
    if prefix := os.environ.get("TEST_CITUS"):
        programs, setting = Path(prefix).resolve() / _PROGRAMS, "TEST_CITUS"
    else:
        cache = _cache()
        if not cache.exists():
            _build(cache)
        programs, setting = cache / _PROGRAMS, "XDG_CACHE_HOME"
    assert (programs / "postgres").is_file(), f"{setting}: there is no {programs / 'postgres'}"
    check_traversable(programs, Account.of_this_process(), setting)
    return programs


def _cache() -> Path:
    """Root uses the system's cache, because the account ``postgres`` cannot read root's home."""
    default = Path("/var/cache") if os.geteuid() == 0 else Path.home() / ".cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or default) / f"marketdata-{RELEASE}"


def _build(cache: Path) -> None:
    """Build into a temporary folder, and rename it when it is complete. Other processes wait meanwhile."""
    source = os.environ.get("TEST_CITUS_SOURCE", "")
    need(source, f"Citus (TEST_CITUS_SOURCE is to name its source, {RELEASE}.tar.xz)")
    cache.parent.mkdir(parents=True, exist_ok=True)
    with cache.with_name(f"{cache.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if cache.exists():
            return
        _install_packages()
        with tempfile.TemporaryDirectory(prefix=f"{cache.name}.new-", dir=cache.parent) as folder:
            os.chmod(folder, 0o755)
            prefix = Path(folder) / "prefix"
            done = _run(_BUILD, source, prefix)
            assert done.returncode == 0, done.stdout[-4000:]
            prefix.rename(cache)


def _install_packages() -> None:
    """Install the Debian packages that the build needs. Only root can."""
    need(shutil.which("dpkg-query"), "Debian's packages, with which Citus is built")
    known = _run("dpkg-query", "-W", "-f=${Package} ${db:Status-Status}\n", *_PACKAGES).stdout.splitlines()
    missing = [name for name in _PACKAGES if f"{name} installed" not in known]
    if missing:
        need(os.geteuid() == 0, "the packages with which Citus is built, which root installs")
        done = _run("apt-get", "install", "-y", "-qq", *missing)
        need(done.returncode == 0, "the packages with which Citus is built, which apt-get installs")


def _run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )

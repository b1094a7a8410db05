"""``bin/marketdata-token rotate`` under requests, and killed at each point between its steps."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from marketdata.postgres.cluster import conninfo
from tests.functional.market_process import ROOT, ApiProcess, Client
from tests.functional.session_process import eventually

pytestmark = pytest.mark.functional

KILLED_AT = """
import os, runpy, signal, sys
from pathlib import Path
from marketdata import secretfile
from marketdata.operations import credential_files
from marketdata.store import tokens

point = sys.argv.pop(1)
def die(*_): os.kill(os.getpid(), signal.SIGKILL)
replace = Path.replace
def counted(self, target):
    if point == "before the files": die()
    replace(self, target)
    if point == "after a file": die()
Path.replace = counted
if point == "before the commit":
    encoded = secretfile.replaced
    def staged(*arguments):
        staging = encoded(*arguments)
        class Dying:
            def __enter__(self): staging.__enter__(); die()
            def __exit__(self, *_): pass
        return Dying()
    credential_files.secretfile.replaced = staged
if point == "before the revocation": tokens.revoke = die
sys.argv[0] = "marketdata"
runpy.run_module("marketdata", run_name="__main__", alter_sys=True)
"""
POINTS = {"before the commit": False, "before the files": True, "after a file": True, "before the revocation": True}
"""Whether the rotation is completed afterwards, or had not happened."""


@pytest.fixture
def api(state_dir: Path) -> Iterator[ApiProcess]:
    """Two files have the token for reads."""
    process = ApiProcess(state_dir)
    process.start()
    copy = state_dir / "secrets" / "copy.json"
    copy.write_text(copy.with_name("read.json").read_text())
    copy.chmod(0o600)
    yield process
    process.stop()


def rotate(api: ApiProcess, identity: str, *, point: str | None = None) -> subprocess.CompletedProcess[str]:
    program = ["-m", "marketdata"] if point is None else ["-c", KILLED_AT, point]
    return subprocess.run(
        [sys.executable, "-P", *program, "token", "rotate", identity, "--overlap", "0.3"],
        cwd=ROOT, env=os.environ | {"MARKET_STATE_DIR": str(api.state_dir), "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def works(api: ApiProcess, token: str) -> bool:
    with closing(Client(api.port, token)) as client:
        return client("GET", "/v1/symbols")[0] == 200


def held(api: ApiProcess) -> set[str]:
    return {api.token("read"), api.token("copy")}


def test_a_rotation_that_was_killed_is_recovered_at_the_next_start(api: ApiProcess) -> None:
    identity = 1
    for point, is_completed in POINTS.items():
        first = api.token("read")
        assert rotate(api, f"{identity}", point=point).returncode == -signal.SIGKILL, point
        assert all(works(api, token) for token in held(api)), "no user of a file is without a valid token"
        api.kill()
        api.start()
        (token,) = held(api)
        assert works(api, token), point
        assert (token != first) == is_completed, point
        assert works(api, first) != is_completed, "one of the two is valid"
        assert [path.name for path in (api.state_dir / "secrets").iterdir() if path.name.startswith(".")] == []
        identity = newest_identity(api) if is_completed else identity
    assert rotate(api, f"{identity}").returncode == 0, "it can be rotated again"
    assert works(api, api.token("read"))


def newest_identity(api: ApiProcess) -> int:
    listed = subprocess.run(
        [sys.executable, "-P", "-m", "marketdata", "token", "list"], cwd=ROOT, text=True, check=True,
        capture_output=True, env=os.environ | {"MARKET_STATE_DIR": str(api.state_dir)},
    )  # fmt: skip
    return max(int(line.split()[0]) for line in listed.stdout.splitlines() if line[:1].isdigit())


@pytest.mark.parametrize("obstacle", ["no database", ""])
def test_an_api_of_another_state_directory_completes_a_rotation_if_it_can(
    api: ApiProcess, state_dir: Path, obstacle: str
) -> None:
    first, folder = api.token("read"), state_dir / "secrets"
    assert rotate(api, "1", point="before the files").returncode == -signal.SIGKILL
    url = "postgresql://127.0.0.1:1/none" if obstacle else conninfo(state_dir)
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as state:
        other = ApiProcess(Path(state), DATABASE_URL=url, MARKET_SECRETS_DIR=str(folder))
        other.start()
        said = other.log.read_text()
        if not obstacle:
            eventually(lambda: not works(other, first))
            assert all(works(other, token) for token in held(api) - {first})
        other.stop()
    assert (f"a rotation of the tokens in {folder} may be incomplete: " in said) == bool(obstacle)
    assert any(path.name.startswith(".") for path in folder.iterdir()) == bool(obstacle)


def test_the_next_rotation_completes_one_that_was_killed(api: ApiProcess) -> None:
    first = api.token("read")
    assert rotate(api, "1", point="after a file").returncode == -signal.SIGKILL
    done = rotate(api, "3")
    assert done.returncode == 0
    assert "token 1: revoked" in done.stderr
    assert not works(api, first)
    (token,) = held(api)
    assert works(api, token)


def test_who_reads_the_file_for_each_request_is_never_refused(api: ApiProcess) -> None:
    stopping, statuses = threading.Event(), []

    def ask() -> None:
        while not stopping.is_set():
            statuses.append(works(api, api.token("read")))

    readers = [threading.Thread(target=ask) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        before = api.token("read")
        assert rotate(api, "1").returncode == 0
        assert api.token("read") != before
        eventually(lambda: not works(api, before), 60)
        asked = len(statuses)
        eventually(lambda: len(statuses) > asked + 10, 60)
    finally:
        stopping.set()
        for reader in readers:
            reader.join(60)
    assert all(statuses)
    assert json.loads((api.state_dir / "secrets" / "read.json").read_text())["scope"] == "read"

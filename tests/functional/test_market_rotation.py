"""``bin/marketdata-token rotate`` under requests, and killed at each point between its steps."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from marketdata.operations.credential_files import locked_folder
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
replaced = []
def counted(self, target):
    if point == "before the files": die()
    replace(self, target)
    replaced.append(target)
    if point == "after a file" or (point == "after the files" and len(replaced) == 2): die()
Path.replace = counted
if point == "before the token": tokens.create = die
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
POINTS = {
    "before the token": False, "before the commit": False, "before the files": True, "after a file": True,
    "after the files": True, "before the revocation": True,
}  # fmt: skip
"""Whether the rotation is completed afterwards, or had not happened."""


@pytest.fixture
def api(state_dir: Path) -> Iterator[ApiProcess]:
    process = ApiProcess(state_dir)
    process.start()
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


def copy_token(api: ApiProcess) -> None:
    file = api.state_dir / "secrets" / "read.json"
    copy = file.with_name("copy.json")
    copy.write_text(file.read_text())
    copy.chmod(0o600)


@pytest.mark.parametrize(
    "point", [pytest.param(each, marks=[] if each == "after the files" else pytest.mark.full) for each in POINTS]
)
def test_a_rotation_that_was_killed_is_recovered_at_the_next_start(api: ApiProcess, point: str) -> None:
    copy_token(api)
    first = api.token("read")
    assert works(api, first)
    done = rotate(api, "1", point=point)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert all(works(api, token) for token in held(api)), "no user of a file is without a valid token"
    api.kill()
    api.start()
    (token,) = held(api)
    assert works(api, token)
    assert (token != first) == POINTS[point]
    assert works(api, first) != POINTS[point], "one of the two is valid"
    assert [path.name for path in (api.state_dir / "secrets").iterdir() if path.name.startswith(".")] == []
    last = str(1 + 2 * POINTS[point])
    assert rotate(api, last).returncode == 0, "it can be rotated again"
    assert works(api, api.token("read"))


@pytest.mark.full
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_rotation_is_recovered_by_an_api_on_another_database_too(
    api: ApiProcess, state_dir: Path, point: str
) -> None:
    """The start of an API recovers it, although this API creates neither the database nor the tokens."""
    copy_token(api)
    first, folder = api.token("read"), state_dir / "secrets"
    assert rotate(api, "1", point=point).returncode == -signal.SIGKILL
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as state:
        other = ApiProcess(Path(state), DATABASE_URL=conninfo(state_dir), MARKET_SECRETS_DIR=str(folder))
        other.start()
        try:
            (token,) = held(api)
            assert works(other, token)
            assert (token != first) == POINTS[point]
            eventually(lambda: works(other, first) != POINTS[point])
            assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []
        finally:
            other.stop()


@pytest.mark.full
@pytest.mark.parametrize("obstacle", ["a rotation that runs", "no database"])
def test_an_api_starts_though_a_rotation_cannot_be_completed(api: ApiProcess, state_dir: Path, obstacle: str) -> None:
    assert rotate(api, "1", point="before the files").returncode == -signal.SIGKILL
    url = conninfo(state_dir) if obstacle == "a rotation that runs" else "postgresql://127.0.0.1:1/none"
    folder = state_dir / "secrets"
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as state:
        other = ApiProcess(Path(state), DATABASE_URL=url, MARKET_SECRETS_DIR=str(folder))
        with locked_folder(folder) if obstacle == "a rotation that runs" else nullcontext():
            other.start()
        said = other.log.read_text()
        other.stop()
    assert (f"a rotation of the tokens in {folder} may be incomplete: " in said) == (obstacle == "no database")
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] != []


@pytest.mark.full
def test_the_next_rotation_completes_one_that_was_killed(api: ApiProcess) -> None:
    copy_token(api)
    first = api.token("read")
    assert rotate(api, "1", point="after a file").returncode == -signal.SIGKILL
    done = rotate(api, "3")
    assert done.returncode == 0
    assert "token 1: revoked" in done.stderr
    assert not works(api, first)
    (token,) = held(api)
    assert works(api, token)


@pytest.mark.full
def test_who_reads_the_file_for_each_request_is_never_refused(api: ApiProcess, loops: Callable[..., int]) -> None:
    stopping, statuses = threading.Event(), []

    def ask() -> None:
        while not stopping.is_set():
            statuses.append(works(api, api.token("read")))

    readers = [threading.Thread(target=ask) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for identity in ("1", "3", "4")[: loops(quick=1, full=3)]:
            before, asked = api.token("read"), len(statuses)
            assert rotate(api, identity).returncode == 0
            assert api.token("read") != before
            eventually(lambda before=before: not works(api, before))  # type: ignore[misc]
            eventually(lambda asked=asked: len(statuses) > asked + 10)  # type: ignore[misc]
    finally:
        stopping.set()
        for reader in readers:
            reader.join(60)
    assert all(statuses)
    assert json.loads((api.state_dir / "secrets" / "read.json").read_text())["scope"] == "read"

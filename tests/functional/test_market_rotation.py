"""``bin/marketdata-token rotate`` under requests, and killed at each point between its steps."""

from __future__ import annotations

import json
import signal
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from marketdata.postgres.cluster import conninfo
from tests.functional.market_process import ApiProcess, Client, command
from tests.functional.session_process import eventually

pytestmark = pytest.mark.functional

POINTS = {
    ("marketdata.secretfile", "replaced", "2", "after"): False,
    ("pathlib", "Path.replace", "1", "before"): True,
    ("pathlib", "Path.replace", "1", "after"): True,
    ("marketdata.store.tokens", "revoke", "1", "before"): True,
}
"""Before the commit, before the files get their names, after the first one has it, and before the revocation; and
whether the rotation is completed afterwards, or had not happened."""


@pytest.fixture(scope="module")
def api() -> Iterator[ApiProcess]:
    """Two files have the token for reads."""
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        process = ApiProcess(Path(folder))
        process.start()
        copy = process.state_dir / "secrets" / "copy.json"
        copy.write_text(copy.with_name("read.json").read_text())
        copy.chmod(0o600)
        yield process
        process.stop()


def rotate(api: ApiProcess, point: Sequence[str] = ()) -> int:
    """Rotate the newest token for reads. Returns the exit code."""
    with psycopg.connect(conninfo(api.state_dir)) as connection:
        ((identity,),) = connection.execute("SELECT max(id) FROM api_tokens WHERE scope = 'read'").fetchall()
    return command(api.state_dir, "token", "rotate", f"{identity}", "--overlap", "0.3", killed_at=point).returncode


def works(api: ApiProcess, token: str) -> bool:
    with closing(Client(api.port, token)) as client:
        return client("GET", "/v1/symbols")[0] == 200


def held(api: ApiProcess) -> set[str]:
    return {api.token("read"), api.token("copy")}


def test_a_rotation_that_was_killed_is_recovered_at_the_next_start(api: ApiProcess) -> None:
    for point, is_completed in POINTS.items():
        first = api.token("read")
        assert rotate(api, point) == -signal.SIGKILL, point
        assert all(works(api, token) for token in held(api)), "no user of a file is without a valid token"
        api.kill()
        api.start()
        (token,) = held(api)
        assert works(api, token), point
        assert (token != first) == is_completed, point
        assert works(api, first) != is_completed, "one of the two is valid"
        assert [path.name for path in (api.state_dir / "secrets").iterdir() if path.name.startswith(".")] == []
    assert rotate(api) == 0, "it can be rotated again"
    assert works(api, api.token("read"))


def test_an_api_of_another_state_directory_completes_a_rotation_if_it_can(api: ApiProcess, state_dir: Path) -> None:
    first, folder = api.token("read"), api.state_dir / "secrets"
    assert rotate(api, list(POINTS)[1]) == -signal.SIGKILL
    for can, url in ((False, "postgresql://127.0.0.1:1/none"), (True, conninfo(api.state_dir))):
        other = ApiProcess(state_dir, DATABASE_URL=url, MARKET_SECRETS_DIR=str(folder))
        other.log.unlink(missing_ok=True)
        other.start()
        said = other.log.read_text()
        if can:
            eventually(lambda other=other: not works(other, first))
            assert all(works(other, token) for token in held(api) - {first})
        other.stop()
        assert (f"a rotation of the tokens in {folder} may be incomplete: " in said) != can
        assert any(path.name.startswith(".") for path in folder.iterdir()) != can


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
        assert rotate(api) == 0
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

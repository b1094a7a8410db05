"""schemathesis against the running API, by the API's own description: nothing in it may turn out untrue.

No 500, no status, header or media type that is not described, every body of its schema, nothing let in that should not
be; what it is told beside the description stands in ``schemathesis.toml`` and ``schemathesis_hooks.py``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from marketdata import token
from tests.functional.market_process import ROOT, ApiProcess, Client

pytestmark = pytest.mark.functional

ADMIN_SECRET = "an-administrators-secret-of-this-test"
REVOKE = "deleteAdminTokensId"

Loops = Callable[..., int]


@pytest.fixture(scope="module")
def api() -> Iterator[ApiProcess]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        secrets = Path(folder, "secrets")
        secrets.mkdir(mode=0o700)
        (secrets / "admin.json").touch(0o600)
        (secrets / "admin.json").write_text(json.dumps({"token": ADMIN_SECRET}))
        process = ApiProcess(Path(folder))
        process.start()
        try:
            store_ticks(process)
            yield process
        finally:
            process.stop()


def store_ticks(api: ApiProcess) -> None:
    """Ticks of the symbols that ``schemathesis.toml`` names."""
    ticks = [
        {"symbol": symbol, "id": str(n), "ts": 1_700_000_000_000 + n * 50_000, "price": f"{n + 1}.5", "size": "2"}
        for symbol in ("SCHEMA:A", "SCHEMA:B")
        for n in range(500)
    ]
    with closing(Client(api.port, api.token("alg"))) as client:
        assert client("POST", "/v1/ingest/tick", {"ticks": ticks})[0] == 200


@pytest.fixture
def tokens(api: ApiProcess) -> dict[str, str]:
    """Fresh ones by their scope: a run of schemathesis revokes tokens where it may."""
    made = {"admin": ADMIN_SECRET}
    with closing(Client(api.port, ADMIN_SECRET)) as client:
        for scope in ("read", "write"):
            status, answer = client("POST", "/v1/admin/tokens", {"name": "schemathesis", "scope": scope})
            assert status == 201
            made[scope] = answer["token"]
    return made


def run(api: ApiProcess, shown: dict[str, str], *options: str) -> None:
    """Let schemathesis ask, with ``shown`` as the credentials of each scope; its report is the failure."""
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "READ_TOKEN": shown["read"],
        "WRITE_TOKEN": shown["write"],
        "ADMIN_SECRET": shown["admin"],
    }
    settings = ROOT / "tests" / "functional" / "schemathesis.toml"
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp") as folder:
        done = subprocess.run(
            [
                sys.executable, "-P", "-m", "schemathesis.cli", "--config-file", settings,
                "run", f"http://127.0.0.1:{api.port}/openapi.json", "--no-color", "--continue-on-failure", *options,
            ],
            cwd=folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in api.log.read_text()


@pytest.fixture
def effort(loops: Loops) -> list[str]:
    """The quick run asks what each rule of the schemas suggests and a little beyond, and follows no links."""
    return [
        "--max-examples",
        str(loops(quick=10, full=400)),
        *["--phases", "coverage,fuzzing"] * loops(quick=1, full=0),
    ]


def test_whoever_may_ask(api: ApiProcess, tokens: dict[str, str], effort: list[str]) -> None:
    run(api, tokens, "--exclude-operation-id", REVOKE, *effort)


def test_the_administration_of_tokens(api: ApiProcess, tokens: dict[str, str], effort: list[str]) -> None:
    run(api, tokens, "--include-path-regex", "^/v1/admin/", *effort)


@pytest.mark.parametrize("holder", ["read", "write", "admin", "nobody"])
def test_one_token_for_everything(api: ApiProcess, tokens: dict[str, str], holder: str, loops: Loops) -> None:
    """Half of it is refused then, or all, which is described as well."""
    if not loops(quick=0, full=1):
        pytest.skip("wrong tokens for everything only with --full; the quick run has tried each operation without any")
    shown = dict.fromkeys(tokens, (tokens | {"nobody": token.generate()})[holder])
    run(api, shown, "--phases", "coverage", "--exclude-operation-id", REVOKE, "--warnings", "off")

"""The description of the data API, checked by schemathesis with every kind of token."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from marketdata import secretfile
from tests.functional.description import hold_true
from tests.functional.market_process import ApiProcess, Client

pytestmark = pytest.mark.functional

ADMIN_SECRET = "an-administrators-secret-of-this-test"
ADMIN = "^/v1/admin/"
FEW = ("--max-examples", "1", "--phases", "coverage,fuzzing")
"""The cases derived from each rule of a schema, and one random one for each operation."""


@pytest.fixture(scope="module")
def api() -> Iterator[ApiProcess]:
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        secrets = Path(folder, "secrets")
        secrets.mkdir(mode=0o700)
        secretfile.write(secrets / secretfile.ADMIN_SECRET, {"token": ADMIN_SECRET})
        process = ApiProcess(Path(folder))
        process.start()
        try:
            store_ticks(process)
            yield process
        finally:
            process.stop()


def store_ticks(api: ApiProcess) -> None:
    """Ticks of the symbols that ``market_schemathesis.toml`` names."""
    ticks = [
        {"symbol": symbol, "id": str(n), "ts": 1_700_000_000_000 + n * 50_000, "price": f"{n + 1}.5", "size": "2"}
        for symbol in ("SCHEMA:A", "SCHEMA:B")
        for n in range(500)
    ]
    with closing(Client(api.port, api.token("alg"))) as client:
        assert client("POST", "/v1/ingest/tick", {"ticks": ticks})[0] == 200


@pytest.fixture
def tokens(api: ApiProcess) -> dict[str, str]:
    """Fresh tokens by their scope, because a run of schemathesis revokes tokens where it may."""
    made = {"admin": ADMIN_SECRET}
    with closing(Client(api.port, ADMIN_SECRET)) as client:
        for scope in ("read", "write"):
            status, answer = client("POST", "/v1/admin/tokens", {"name": "schemathesis", "scope": scope})
            assert status == 201
            made[scope] = answer["token"]
    return made


def run(api: ApiProcess, shown: dict[str, str], *options: str) -> None:
    """Run schemathesis, with ``shown`` as the credentials of each scope."""
    secrets = {"READ_TOKEN": shown["read"], "WRITE_TOKEN": shown["write"], "ADMIN_SECRET": shown["admin"]}
    hold_true(f"http://127.0.0.1:{api.port}/openapi.json", "market_schemathesis.toml", *options, **secrets)
    assert "Traceback" not in api.log.read_text()


def test_responses_to_the_required_scope_match_the_description(api: ApiProcess, tokens: dict[str, str]) -> None:
    run(api, tokens, "--exclude-path-regex", ADMIN, *FEW)


def test_the_administration_of_tokens_matches_the_description(api: ApiProcess, tokens: dict[str, str]) -> None:
    run(api, tokens, "--include-path-regex", ADMIN, *FEW)

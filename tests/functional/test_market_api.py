"""The launched API: every example of its pages works, no secret is in a public place, and the API ends cleanly."""

from __future__ import annotations

import os
import re
import subprocess
import textwrap
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest

from marketdata import secretfile, token
from marketdata.api.app import ROUTES
from marketdata.postgres import binaries
from marketdata.settings import load
from tests.functional.market_process import ROOT, SECONDS, ApiProcess, Client, command

pytestmark = pytest.mark.functional

README, API_PAGE, SQL_PAGE = (
    (ROOT / "marketdata" / name).read_text(encoding="utf-8") for name in ("README.md", "api.md", "sql.md")
)
ADMIN_SECRET = "an-administrators-secret-of-this-test"


@pytest.fixture
def api(state_dir: Path) -> Iterator[ApiProcess]:
    (state_dir / "secrets").mkdir(mode=0o700)
    secretfile.write(state_dir / "secrets" / secretfile.ADMIN_SECRET, {"token": ADMIN_SECRET})
    process = ApiProcess(state_dir)
    process.start()
    yield process
    process.stop()


def test_every_example_of_the_pages_works(api: ApiProcess) -> None:
    """Each page is run alone, because no page may need the commands of another one."""
    environment = os.environ | {"MARKET_STATE_DIR": str(api.state_dir)}
    for page, answer in ((README, '"o": "2500.25"'), (API_PAGE, '"accepted": 4')):
        blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
        script = "\n".join(each for each in blocks if not each.startswith("bin/marketdata-api"))
        script = script.replace("API=http://127.0.0.1:8787", f"API=http://127.0.0.1:{api.port}")
        script = "set -euo pipefail\n" + script.replace("curl -sS", "curl -sS --fail-with-body -w '\\n'")
        done = subprocess.run(
            ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert answer in done.stdout
    check_sql_examples(api.state_dir)


def check_sql_examples(state_dir: Path) -> None:
    """psql, as the reader, prints what the page shows."""
    psql = binaries.find(data_major=None, data=Path("psql")).folder / "psql"
    if not psql.exists():  # a PostgreSQL from a Python package has none
        return
    reader = command(state_dir, "reader", "passwd").stdout.splitlines()[-1].removeprefix('psql "').removesuffix('"')
    examples = re.findall(r"^    marketdata=> (SELECT .*;)\n((?:    .+\n)+)", SQL_PAGE, re.MULTILINE)
    assert len(examples) == 2
    for statement, output in examples:
        done = subprocess.run([psql, "-X", reader, "-c", statement], capture_output=True, text=True, check=True)
        assert [line.rstrip() for line in done.stdout.splitlines() if line] == textwrap.dedent(output).splitlines()


def test_every_endpoint_has_an_example() -> None:
    shown = [each.replace("\\\n", " ") for each in re.findall(r"curl -sS(?:[^\n]*\\\n)*[^\n]*", API_PAGE)]
    for route in ROUTES:
        pattern = re.escape("$API") + re.sub(r"\\\{\w+\\\}", r"[^/\"?]+", re.escape(route.path)) + r"[\"?]"
        assert any(re.search(pattern, each) and method_of(each) == route.method for each in shown), (
            f"{route.method} {route.path} has no example"
        )


def method_of(example: str) -> str:
    """The method, by the rules of curl: that of -X, otherwise POST if the command sends a body."""
    said = re.search(r" -X ([A-Z]+)", example)
    if said:
        return said[1]
    return "POST" if re.search(r" (-d|--data-binary) ", example) else "GET"


def test_the_examples_look_where_the_tokens_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/h")
    lines, repeated = (re.findall(r"^(?:STATE|SECRETS)=.*$", page, re.MULTILINE) for page in (README, API_PAGE))
    assert repeated == lines
    for user, variables in (
        (0, {}), (1000, {}), (1000, {"XDG_STATE_HOME": "/s"}),
        (1000, {"MARKET_STATE_DIR": "/m", "MARKET_SECRETS_DIR": "/n"}),
    ):  # fmt: skip
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        environment = {"HOME": "/h", "PATH": os.environ["PATH"], **variables}
        script = "\n".join(["set -eu", f"id() {{ echo {user}; }}", *lines, 'echo "$SECRETS"'])
        done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == str(load(variables).secrets_dir), (user, variables)


def test_nothing_secret_is_where_others_look_and_a_stop_leaves_no_traceback(api: ApiProcess) -> None:
    secrets = [ADMIN_SECRET, api.token("read"), api.token("alg")]
    unusable = [token.generate(), secrets[1][:-1], secrets[1] + " twice", "ä" + secrets[1]]
    for secret in [*secrets, *unusable]:
        with closing(Client(api.port, secret)) as client:
            paths = ("/v1/admin/tokens", "/v1/symbols", "/v1/nothing", "/metrics", "/openapi.json")
            responses = [client("POST", "/v1/ingest/tick"), *(client("GET", path) for path in paths)]
            assert not [each for each in responses for known in (secret, *secrets) if known in str(each)]
            client("GET", f"/v1/chart?symbol={quote(secret)}&interval=1m")
            client("POST", "/v1/ingest/tick", {"secret": secret})
    with closing(Client(api.port, ADMIN_SECRET)) as client:
        status, made = client("POST", "/v1/admin/tokens", {"name": "n", "scope": "read"})
    assert status == 201
    seen = Path(f"/proc/{api.pid}/cmdline").read_text() + Path(f"/proc/{api.pid}/environ").read_text()
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            seen += process.read_text(errors="replace")
        except OSError:  # the process ended meanwhile
            continue
    for file in api.state_dir.rglob("*"):
        if file.is_file() and file.parent.name != "secrets":
            seen += file.read_bytes().decode("latin-1")
    for secret in [*secrets, *unusable, made["token"]]:
        assert secret not in seen
    assert api.stop() == 0
    assert "Traceback" not in api.log.read_text()

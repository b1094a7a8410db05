"""The protocol's own conformance suite runs, through a bridge, against our server, a real session and our client.

``mcp_out_of_scope.yml`` lists the checks of the suite that do not apply here, with the reasons.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cardapp.mcp.server import UnixListener
from tests.functional.mcp_conformance_tools import conformance_server
from tests.functional.mcp_http_bridge import HttpFront
from tests.functional.registry import NpmPrograms
from tests.functional.serving import Sessions, make_card

pytestmark = pytest.mark.functional

OUT_OF_SCOPE = Path(__file__).with_name("mcp_out_of_scope.yml")
CLIENT = f"{sys.executable} -P -m tests.functional.mcp_conformance_client"
REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
RUNS: list[str | None] = [*REVISIONS, None]
"""Without a revision the suite runs each scenario with the newest revision that it knows for the scenario, and the
extensions."""
CALLS = {"tools-list", "tools-call-simple-text", "tools-call-error", "tools-call-with-progress"}
SERVED = {
    "2025-03-26": {"server-session-lifecycle"},
    "2025-06-18": CALLS | {"server-initialize", "server-session-lifecycle", "ping"},
    "2025-11-25": CALLS | {"server-initialize", "ping", "server-sse-multiple-streams", "json-schema-2020-12"},
    "2026-07-28": CALLS | {"server-sse-multiple-streams", "json-schema-2020-12"},
    None: CALLS | {"server-initialize", "ping", "server-sse-multiple-streams", "json-schema-2020-12"},
}
MODERN_CLIENT = {"tools_call", "request-metadata", "json-schema-ref-no-deref", "json-schema-2020-12-preservation"}
ASKED = {
    "2025-06-18": {"initialize", "tools_call"},
    "2025-11-25": {"initialize", "tools_call", "json-schema-2020-12-preservation"},
    "2026-07-28": MODERN_CLIENT,
    None: MODERN_CLIENT | {"initialize"},
}
"""For 2025-03-26 the suite has only two scenarios for a client. Both test authorization, which is out of scope, so the
suite would check nothing. At that revision our client is tested by its own tests and with releases of the reference
implementation."""


def passed(done: subprocess.CompletedProcess[str]) -> set[str]:
    """The scenarios with at least one passed and no failed check. The run must end without an unexpected result."""
    assert done.returncode == 0, done.stdout[done.stdout.rfind("SUMMARY") :] + done.stderr
    return set(re.findall(r"^✓ (\S+): [1-9]\d* passed, 0 failed", done.stdout, re.MULTILINE))


def suite(side: str, revision: str | None) -> list[object]:
    version = [] if revision is None else ["--spec-version", revision]
    return [side, "--suite", "all", *version, "--expected-failures", OUT_OF_SCOPE]


@pytest.fixture
def front(state_dir: Path) -> Iterator[HttpFront]:
    listener = UnixListener(state_dir / "s", conformance_server())
    listener.start()
    with HttpFront(state_dir / "s") as front:
        yield front
    listener.stop()


@pytest.mark.parametrize("revision", RUNS)
def test_our_server_passes_the_suite(npm_programs: NpmPrograms, front: HttpFront, revision: str | None) -> None:
    done = npm_programs.run("conformance", *suite("server", revision), "--url", front.url)
    assert passed(done) >= SERVED[revision]


@pytest.mark.parametrize("revision", ASKED)
def test_our_client_passes_the_suite(npm_programs: NpmPrograms, revision: str | None) -> None:
    done = npm_programs.run("conformance", *suite("client", revision), "--command", CLIENT)
    assert passed(done) >= ASKED[revision]


@pytest.fixture(scope="module")
def session_front() -> Iterator[HttpFront]:
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as folder:
        sessions = Sessions(Path(folder) / "state")
        try:
            sessions.start(make_card(Path(folder) / "card"))
            with HttpFront(sessions.socket) as front:
                yield front
        finally:
            sessions.stop()


@pytest.mark.parametrize(
    ("revision", "scenario"),
    [
        ("2025-06-18", "server-initialize"),
        ("2025-06-18", "ping"),
        ("2025-06-18", "tools-list"),
        ("2025-11-25", "server-initialize"),
        ("2025-11-25", "tools-list"),
        ("2025-11-25", "server-session-lifecycle"),
        ("2025-11-25", "server-sse-multiple-streams"),
        ("2026-07-28", "tools-list"),
        ("2026-07-28", "caching"),
        ("2026-07-28", "input-required-result-unsupported-methods"),
    ],
)
def test_a_real_session_passes_the_scenarios_without_tools_of_the_suite(
    npm_programs: NpmPrograms, session_front: HttpFront, revision: str, scenario: str
) -> None:
    """The scenarios that call none of the suite's tools."""
    wanted = ["--scenario", scenario, "--spec-version", revision, "--expected-failures", OUT_OF_SCOPE]
    done = npm_programs.run("conformance", "server", "--url", session_front.url, *wanted)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"Passed: [1-9]", done.stdout), done.stdout

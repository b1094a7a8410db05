"""Older releases of the reference implementation of MCP, each in a separate virtual environment.

A release of the first line (1.x) supports the revisions up to its newest one. Its client is tested with a program
written for that line. A release of the second line runs the same tests as the newest release.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cardapp.mcp.server import UnixListener
from tests.cardapp.mcp.example_server import example_server
from tests.functional.registry import INSTALLING, python_with

pytestmark = pytest.mark.functional

ROOT = Path(__file__).resolve().parents[2]
PEER = Path(__file__).with_name("mcp_sdk1_peer.py")
PATIENCE = 30.0
FIRST_LINE = {"1.0.0": "2024-11-05", "1.30.0": "2025-11-25"}
"""Releases, each with the newest revision that it supports."""
WITHOUT_PROGRESS = {"1.0.0"}
"""This release ignores the ``_meta`` of a request, so it sends no progress."""
SECOND_LINE = "2.0.1"
OLD_PYDANTIC = "pydantic==2.11.10"
"""The earlier releases of the first line need a feature that later releases of pydantic have removed."""


def pins(*without: str) -> list[str]:
    """The pinned packages, except those whose names begin with one of ``without``."""
    lock = (ROOT / "etc" / "requirements" / "test.txt").read_text()
    lines = re.findall(r"^(\S+==.*) \\$", lock, re.MULTILINE)
    return [line for line in lines if not line.startswith(without)]


@pytest.fixture(scope="module", params=FIRST_LINE)
def release(request: pytest.FixtureRequest) -> Iterator[tuple[str, Path]]:
    """A release of the first line, and the Python of an environment with that release."""
    with tempfile.TemporaryDirectory(prefix="card-sdk-", dir="/tmp") as folder:
        wanted = (f"mcp=={request.param}", OLD_PYDANTIC)
        yield request.param, python_with(wanted, pins("mcp", "pydantic"), Path(folder))


def test_its_client_drives_our_server(release: tuple[str, Path], state_dir: Path) -> None:
    name, python = release
    listener = UnixListener(state_dir / "s", example_server())
    listener.start()
    relay = "from pathlib import Path; from cardapp.session_host.mcp_client import relay; relay(Path({!r}))"
    command = [python, "-P", PEER, sys.executable, "-P", "-c", relay.format(str(state_dir / "s"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    listener.stop()
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    structured = {"sum": 3} if FIRST_LINE[name] >= "2025-06-18" else None
    assert (found["revision"], found["server"]) == (FIRST_LINE[name], "example")
    assert found["tools"][:2] == ["add", "count"]
    assert found["added"] == ['{"sum": 3}', structured]
    assert found["failed"] == [True, "it cannot be done"]
    assert found["progress"] == (None if name in WITHOUT_PROGRESS else [1, 2, 3])
    assert (found["unknown tool refused"], found["unknown method refused"]) == (True, True)


def test_the_first_release_of_the_second_line_passes_the_tests_of_the_newest() -> None:
    """They run in a Python where the older release precedes the other packages on the path."""
    with tempfile.TemporaryDirectory(prefix="card-sdk-", dir="/tmp") as folder:
        python = python_with([f"mcp=={SECOND_LINE}"], pins("mcp"), Path(folder))
        ours, theirs = sysconfig.get_path("purelib"), sysconfig.get_path("purelib", vars={"base": folder})
        (Path(theirs) / "others.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
        tests = [ROOT / "tests" / "functional" / f"test_mcp_interop_sdk_{side}.py" for side in ("client", "server")]
        command = [python, "-P", "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=INSTALLING, check=False)
        version = "import mcp.client, importlib.metadata as of; print(of.version('mcp'), mcp.client.__file__)"
        output = subprocess.run([python, "-P", "-c", version], capture_output=True, text=True, check=True).stdout
    assert output.startswith(f"{SECOND_LINE} {folder}"), output
    assert done.returncode == 0, done.stdout

"""Older releases of the reference implementation of MCP, each in a separate virtual environment.

A release of the first line (1.x) supports the revisions up to its newest one. Its client is tested with a program
written for that line. ``tests/functional`` has the newest release, of the second line.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cardapp.mcp.server import UnixListener
from tests.cardapp.mcp.example_server import example_server
from tests.functional.registry import python_with

pytestmark = pytest.mark.functional

ROOT = Path(__file__).resolve().parents[2]
PEER = Path(__file__).with_name("mcp_sdk1_peer.py")
PATIENCE = 30.0
FIRST_LINE = {"1.0.0": "2024-11-05", "1.30.0": "2025-11-25"}
"""Releases, each with the newest revision that it supports."""
WITHOUT_PROGRESS = {"1.0.0"}
"""This release ignores the ``_meta`` of a request, so it sends no progress."""
OLD_PYDANTIC = "pydantic==2.11.10"
"""The earlier releases of the first line need a feature that later releases of pydantic have removed."""


def pins(*without: str) -> list[str]:
    """The pinned packages, except those whose names begin with one of ``without``."""
    lock = (ROOT / "etc" / "requirements" / "test.txt").read_text()
    lines = re.findall(r"^(\S+==.*) \\$", lock, re.MULTILINE)
    return [line for line in lines if not line.startswith(without)]


@pytest.mark.parametrize("name", FIRST_LINE)
def test_its_client_drives_our_server(name: str, state_dir: Path) -> None:
    python = python_with((f"mcp=={name}", OLD_PYDANTIC), pins("mcp", "pydantic"), state_dir / "environment")
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

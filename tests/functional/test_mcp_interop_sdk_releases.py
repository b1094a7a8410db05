"""Older releases of the reference implementation: the last or the first of each line, each in a separate virtual
environment.

A release of the first line (1.x) supports the revisions up to its newest one. It is tested with a peer written for that
line. A release of the second line runs the same tests as the newest release.
"""

from __future__ import annotations

import json
import re
import runpy
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from cardapp.mcp.client import McpClient, ToolResult
from cardapp.mcp.server import UnixListener
from tests.functional.registry import INSTALLING, python_with

pytestmark = pytest.mark.functional

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "tests" / "cardapp" / "mcp" / "example_server.py"
EXAMPLE_SERVER = runpy.run_path(str(EXAMPLE))["example_server"]
SDK1_PEER = EXAMPLE.with_name("sdk1_peer.py")
PATIENCE = 30.0
FIRST_LINE = {"1.0.0": "2024-11-05", "1.9.4": "2025-03-26", "1.22.0": "2025-06-18", "1.30.0": "2025-11-25"}
"""Releases, each with the newest revision that it supports."""
FALLS_AT_THE_PROBE = {"1.0.0"}
"""Up to 1.9.0 a server exits when it receives an unknown request, such as the client's probe."""
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
def release(request: pytest.FixtureRequest, loops: Callable[..., int]) -> Iterator[tuple[str, Path]]:
    """A release of the first line, and the Python of an environment with that release."""
    if not loops(quick=0, full=1):
        pytest.skip("only with --full: it installs older releases from the Python package index")
    with tempfile.TemporaryDirectory(prefix="card-sdk-", dir="/tmp") as folder:
        wanted = (f"mcp=={request.param}", OLD_PYDANTIC)
        yield request.param, python_with(wanted, pins("mcp", "pydantic"), Path(folder))


@pytest.mark.parametrize("transport", ["socket", "stdio"])
def test_its_client_drives_our_server(release: tuple[str, Path], transport: str, state_dir: Path) -> None:
    name, python = release
    listener = UnixListener(state_dir / "s", EXAMPLE_SERVER())
    listener.start()
    relay = "from pathlib import Path; from cardapp.session_host.mcp_client import relay; relay(Path({!r}))"
    relay = relay.format(str(state_dir / "s"))
    ours = [EXAMPLE] if transport == "stdio" else ["-c", relay]
    command = [python, "-P", SDK1_PEER, "drive", sys.executable, "-P", *ours]
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


def drive(client: McpClient, name: str) -> None:
    assert (client.lifecycle, client.revision, client.server_info["name"]) == (
        "handshake",
        FIRST_LINE[name],
        "first line",
    )
    client.ping(timeout=PATIENCE)
    assert [tool["name"] for tool in client.list_tools()] == ["add", "count", "fail"]
    assert client.call_tool("add", {"a": 1, "b": 2}, timeout=PATIENCE, maximum=PATIENCE) == ToolResult(None, False, "3")
    assert client.call_tool("fail", {}, timeout=PATIENCE, maximum=PATIENCE) == ToolResult(None, True, "no luck")
    seen: list[float] = []
    client.call_tool("count", {}, timeout=PATIENCE, maximum=PATIENCE, on_progress=lambda done, *_: seen.append(done))
    assert seen == ([] if name in WITHOUT_PROGRESS else [1, 2, 3])


def test_our_client_drives_its_server_over_stdio(release: tuple[str, Path]) -> None:
    name, python = release
    command = [python, "-P", SDK1_PEER, "serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        probe = name not in FALLS_AT_THE_PROBE
        with closing(McpClient(server.stdout, server.stdin, timeout=PATIENCE, probe=probe)) as client:
            drive(client, name)
        server.wait(PATIENCE)


def test_our_client_drives_its_server_over_a_socket(release: tuple[str, Path], state_dir: Path) -> None:
    """One server for each connection, as inetd does. If the probe ends the first server, the second one gets the
    handshake."""
    name, python = release
    servers: list[subprocess.Popen[bytes]] = []
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(state_dir / "s"))
        listening.listen()

        def serve() -> None:
            for _ in range(2 if name in FALLS_AT_THE_PROBE else 1):
                with listening.accept()[0] as end:
                    command = [python, "-P", SDK1_PEER, "serve"]
                    servers.append(subprocess.Popen(command, stdin=end, stdout=end, stderr=subprocess.DEVNULL))

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        with closing(McpClient.connect(state_dir / "s", timeout=PATIENCE)) as client:
            drive(client, name)
        serving.join(PATIENCE)
    for server in servers:
        server.wait(PATIENCE)


def test_the_first_release_of_the_second_line_passes_the_same_tests(loops: Callable[..., int]) -> None:
    """Run the tests of the newest release in a Python where the older release precedes the other packages on the
    path."""
    if not loops(quick=0, full=1):
        pytest.skip("only with --full: it installs an older release from the Python package index")
    with tempfile.TemporaryDirectory(prefix="card-sdk-", dir="/tmp") as folder:
        python = python_with([f"mcp=={SECOND_LINE}"], pins("mcp"), Path(folder))
        ours, theirs = sysconfig.get_path("purelib"), sysconfig.get_path("purelib", vars={"base": folder})
        (Path(theirs) / "others.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
        tests = [Path(__file__).with_name(f"test_mcp_interop_sdk_{side}.py") for side in ("client", "server")]
        command = [python, "-P", "-m", "pytest", "-q", "--full", "-p", "no:cacheprovider", *tests]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=INSTALLING, check=False)
        version = "import mcp.client, importlib.metadata as of; print(of.version('mcp'), mcp.client.__file__)"
        output = subprocess.run([python, "-P", "-c", version], capture_output=True, text=True, check=True).stdout
    assert output.startswith(f"{SECOND_LINE} {folder}"), output
    assert done.returncode == 0, done.stdout

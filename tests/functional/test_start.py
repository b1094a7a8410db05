"""The real ``bin/start``: the services that it starts answer. Whatever ends it, none of its processes remains."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from marketdata.demo.state_directory import alone
from marketdata.settings import load
from tests.functional.market_process import give_cluster
from tests.functional.session_process import eventually

ROOT = Path(__file__).resolve().parents[2]
START = str(ROOT / "bin" / "start")
SESSION = str(ROOT / "bin" / "card-session")
READY = "Ctrl-C here ends it.\n"
FROM_NOTHING = "test_all_services_answer_and_a_signal_ends_them"

pytestmark = pytest.mark.functional


@pytest.fixture
def card_environment(request: pytest.FixtureRequest, card_environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """Adds the market data, in a separate folder that another account can enter, because PostgreSQL does not run as
    root.

    A database cluster exists already, which saves a second, except in the test whose start creates everything.
    """
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        if request.node.originalname != FROM_NOTHING:
            give_cluster(Path(folder))
        yield card_environment | {"MARKET_STATE_DIR": folder, "MARKET_API_PORT": "0", "MARKET_FRONTEND_PORT": "0"}


@contextmanager
def started(environment: dict[str, str], until: str = READY) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """``bin/start`` in a separate process group (as in a terminal), and its output up to the line ``until``, if there
    is one."""
    process = subprocess.Popen([START], env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    try:
        printed = ""
        while until and (line := process.stdout.readline()):
            printed += line
            if line == until:
                break
        yield process, printed
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=60)


def end(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Send a signal to the whole group, as a terminal does. The command must end well."""
    os.killpg(process.pid, number)
    process.communicate(timeout=60)
    assert process.returncode == 0


def left_over(environment: dict[str, str]) -> list[str]:
    """The command lines of all processes that were started with these state directories."""
    mark = f"CARD_STATE_DIR={environment['CARD_STATE_DIR']}".encode()
    data = f"{environment['MARKET_STATE_DIR']}/cluster/data"  # the working directory of each process of PostgreSQL
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            marked = mark in (place / "environ").read_bytes().split(b"\0")
            if marked or os.readlink(place / "cwd") == data:
                found.append((place / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # it ended meanwhile, or belongs to another account
    return [command for command in found if command]  # a zombie has no command line


def identity(printed: str) -> dict[str, str]:
    return fetched(printed, "Open the card in a browser: ", "/api/identity")


def fetched(printed: str, words: str, path: str) -> dict[str, str]:
    """The response at the path, from the service that the output announces with these words."""
    address = printed.partition(words)[2].split()[0].rstrip(";")
    with urllib.request.urlopen(f"{address}{path}", timeout=30) as answer:
        found: dict[str, str] = json.load(answer)
    return found


def assert_the_shown_way_leads_to_a_candle(printed: str) -> None:
    """The commands printed for the market data can be pasted into a shell unchanged. The demo source has its
    symbols."""
    assert "It stores invented trades, those of the demo source: DEMO:ACORN-USD and DEMO:PEBBLE-USD\n" in printed
    way = printed[printed.index("    auth() {") : printed.index("\nOpen the market data in a browser: ")]
    store, _, newest = way.partition("The newest candle of the demo source")
    created, _, chart = pasted(store).partition("}")
    assert '"created"' in created
    assert '"2500.25"' in chart
    auth, newest = store.splitlines()[0], newest.partition("\n")[2]
    eventually(lambda: '"symbol":"DEMO:ACORN-USD"' in pasted(f"{auth}\n{newest}"), seconds=30)


def pasted(commands: str) -> str:
    """The output of a shell for these commands."""
    return subprocess.run(
        ["bash", "-euc", commands], capture_output=True, text=True, timeout=120, check=True
    ).stdout  # fmt: skip


def assert_the_shown_login_opens_the_frontend(printed: str) -> None:
    """The output is not a terminal here, so the password is written to a file."""
    shown = re.search(r"in a browser: (\S+)\nLog in as (\S+) with the password in (\S+): ", printed)
    assert shown is not None
    address, name, file = shown.groups()
    password = json.loads(Path(file).read_text(encoding="utf-8"))["password"]
    credentials = base64.b64encode(f"{name}:{password}".encode()).decode()
    request = urllib.request.Request(f"{address}/api/v1/symbols", headers={"Authorization": f"Basic {credentials}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert "DEMO:ETH-USD" in str(json.load(answer))


def assert_the_tour_works_as_pasted(printed: str, environment: dict[str, str], folder: Path) -> None:
    """Every command of the README's tour, except the two that take over a terminal, and every command of the card's API
    page."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    tour = re.findall(r"^    (.*)$", page.partition("\n## A tour\n")[2].partition("\n## ")[0], re.MULTILINE)
    script = "\n".join(line for line in tour if line not in ("bin/start", "bin/card-session attach"))
    script += "\n" + "\n".join(re.findall(r"```sh\n(.*?)```", (ROOT / "cardapp" / "api.md").read_text(), re.DOTALL))
    announced = (
        ("Open the card in a browser:", "127.0.0.1:8080"),
        ("The market data API answers at", "127.0.0.1:8787"),
    )
    for words, shown in announced:
        address = re.search(rf"{words} http://([^;\s]+)", printed)
        assert address is not None
        assert shown in script
        script = script.replace(shown, address[1])
    script = script.replace("curl -sS", "curl -sS --fail-with-body").replace("-o ", f"-o {folder}/")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True,
        timeout=200, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    for answer in ('"id": "arena"', '"state": "ready"', '"high_water"', '"approved"', '"media_type": "image/png"',
                   '"status": "created"', '"o": "2500.25"'):  # fmt: skip
        assert answer in done.stdout, (answer, done.stdout)
    assert all((folder / name).stat().st_size > 10_000 for name in ("lesson.html", "arena.html"))


@pytest.mark.timeout(300)  # it creates everything, and runs every command of two pages
def test_all_services_answer_and_a_signal_ends_them(card_environment: dict[str, str], tmp_path: Path) -> None:
    with started(card_environment) as (process, printed):
        assert identity(printed)["id"] == "arena"
        assert fetched(printed, "The market data API answers at ", "/ready")
        assert_the_shown_way_leads_to_a_candle(printed)
        assert_the_shown_login_opens_the_frontend(printed)
        assert_the_tour_works_as_pasted(printed, card_environment, tmp_path)
        running = " ".join(left_over(card_environment))
        assert all(
            each in running for each in ("cardapp.session_host.mcp_server", "marketdata.postgres.owner", "/postgres -D")
        )
        end(process, signal.SIGTERM)
    assert left_over(card_environment) == []
    assert list(Path(card_environment["CARD_STATE_DIR"]).rglob("*.sock")) == []


def test_with_rpc_json_its_chain_is_read_instead_of_the_demo(card_environment: dict[str, str]) -> None:
    example = (ROOT / "etc" / "rpc.json.example").read_text(encoding="utf-8")
    secrets = Path(card_environment["MARKET_STATE_DIR"]) / "secrets"
    secrets.mkdir(mode=0o700)
    with socket.create_server(("127.0.0.1", 0)) as provider:
        url = f"http://127.0.0.1:{provider.getsockname()[1]}/"
        path = secrets / "rpc.json"
        path.write_text(re.sub('"url": "[^"]*"', f'"url": "{url}"', example), encoding="utf-8")
        path.chmod(0o600)
        with started(card_environment) as (process, printed):
            assert f"It stores the trades of the chain in {path}\n" in printed
            assert "DEMO:ACORN-USD" not in printed
            provider.settimeout(30)
            connection, _ = provider.accept()
            with connection:
                assert b"POST / HTTP/1.1" in connection.recv(1000)
            end(process, signal.SIGHUP)
    assert gone_soon(card_environment)


def test_a_session_and_an_ingestor_that_ran_before_are_left_alone(card_environment: dict[str, str]) -> None:
    """The API acts on the session default, although another one is chosen."""
    environment = card_environment | {"CARD_SOURCE": str(ROOT / "etc" / "cards" / "calc")}
    try:
        for name, *options in (("default",), ("other", "--select")):
            start = [SESSION, "start", "--name", name, *options, environment["CARD_SOURCE"]]
            subprocess.run(start, env=environment, check=True)
        with alone(load(environment)), started(environment) as (process, printed):
            assert "session default runs already" in printed
            assert identity(printed)["id"] == "calc"
            assert fetched(printed, "Open the card in a browser: ", "/api/session")["name"] == "default"
            assert "Another ingestor stores trades there; none was started here.\n" in printed
            assert "DEMO:ACORN-USD" not in printed
            assert fetched(printed, "The market data API answers at ", "/ready")
            end(process, signal.SIGINT)
        listed = subprocess.run([SESSION, "list"], env=environment, check=True, capture_output=True, text=True).stdout
        assert "default" in listed
        assert "running" in listed
        assert not any("cardapp serve" in command for command in left_over(environment))
    finally:
        for name in ("default", "other"):
            subprocess.run([SESSION, "stop", name], env=environment, check=False)
    assert gone_soon(environment)


def test_a_taken_port_is_named_and_no_session_is_started(card_environment: dict[str, str]) -> None:
    for name in ("MARKET_API_PORT", "MARKET_FRONTEND_PORT"):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            environment = card_environment | {name: port}
            done = subprocess.run([START], env=environment, check=False, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (1, ""), name
        assert port in done.stderr
        assert "in use" in done.stderr
        assert list(Path(environment["CARD_STATE_DIR"]).rglob("session.json")) == []
        assert left_over(environment) == []


def gone_soon(environment: dict[str, str]) -> bool:
    """The remaining processes of a killed service end by themselves. Its database waits briefly for another client."""
    return any(not left_over(environment) or threading.Event().wait(0.1) for _ in range(300))


def test_a_session_in_the_foreground_ends_with_its_command(card_environment: dict[str, str]) -> None:
    """This also holds if many signals arrive in quick succession."""
    command = [SESSION, "start", "--foreground", "--name", "s", str(ROOT / "etc" / "cards" / "arena")]
    with subprocess.Popen(command, env=card_environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert list(iter(process.stdout.readline, "Ctrl-C stops it.\n"))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) * 5:
            process.send_signal(number)
        assert process.wait(timeout=30) == 0
    assert left_over(card_environment) == []
    assert list(Path(card_environment["CARD_STATE_DIR"]).rglob("session.json")) == []


def test_a_card_that_does_not_build_ends_the_service_too(card_environment: dict[str, str], tmp_path: Path) -> None:
    card = tmp_path / "calc"
    shutil.copytree(ROOT / "etc" / "cards" / "calc", card, ignore=shutil.ignore_patterns("build"))
    (card / "src" / "Makefile").write_text("all:\n\t@echo this cannot be built >&2; false\n.PHONY: all\n")
    environment = card_environment | {"CARD_SOURCE": str(card)}
    done = subprocess.run([START], env=environment, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "this cannot be built" in done.stderr
    assert READY not in done.stdout
    assert left_over(environment) == []

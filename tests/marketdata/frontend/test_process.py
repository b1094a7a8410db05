"""``bin/marketdata-frontend`` as a separate process: its output, its exit codes, and the files that it leaves."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import socket
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO

import pytest

from marketdata import cli, secretfile
from marketdata.frontend import users
from tests.marketdata.frontend.conftest import TOKEN, basic

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def environment(state_dir: Path) -> dict[str, str]:
    secrets = state_dir / "secrets"
    secrets.mkdir(0o700)
    secretfile.write(secrets / secretfile.READ_TOKEN, {"token": TOKEN, "scope": "read", "name": "read"})
    return os.environ | {"MARKET_STATE_DIR": str(state_dir), "MARKET_FRONTEND_PORT": "0", "PYTHONPATH": str(ROOT)}


def frontend(environment: dict[str, str], *options: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "marketdata", "frontend", *options],
        cwd=ROOT, env=environment, stdout=stdout, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def printed(process: subprocess.Popen[str], terminal: IO[str] | None = None) -> tuple[str, str]:
    """The two lines that the frontend prints when it answers."""
    output = terminal or process.stdout
    assert output is not None
    assert select.select([output], [], [], 30)[0]
    return output.readline().strip(), output.readline().strip()


def logged_in(address: str, user: str, password: str) -> bool:
    asked = urllib.request.Request(f"{address}/whoami", headers={"Authorization": basic(user, password)})
    with urllib.request.urlopen(asked, timeout=10) as answer:
        found: bytes = answer.read()
    return found == b'{"user":"%s","auth":"basic"}' % user.encode()


def ended(process: subprocess.Popen[str], number: int) -> None:
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (0, "")


def test_the_first_start_writes_the_password_into_a_file(environment: dict[str, str], state_dir: Path) -> None:
    """The output may be kept in a log, for example in systemd's journal."""
    file = state_dir / "secrets" / secretfile.FIRST_USER
    with frontend(environment) as process:
        address, login = printed(process)
        assert login.startswith(f"Log in as trader with the password in {file}: ")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        made = secretfile.read(file)
        assert made["password"] not in login
        assert logged_in(address, made["user"], made["password"])
        ended(process, signal.SIGTERM)
    file.unlink()
    with frontend(environment) as process:
        _, login = printed(process)
        assert login == "Log in as one of its users; bin/marketdata-user list shows them"
        ended(process, signal.SIGINT)


@pytest.mark.parametrize("options", [(), ("--show-password",)])
def test_the_first_start_prints_the_password_to_a_terminal(
    environment: dict[str, str], state_dir: Path, options: tuple[str, ...]
) -> None:
    """``bin/start`` gives the option, because it reads the output from a pipe and prints it to the terminal."""
    terminal, inner = pty.openpty()
    output = subprocess.PIPE if options else inner
    with frontend(environment, *options, stdout=output) as process, os.fdopen(terminal) as shown:
        os.close(inner)
        address, login = printed(process, None if options else shown)
        found = re.match(r"Log in as (\S+) with the password (\S+) ", login)
        assert found is not None
        assert logged_in(address, *found.groups())
        assert not (state_dir / "secrets" / secretfile.FIRST_USER).exists()
        ended(process, signal.SIGTERM)


def test_without_a_login_no_user_is_made(environment: dict[str, str], state_dir: Path) -> None:
    with frontend(environment | {"BASIC_AUTH_MODE": "off"}) as process:
        assert printed(process)[1] == "It asks for no login (BASIC_AUTH_MODE=off)"
        ended(process, signal.SIGHUP)
    assert not (state_dir / "secrets" / secretfile.FRONTEND_USERS).exists()


def test_a_taken_port_and_an_unusable_token_file_fail_the_start(environment: dict[str, str], state_dir: Path) -> None:
    secrets = state_dir / "secrets"

    def said(**more: str) -> tuple[int, str]:
        with frontend(environment | more) as process:
            out, err = process.communicate(timeout=30)
            assert out == ""
            return process.returncode, err

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, text = said(MARKET_FRONTEND_PORT=port)
    assert code == cli.FAILURE
    assert "MARKET_FRONTEND_PORT" in text
    # Nobody saw the password of the first user, so the next start makes another user.
    assert not (secrets / secretfile.FRONTEND_USERS).exists()
    assert not (secrets / secretfile.FIRST_USER).exists()
    (secrets / secretfile.READ_TOKEN).unlink()
    code, text = said()
    assert (code, str(secrets / secretfile.READ_TOKEN) in text) == (cli.MISSING, True)
    secretfile.write(secrets / secretfile.READ_TOKEN, {"token": "x", "scope": "write", "name": "x"})
    assert said()[0] == cli.FAILURE
    assert users.make_first(secrets) is not None

"""``bin/marketdata-user``: adding, changing, removing and listing users."""

from __future__ import annotations

import io
import json
import os
import pty
import stat
import subprocess
import sys
from pathlib import Path

import bcrypt
import pytest

from marketdata import cli
from marketdata.errors import StateError
from marketdata.frontend import users

ROOT = Path(__file__).resolve().parents[3]
GOOD = "four words are enough"


@pytest.fixture
def file(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MARKET_STATE_DIR", str(state_dir))
    return state_dir / "secrets" / "frontend.json"


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str, typed: str = "") -> int:
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    return cli.main(["user", *arguments])


def test_a_user_can_be_added_changed_listed_and_removed(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "list") == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"no users in {file}: bin/marketdata-user add NAME adds a user\n")
    assert run(monkeypatch, "add", "ann", "--password-stdin", typed=f"{GOOD}\n") == 0
    assert run(monkeypatch, "add", "bob@example.org", "--password-stdin", typed=GOOD) == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert bcrypt.checkpw(GOOD.encode(), users.load(file)["ann"])
    assert run(monkeypatch, "passwd", "ann", "--password-stdin", typed="another good one\r\n") == 0
    assert bcrypt.checkpw(b"another good one", users.load(file)["ann"])
    capsys.readouterr()
    assert run(monkeypatch, "list") == 0
    assert capsys.readouterr().out == "ann\nbob@example.org\n"
    assert run(monkeypatch, "remove", "ann") == 0
    assert list(users.load(file)) == ["bob@example.org"]
    assert GOOD not in file.read_text()


REFUSED: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("add", "ann", "--password-stdin"), "", "too short"),
    (("add", "ann", "--password-stdin"), "short", "too short"),
    (("add", "ann", "--password-stdin"), "x" * 73, "longer than 72 bytes"),
    (("add", "ann", "--password-stdin"), "é" * 37, "longer than 72 bytes"),
    (("add", "ann", "--password-stdin"), "abababababab", "at least 5 different"),
    (("add", "annabel-lee", "--password-stdin"), "Annabel-Lee1", "name of the user"),
    (("add", "ann", "--password-stdin"), "with a \x07 in it", "cannot be typed"),
    (("add", "ann"), GOOD, "--password-stdin"),
    (("add", "a:b", "--password-stdin"), GOOD, "not a user name"),
    (("add", "", "--password-stdin"), GOOD, "not a user name"),
    (("add", "eve", "--password-stdin"), GOOD, "exists already"),
    (("passwd", "ann", "--password-stdin"), GOOD, "no user 'ann'"),
    (("remove", "ann"), "", "no user 'ann'"),
)


def test_bad_names_and_passwords_are_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, "add", "eve", "--password-stdin", typed=GOOD)
    before = file.read_bytes()
    for arguments, typed, says in REFUSED:
        assert run(monkeypatch, *arguments, typed=typed) == cli.WRONG_USE, arguments
        assert says in capsys.readouterr().err
        assert file.read_bytes() == before


def test_an_unusable_file_is_named_and_left_as_it_is(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file.parent.mkdir(0o700)
    for content in ("[]", "{}", '{"users": []}', '{"users": {"a": "plain"}}', '{"users": {"a:b": 1}}', "{"):
        file.write_text(content)
        file.chmod(0o600)
        with pytest.raises(StateError):
            users.load(file)
        assert run(monkeypatch, "add", "ann", "--password-stdin", typed=GOOD) == cli.FAILURE, content
        assert str(file) in capsys.readouterr().err
        assert file.read_text() == content


def test_the_hashes_of_htpasswd_are_accepted(file: Path) -> None:
    file.parent.mkdir(0o700)
    made = bcrypt.hashpw(b"x", bcrypt.gensalt(4)).decode().replace("$2b$", "$2y$")
    file.write_text(json.dumps({"users": {"ann": made}}))
    file.chmod(0o600)
    assert bcrypt.checkpw(b"x", users.load(file)["ann"])


def test_the_first_user_is_made_once(file: Path) -> None:
    made = users.make_first(file.parent)
    assert made is not None
    name, password = made
    users.check_password(name, password)
    assert bcrypt.checkpw(password.encode(), users.load(file)[name])
    assert users.make_first(file.parent) is None


def typed(answers: list[str], *arguments: str, environment: dict[str, str]) -> tuple[int, str]:
    """The exit code of the command on a terminal, and the text on its screen."""
    main, other = pty.openpty()
    command = [sys.executable, "-P", "-m", "marketdata", "user", *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=other, stdout=other, stderr=other, start_new_session=True
    ) as process:
        os.close(other)
        screen = ""
        try:
            for answer in answers:
                while not screen.endswith(": "):
                    screen += os.read(main, 1000).decode()
                os.write(main, f"{answer}\n".encode())
                screen += os.read(main, 1000).decode()
            while part := os.read(main, 1000):
                screen += part.decode()
        except OSError:  # the command has closed the terminal
            pass
        finally:
            os.close(main)
        return process.wait(20), screen


def test_the_terminal_does_not_show_the_password(file: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    code, screen = typed([GOOD, GOOD], "add", "ann", environment=environment)
    assert code == 0
    assert "ann is added" in screen
    assert GOOD not in screen
    code, screen = typed([GOOD, GOOD[1:]], "passwd", "ann", environment=environment)
    assert code == cli.WRONG_USE
    assert "the two passwords differ" in screen

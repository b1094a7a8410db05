"""The service as a program: its addresses, settings, locks and end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cardapp import settings
from cardapp.serve import Service, warnings
from tests.functional.serving import Api, make_card, picture
from tests.functional.test_crash import Server

pytestmark = pytest.mark.functional


@pytest.fixture
def environment(card_environment: dict[str, str], state_dir: Path) -> dict[str, str]:
    card = make_card(state_dir / "card")
    return {**card_environment, "CARD_STATE_DIR": str(state_dir / "state"), "CARD_SOURCE": str(card)}


def refused(environment: dict[str, str], **changed: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "cardapp", "serve"],
        env={**environment, **changed},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, *(pytest.param(each, marks=pytest.mark.full) for each in (signal.SIGINT, signal.SIGHUP))]
)
def test_a_signal_ends_it_cleanly(environment: dict[str, str], number: signal.Signals) -> None:
    server = Server(environment)
    socket = Path(environment["CARD_STATE_DIR"]) / "card-api.sock"
    assert Api.unix(socket).get("/api/health")["status"] == "ok"
    server.process.send_signal(number)
    assert server.process.wait(10) == 0
    assert server.process.stdout is not None
    server.process.stdout.close()
    assert not socket.exists()


def test_a_second_instance_is_refused_and_disturbs_nothing(environment: dict[str, str]) -> None:
    server = Server(environment)
    try:
        ended = refused(environment)
        assert ended.returncode == 1
        assert environment["CARD_STATE_DIR"] in ended.stderr
        assert server.api.get("/api/health")["status"] == "ok"
        assert Api.unix(Path(environment["CARD_STATE_DIR"]) / "card-api.sock").get("/api/health")
        port = server.address.rsplit(":", 1)[1]
        elsewhere = str(Path(environment["CARD_STATE_DIR"]).with_name("elsewhere"))
        ended = refused(environment, CARD_API_PORT=port, CARD_STATE_DIR=elsewhere)
        assert (ended.returncode, port in ended.stderr) == (1, True)
    finally:
        server.kill()


@pytest.mark.parametrize(
    ("name", "value", "code", "said"),
    [
        ("CARD_API_HOST", "0.0.0.0", 2, "loopback"),
        ("CARD_API_PORT", "eighty", 2, "CARD_API_PORT"),
        ("CARD_API_PEERS", "all", 2, "must be owner or any"),
        ("CARD_REPLAY_TIMEOUT", "0", 2, "CARD_REPLAY_TIMEOUT"),
        ("CARD_API_SOCKET", "/tmp/" + "x" * 120, 2, "107"),
        ("CARD_SOURCE", "/nonexistent", 2, "there is no card"),
    ],
)
def test_a_bad_setting_is_named(environment: dict[str, str], name: str, value: str, code: int, said: str) -> None:
    ended = refused(environment, **{name: value})
    assert (ended.returncode, said in ended.stderr) == (code, True), ended.stderr
    assert "Traceback" not in ended.stderr


def started(environment: dict[str, str], state_dir: Path) -> tuple[list[str], str]:
    """The lines on standard output and the text on standard error, until the service answers and is stopped."""
    log = state_dir / "log"
    with log.open("w") as errors:
        server = Server(environment, log=errors)
    assert server.api.get("/api/health")["status"] == "ok"
    server.process.terminate()
    server.process.wait(10)
    with server.process.stdout as output:  # type: ignore[union-attr]
        return [server.address, *output.read().splitlines()], log.read_text()


def test_it_prints_the_addresses_it_listens_on(environment: dict[str, str], state_dir: Path) -> None:
    (first, *others), _ = started(environment, state_dir)
    assert first.startswith("http://127.0.0.1:")
    unix, *v6 = others
    assert unix == f"unix:{environment['CARD_STATE_DIR']}/card-api.sock"
    assert v6 in ([], [first.replace("127.0.0.1", "[::1]")])  # [] where there is no IPv6


def test_it_says_who_can_run_commands(environment: dict[str, str], state_dir: Path) -> None:
    """The service prints one line for each unusual condition."""
    is_root = os.geteuid() == 0
    _, errors = started(environment, state_dir)
    assert errors.splitlines() == ["cardapp: " + warnings(settings.load(environment), 0)[0]] * is_root
    _, errors = started({**environment, "CARD_API_PEERS": "any"}, state_dir)
    assert len(errors.splitlines()) == 1 + is_root
    assert "CARD_API_PEERS=any: every account of this machine can" in errors


def test_what_it_says_fits_the_account_and_the_setting(environment: dict[str, str]) -> None:
    owner, anybody = settings.load(environment), settings.load({**environment, "CARD_API_PEERS": "any"})
    assert warnings(owner, 1000) == []
    (root,) = warnings(owner, 0)
    assert "programs of cards run as root" in root
    assert "Only root can use this service" in root
    programs, everybody = warnings(anybody, 0)
    assert "Only root" not in programs
    assert "run commands as root (uid 0)" in everybody
    assert len(warnings(anybody, 1000)) == 1


def test_an_unknown_setting_is_warned_about(environment: dict[str, str]) -> None:
    ended = refused(environment, CARD_API_PROT="1", CARD_SOURCE="/nonexistent")
    assert "did you mean CARD_API_PORT?" in ended.stderr


def test_symlinked_state_is_refused(environment: dict[str, str], state_dir: Path) -> None:
    (state_dir / "real").mkdir()
    os.symlink(state_dir / "real", state_dir / "link")
    ended = refused(environment, CARD_STATE_DIR=str(state_dir / "link"))
    assert (ended.returncode, "symbolic link" in ended.stderr) == (1, True), ended.stderr


def test_a_start_names_the_pictures_that_are_missing(
    environment: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    def started() -> Path:
        service = Service(settings.load(environment))
        service.start()
        try:
            pixel = picture(1)
            sent = Api.tcp(service.listener.port).request("POST", "/api/evidence", pixel, {"Content-Type": "image/png"})
            return service.settings.evidence_dir / sent.headers["Location"].rsplit("/", 1)[1]
        finally:
            service.stop()

    stored = started()
    assert "missing" not in caplog.text
    stored.unlink()
    assert started() == stored
    assert f"the picture {stored.name} is missing" in caplog.text

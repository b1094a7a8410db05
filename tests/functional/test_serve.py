"""The service as a program: its addresses, settings, locks and end."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from cardapp import settings
from cardapp.cli import main
from cardapp.serve import Service, warnings
from tests.functional.serving import Api, make_card, picture
from tests.functional.test_crash import Server

pytestmark = pytest.mark.functional


@pytest.fixture
def environment(card_environment: dict[str, str], state_dir: Path) -> dict[str, str]:
    card = make_card(state_dir / "card")
    return {**card_environment, "CARD_STATE_DIR": str(state_dir / "state"), "CARD_SOURCE": str(card)}


def ended_by(number: signal.Signals, environment: dict[str, str], log: Path) -> tuple[list[str], list[str]]:
    """The lines on standard output and on standard error of a service that is ended by this signal."""
    sock = Path(environment["CARD_STATE_DIR"]) / "card-api.sock"
    with log.open("w") as errors:
        server = Server(environment, log=errors)
    assert server.api.get("/api/health")["status"] == Api.unix(sock).get("/api/health")["status"] == "ok"
    server.process.send_signal(number)
    assert server.process.wait(60) == 0, number
    assert not sock.exists()
    with server.process.stdout as output:  # type: ignore[union-attr]
        return [server.address, *output.read().splitlines()], log.read_text().splitlines()


def test_it_says_where_it_listens_and_who_can_run_commands_and_a_signal_ends_it(
    environment: dict[str, str], state_dir: Path
) -> None:
    """The service prints one line for each unusual condition."""
    is_root = os.geteuid() == 0
    for number in (signal.SIGTERM, signal.SIGINT):
        (first, unix, *v6), errors = ended_by(number, environment, state_dir / "log")
        assert first.startswith("http://127.0.0.1:")
        assert unix == f"unix:{environment['CARD_STATE_DIR']}/card-api.sock"
        assert v6 in ([], [first.replace("127.0.0.1", "[::1]")])  # [] where there is no IPv6
        assert errors == ["cardapp: " + warnings(settings.load(environment), 0)[0]] * is_root
    _, errors = ended_by(signal.SIGHUP, {**environment, "CARD_API_PEERS": "any"}, state_dir / "log")
    assert len(errors) == 1 + is_root
    assert "CARD_API_PEERS=any: every account of this machine can" in errors[-1]


def test_what_prevents_a_start_is_named(
    environment: dict[str, str], state_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (state_dir / "real").mkdir()
    os.symlink(state_dir / "real", state_dir / "link")
    for name, value, code, said in (
        ("CARD_API_HOST", "0.0.0.0", 2, "loopback"),
        ("CARD_API_PEERS", "all", 2, "must be owner or any"),
        ("CARD_SOURCE", "/nonexistent", 2, "there is no card"),
        ("CARD_STATE_DIR", str(state_dir / "link"), 1, "symbolic link"),
    ):
        with monkeypatch.context() as changed:
            for each, given in {**environment, name: value}.items():
                changed.setenv(each, given)
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
            assert main(["serve"]) == code, name
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        assert said in capsys.readouterr().err, name


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

"""The command line: exit codes and output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cardapp.card.model import Identity
from cardapp.cli import main
from cardapp.publish.layouts import TEMPLATES
from cardapp.state import events
from cardapp.state.database import Database
from tests.functional.serving import make_card


@pytest.fixture
def card(tmp_path: Path) -> Path:
    return make_card(tmp_path / "card")


def test_a_mistyped_option_is_named_with_the_usage_of_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["emit", "card", "--format", "html", "--formt"])
    said = capsys.readouterr().err
    assert said.startswith("usage: cardapp emit ")
    assert said.endswith("cardapp emit: error: unrecognized arguments: --formt\n")


def test_check_reports_that_every_stop_matches_and_the_layout(card: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(card)]) == 0
    said = capsys.readouterr().out
    assert "4 steps, 5 snapshots" in said
    assert "every stop and code range matches" in said
    assert "karta-classic 2.0.0: Classic card; A4 portrait, HTML by the emitter classic, LaTeX by classic" in said
    assert "Limitation: A step that is higher" in said


def test_check_refuses_a_profile_that_it_would_not_use_or_that_does_not_exist(
    card: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--profile", "podman", str(card)]) == 2
    assert "--profile needs --replay" in capsys.readouterr().err
    assert main(["check", "--replay", "--profile", "podmn", str(card)]) == 2
    assert "known: local, local-in-place, podman" in capsys.readouterr().err


def test_check_finds_each_drifted_line(card: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = card / "src" / "main.c"
    code.write_text("/* one more line */\n" + code.read_text())
    assert main(["check", str(card)]) == 1
    said = capsys.readouterr().out
    assert said.count("source_drift") == 5
    assert "it is now in line" in said


def test_layouts_lists_all_that_ship(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["layouts"]) == 0
    said = capsys.readouterr().out
    listed = [line.split()[0] for line in said.splitlines() if not line.startswith(" ")]
    assert listed == ["karta-5a", "karta-5b", "karta-blank", "karta-classic", "karta-mixed"]
    assert "HTML by the emitter 5b, LaTeX by 5a" in said
    assert "warning" not in said


def test_layouts_checks_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = json.loads((TEMPLATES / "karta-5a.json").read_text())
    odd = tmp_path / "odd.json"
    for changes, code in (({"colour": 1}, 0), ({"id": "?"}, 1)):
        odd.write_text(json.dumps(layout | changes))
        assert main(["layouts", str(odd)]) == code
    said = capsys.readouterr()
    assert "warning: /colour is unknown and has no effect; known: $schema, schema, id" in said.out
    assert "/id must match" in said.err
    assert main(["layouts", str(tmp_path / "none.json")]) == main(["layouts", "karta-nope"]) == 2


def test_check_needs_a_card(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path)]) == 2
    assert "there is no card" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["check"])
    assert ended.value.code == 2


def test_verify_events_names_the_first_broken_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CARD_STATE_DIR", str(tmp_path / "state"))
    assert main(["verify-events"]) == 1
    database = Database.open(tmp_path / "state" / "card-state")
    card = Identity("a", "u", "1", "0")
    for _ in range(3):
        with database.write() as tx:
            events.append(tx, kind="note", actor="ada", key="", card=card, data={}, at="2026-01-01T00:00:00.000Z")
    assert main(["verify-events"]) == 0
    assert "3 events, the hash chain is intact" in capsys.readouterr().out
    with database.write() as tx:
        tx.execute("DROP TRIGGER event_unchanged")
        tx.execute("UPDATE event SET actor = 'eve' WHERE seq = 2")
    assert main(["verify-events"]) == 1
    assert "broken at event 2" in capsys.readouterr().err
    database.close()


def test_a_bad_setting_is_wrong_use_and_mistyped_names_are_reported_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CARD_API_PORT", "x")
    monkeypatch.setenv("CARD_APIHOST", "::1")
    assert main(["serve"]) == 2
    hint, refused = capsys.readouterr().err.splitlines()
    assert "did you mean CARD_API_HOST?" in hint
    assert "CARD_API_PORT" in refused

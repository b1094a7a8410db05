"""The commands for a class: ``new-learner``."""

from __future__ import annotations

from pathlib import Path

import pytest

from cardapp.cli import main
from cardapp.state import learners
from cardapp.state.database import Database
from tests.functional.serving import make_card


@pytest.fixture
def state(tmp_path: Path, state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The database of a state directory whose card is ``small``."""
    monkeypatch.setenv("CARD_STATE_DIR", str(state_dir))
    monkeypatch.setenv("CARD_SOURCE", str(make_card(tmp_path / "card")))
    return state_dir / "card-state"


def names(path: Path) -> list[str]:
    database = Database.open(path)
    with database.read() as conn:
        found = [each["name"] for each in learners.overview(conn)["learners"]]
    database.close()
    return found


def test_new_learner_begins_a_record_and_says_where_the_old_one_is(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new-learner", "Ada Lovelace"]) == 0
    said = capsys.readouterr().out
    assert "Ada Lovelace has a new, empty record" in said
    assert "The record of unnamed stays" in said
    assert main(["new-learner", "Bob"]) == 0
    assert "The record of Ada Lovelace stays" in capsys.readouterr().out
    assert names(state) == ["unnamed", "Ada Lovelace", "Bob"]


def test_new_learner_does_not_begin_a_second_record_of_the_same_name(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["new-learner", "Ada"])
    assert main(["new-learner", "ada"]) == 1
    assert "there is already a learner 'Ada'" in capsys.readouterr().err
    assert names(state) == ["unnamed", "Ada"]


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 81])
def test_new_learner_refuses_an_unusable_name_as_wrong_use(
    name: str, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new-learner", name]) == 2
    assert capsys.readouterr().err.startswith("cardapp: the name ")


@pytest.mark.parametrize("arguments", [["new-learner"], ["new-learner", "Ada", "Lovelace"], ["new-lerner", "Ada"]])
def test_a_mistyped_new_learner_shows_the_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: cardapp" in capsys.readouterr().err

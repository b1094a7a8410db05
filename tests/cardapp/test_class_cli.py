"""The commands for a class: ``new-learner`` and ``collect``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cardapp.card.catalog import Catalog
from cardapp.card.source import load_card
from cardapp.cli import main
from cardapp.state import learners
from cardapp.state.database import Database
from tests.cardapp.reports.answers_files import answered, chained, file_of, named, predicted
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
    assert "The record without a name stays: choose it in the page's menu." in said
    assert main(["new-learner", "Bob"]) == 0
    assert "The record of Ada Lovelace stays" in capsys.readouterr().out
    assert names(state) == ["unnamed", "Ada Lovelace", "Bob"]


def test_new_learner_does_not_begin_a_second_record_of_the_same_name(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["new-learner", "Ada"])
    assert main(["new-learner", "ada"]) == 1
    assert "there is already a learner 'Ada': choose that record in the page's menu, or" in capsys.readouterr().err
    assert names(state) == ["unnamed", "Ada"]


# -- collect -------------------------------------------------------------------------------------------------------


@pytest.fixture
def handed_in(tmp_path: Path) -> Callable[..., Path]:
    """Write the file of a student who predicted 48 or something else at the first stop."""
    card = load_card(make_card(tmp_path / "card")).card
    stop = next(iter(Catalog(card).snapshots))

    def write(name: str, said: str = "48", *, more: int = 0, file: str = "") -> Path:
        told = [named(name), *predicted(2, stop, said, right=said == "48"), *[answered(stop, "x")] * more]
        path = tmp_path / (file or f"{name}.json")
        path.write_bytes(file_of(card, chained(told), learner=name))
        return path

    return write


def test_collect_writes_the_tables_of_a_class(
    handed_in: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(handed_in(name, said)) for name, said in (("Zoë", "40"), ("Ada", "48"))]
    assert main(["collect", *files, "-o", str(tmp_path / "out" / "monday")]) == 0
    assert "2 students" in capsys.readouterr().out
    table = (tmp_path / "out" / "monday" / "class.csv").read_text("utf-8-sig").splitlines()
    assert table[0].startswith("student,file,card,")
    assert [line.split(",")[0] for line in table[1:]] == ["Ada"] * 4 + ["Zoë"] * 4
    page = (tmp_path / "out" / "monday" / "class.html").read_text("utf-8")
    assert "1 of 2 wrong" in page


def test_collect_names_an_edited_file_and_leaves_it_out(
    handed_in: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    intact, edited = handed_in("Ada"), handed_in("Eve", "40")
    edited.write_text(edited.read_text().replace('"a.used":"40"', '"a.used":"48"'))
    assert main(["collect", str(intact), str(edited), "-o", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert f"left out {edited}: event 2 was changed" in said.err
    assert "1 student:" in said.out
    assert "Eve" not in (tmp_path / "class.csv").read_text("utf-8")
    assert "Eve.json" in (tmp_path / "class.html").read_text("utf-8")


def test_a_missing_file_and_a_folder_are_wrong_use(
    handed_in: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for wrong in (tmp_path / "absent.json", tmp_path):
        assert main(["collect", str(handed_in("Ada")), str(wrong), "-o", str(tmp_path / "out")]) == 2
        assert f"{wrong} cannot be read" in capsys.readouterr().err
        assert not (tmp_path / "out").exists()
    target = handed_in("Bob")
    assert main(["collect", str(target), "-o", str(target)]) == 2
    assert "name another folder with -o DIR" in capsys.readouterr().err

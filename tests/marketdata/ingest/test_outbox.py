"""The outbox of each table, and its dead letters."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from marketdata import cli
from marketdata.ingest.outbox import Outbox, add_dead_letter, outbox_path
from marketdata.settings import Settings, load


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Also the settings of a command. No table is named."""
    monkeypatch.setenv("MARKET_STATE_DIR", str(tmp_path))
    (tmp_path / "ingestor").mkdir()
    return load({"MARKET_STATE_DIR": str(tmp_path)})


def made(settings: Settings, name: str, table: str | None = None) -> Path:
    """An outbox with a dead letter."""
    path = settings.state_dir / "ingestor" / f"{name}.sqlite"
    with closing(Outbox(path)) as outbox:
        if table is not None:
            outbox.bind(table)
        with outbox.transaction() as transaction:
            add_dead_letter(transaction, f"of {name}", "code", "detail")
    return path


def test_each_table_has_its_own_outbox(settings: Settings) -> None:
    one, other = outbox_path(settings, "md_ticks_v1"), outbox_path(settings, "md_ticks_v2")
    assert (one.name, other.name) == ("md_ticks_v1.sqlite", "md_ticks_v2.sqlite")


@pytest.mark.parametrize("table", ["md_ticks_v1", None])
def test_an_earlier_releases_outbox_is_used_for_its_table(settings: Settings, table: str | None) -> None:
    earlier = made(settings, "md-current", table)
    assert outbox_path(settings, "md_ticks_v1") == earlier
    own = made(settings, "md_ticks_v2")
    assert outbox_path(settings, "md_ticks_v2") == own


def test_an_earlier_releases_outbox_is_not_used_for_another_table(settings: Settings) -> None:
    earlier = made(settings, "md-current", "md_ticks_v1")
    assert outbox_path(settings, "md_ticks_v2") == earlier.with_name("md_ticks_v2.sqlite")


def test_dead_letters_of_all_tables_are_listed_and_retried(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("md_ticks_v1", "md_ticks_v2", "md-current", "other_ticks_v1"):
        made(settings, name)
    assert cli.main(["ingestor", "dead-letters", "list"]) == 0
    shown = capsys.readouterr().out
    assert shown.endswith("\n3 dead letters\n")
    assert "other" not in shown
    monkeypatch.setenv("TICKS_TABLE", "md_ticks_v2")
    assert cli.main(["ingestor", "dead-letters", "retry"]) == 0
    assert capsys.readouterr().out.startswith("1 dead letters are in the outbox again")
    monkeypatch.delenv("TICKS_TABLE")
    assert cli.main(["ingestor", "dead-letters", "list"]) == 0
    assert capsys.readouterr().out.endswith("\n2 dead letters\n")


def test_without_an_outbox_the_command_names_the_folder(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ingestor", "dead-letters", "list"]) == cli.FAILURE
    assert f"{settings.state_dir / 'ingestor'} has no outbox" in capsys.readouterr().err

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
    """The settings of this process and of the commands it calls. They name no table."""
    monkeypatch.setenv("MARKET_STATE_DIR", str(tmp_path))
    (tmp_path / "ingestor").mkdir()
    return load({"MARKET_STATE_DIR": str(tmp_path)})


def create_outbox_with_dead_letter(settings: Settings, table: str) -> None:
    with closing(Outbox(outbox_path(settings, table))) as outbox, outbox.transaction() as transaction:
        add_dead_letter(transaction, f"of {table}", "code", "detail")


def test_each_table_has_its_own_outbox(settings: Settings) -> None:
    one, other = outbox_path(settings, "md_ticks_v1"), outbox_path(settings, "md_ticks_v2")
    assert (one.name, other.name) == ("md_ticks_v1.sqlite", "md_ticks_v2.sqlite")


def test_dead_letters_of_all_tables_are_listed_and_retried(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for table in ("md_ticks_v1", "md_ticks_v2", "md_ticks_v10", "other_ticks_v1"):
        create_outbox_with_dead_letter(settings, table)
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

"""The served card follows its file and survives an invalid one; its revision depends on contents, not on times."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cardapp.card.source import load_card
from cardapp.card_loader import CardLoader
from cardapp.errors import InvalidCard
from tests.functional.serving import make_card


@pytest.fixture
def card(tmp_path: Path) -> Path:
    return make_card(tmp_path / "card")


def edit(card: Path, old: str, new: str) -> None:
    source = card / "card_source.json"
    source.write_text(source.read_text().replace(old, new))


def test_while_the_source_is_invalid_the_last_valid_card_is_served(card: Path) -> None:
    card_loader = CardLoader(card)
    good = card_loader.current()
    edit(card, '"tasks"', '"tusks"')
    assert card_loader.current() is good
    assert "tusks" in str(card_loader.fault)
    assert card_loader.source_sha256() != good.identity.source_sha256
    edit(card, '"tusks"', '"tasks"')
    assert (card_loader.current().identity, card_loader.fault) == (good.identity, None)


def test_a_missing_source_is_a_fault(card: Path) -> None:
    card_loader = CardLoader(card)
    (card / "card_source.json").unlink()
    assert card_loader.current().card.id == "probe"
    assert (card_loader.source_sha256(), card_loader.fault is None) == ("", False)
    with pytest.raises(InvalidCard):
        CardLoader(card)


def test_the_revision_follows_the_contents_of_source_and_code(card: Path) -> None:
    card_loader = CardLoader(card)
    first = card_loader.revision()
    code = card / "src" / "main.c"
    os.utime(code, (1, 1))
    assert card_loader.revision()["revision"] == first["revision"]
    code.write_text(code.read_text() + "/* more */\n")
    second = card_loader.revision()
    assert second["revision"] != first["revision"]
    edit(card, "Probe", "Probes")
    assert card_loader.revision()["revision"] not in (first["revision"], second["revision"])


def test_a_pipe_is_not_read_as_a_file(card: Path) -> None:
    """A read would wait for a writer forever."""
    card_loader = CardLoader(card)
    before = card_loader.revision()["revision"]
    code, source = card / "src" / "main.c", card / "card_source.json"
    code.unlink()
    os.mkfifo(code)
    assert card_loader.revision()["revision"] != before
    assert load_card(card).sources() == {}
    source.unlink()
    os.mkfifo(source)
    assert (card_loader.current().card.id, card_loader.source_sha256()) == ("probe", "")
    assert "there is no card" in str(card_loader.fault)


def test_in_a_series_the_chosen_card_is_served(card: Path, tmp_path: Path) -> None:
    other = make_card(tmp_path / "other", uuid="aaaaaaaa-0000-4000-8000-000000000002")
    chosen: list[Path | None] = [None]
    card_loader = CardLoader(card, lambda: chosen[0])
    first = card_loader.current()
    chosen[0] = other / "card_source.json"
    assert card_loader.current().path == other / "card_source.json"
    assert card_loader.current().identity.uuid != first.identity.uuid
    assert card_loader.source_sha256() == card_loader.current().identity.source_sha256
    chosen[0] = None  # no card of the series is chosen
    assert card_loader.current().path == other / "card_source.json"
    chosen[0] = card / "card_source.json"
    assert card_loader.current().identity == first.identity

"""Whether the program is at the position."""

from __future__ import annotations

from pathlib import Path

from cardapp.card.catalog import Catalog
from cardapp.card.navigation import at_item
from cardapp.card.source import load_card
from cardapp.session_client.sync import stands_at
from cardapp.state.checkpoint_results import Publication
from tests.functional.serving import make_card


def publication(key: str, sync: str = "on") -> Publication:
    return Publication(
        sync=sync,  # type: ignore[arg-type]
        key=key, page_index=0, operation_id="", generation=1, stop_id="", binding={}, instance="", socket="",
        source_sha256="", observed={}, previous_key=None, previous_observed=None, reason=None, updated_at="",
        revision=1,
    )  # fmt: skip


def test_the_program_is_at_the_position_of_the_published_snapshot(tmp_path: Path) -> None:
    catalog = Catalog(load_card(make_card(tmp_path / "card")).card)
    for at, published, stands in (
        ("t1/b1/p1/quick", "t1/b1/p1/quick/first", True),
        ("t1/b1/p1/quick", "t1/b1/p1/quick/second", True),
        ("t1/b1/p1/quick/first", "t1/b1/p1/quick/second", False),
        ("t1/b1/p1/quick/second", "t1/b1/p1/quick/second", True),
        ("t1/b1/p1/slow", "t1/b1/p1/quick/first", False),
        ("t1/b1", "t1/b1/p1/quick/first", True),
        ("t1/b1", "t1/b1/p1/quick/second", False),
        ("t1", "t1/b1/p1/quick/first", False),
        ("", "t1/b1/p1/quick/first", False),
    ):
        position = at_item(catalog.item(at))
        assert stands_at(catalog, position, publication(published)) is stands, (at, published)
        assert stands_at(catalog, position, publication(published, "off")) is False

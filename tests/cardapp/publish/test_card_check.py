"""The check of a card against its C files."""

from __future__ import annotations

from cardapp.publish.card_check import source_drift
from tests.cardapp.card.conftest import catalog_of, small_source


def test_source_drift_names_the_line_that_has_the_text_now() -> None:
    catalog = catalog_of(small_source())
    assert not list(source_drift(catalog, {"a.c": ["", "", "int x;"]}))
    moved = list(source_drift(catalog, {"a.c": ["int x;", "", ""]}))
    assert {found.key for found in moved} == set(catalog.snapshots)
    assert "it is now in line 1" in moved[0].message
    assert all("cannot be read" in found.message for found in source_drift(catalog, {}))

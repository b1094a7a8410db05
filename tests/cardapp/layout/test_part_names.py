"""The names of parts, by which annotations find their place."""

from __future__ import annotations

from cardapp.card.source import load_card
from cardapp.layout.compose import compose
from cardapp.layout.part_names import part_names
from cardapp.publish import layouts
from cardapp.settings import ROOT


def names(layout: str) -> list[str]:
    loaded = load_card(ROOT / "etc" / "cards" / "arena")
    document = compose(loaded.card, loaded.identity, layouts.find(layout).arranged("html"), loaded.sources())
    return [name for sheet in part_names(document.sheets) for name in sheet]


def test_a_part_has_the_same_name_in_every_layout() -> None:
    classic = names("karta-classic")
    assert len(classic) == len(set(classic))
    assert {":card_title", "bump:task_title", "bump/anatomy/empty/fields:code"} <= set(classic)
    for other in ("karta-5a", "karta-5b", "karta-mixed"):
        found = names(other)
        assert len(found) == len(set(found))
        assert {name for name in found if "." not in name} == {name for name in classic if "." not in name}

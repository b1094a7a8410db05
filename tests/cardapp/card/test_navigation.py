"""Random moves on random cards obey the rules of navigation, and examples show the rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardapp.card import navigation
from cardapp.card.catalog import Catalog, depth
from cardapp.card.model import LEVELS
from cardapp.card.navigation import FRESH, Position, at_item, from_request, index_of, key_of, move, repair, sync_target
from cardapp.errors import InvalidValue, LevelNotSyncable

from .conftest import catalogs

FULL_KEY = "t1/b1/p1/s1/two"


def body(**fields: Any) -> dict[str, Any]:
    return {"task_id": "t1", "block_id": "b1", "phase_id": "p1", "step_id": "s1", "focus_level": "step", **fields}


# -- the rules, on any card ----------------------------------------------------------------------------------------


@given(data=st.data(), catalog=catalogs())
def test_any_sequence_of_moves_stays_on_the_card_and_reports_its_deltas(data: st.DataObject, catalog: Catalog) -> None:
    position = FRESH
    for _ in range(data.draw(st.integers(1, 12))):
        level = data.draw(st.sampled_from(LEVELS))
        delta = data.draw(st.integers(-6, 6).filter(bool))
        result = move(catalog, position, level, delta)
        assert result.moved * delta >= 0
        assert abs(result.moved) <= abs(delta)
        if result.moved == 0:
            assert result.position == position
            assert result.at_end == ("last" if delta > 0 else "first")
        else:
            _check_step(catalog, position, result, level)
        position = result.position
        assert repair(catalog, position) == position
        assert from_request(catalog, position.as_json()) == position


def _check_step(catalog: Catalog, before: Position, result: navigation.Moved, level: Any) -> None:
    row = catalog.at(level)
    reached = catalog.item(key_of(result.position))
    assert reached.level == level
    assert result.position == at_item(reached, sync_requested=before.sync_requested, actor=before.actor)
    start = index_of(catalog, before).get(level, 0)
    if start is not None:
        assert reached.index == start + result.moved
    ends = {0: "first", len(row) - 1: "last"}
    assert result.at_end == ends.get(reached.index) or len(row) == 1


@given(data=st.data(), catalog=catalogs())
def test_a_move_back_returns_to_the_same_position_and_sync_selects_a_snapshot_inside_the_focus(
    data: st.DataObject, catalog: Catalog
) -> None:
    item = data.draw(st.sampled_from(catalog.items))
    delta = data.draw(st.integers(1, 5))
    start = at_item(item)
    there = move(catalog, start, item.level, delta)
    if there.moved == delta:
        assert move(catalog, there.position, item.level, -delta).position == start
    if item.level in ("card", "task"):
        with pytest.raises(LevelNotSyncable):
            sync_target(catalog, start)
    else:
        assert sync_target(catalog, start) == item.first_snapshot
        assert item.first_snapshot.startswith(item.key)


@given(data=st.data(), catalog=catalogs())
def test_a_move_along_a_deeper_level_starts_at_the_first_descendant(data: st.DataObject, catalog: Catalog) -> None:
    item = data.draw(st.sampled_from([item for item in catalog.items if item.level != "snapshot"]))
    level = data.draw(st.sampled_from(LEVELS[depth(item.level) + 1 :]))
    below = [other for other in catalog.at(level) if not item.key or other.key.startswith(f"{item.key}/")]
    forward = move(catalog, at_item(item), level, 1)
    assert key_of(forward.position) == below[0].key
    backward = move(catalog, at_item(item), level, -1)
    if below[0].index == 0:
        assert (backward.moved, backward.position) == (0, at_item(item))
    else:
        assert key_of(backward.position) == catalog.at(level)[below[0].index - 1].key


@given(catalog=catalogs())
def test_indexes_pages_and_keys_of_the_catalog_are_consistent(catalog: Catalog) -> None:
    assert catalog.counts == {level: len(catalog.at(level)) for level in LEVELS}
    for level in LEVELS:
        assert [item.index for item in catalog.at(level)] == list(range(len(catalog.at(level))))
    for item in catalog.items:
        assert item.parent is None or item.key.startswith(item.parent)
        assert catalog.item(item.first_step).level == "step"
        assert catalog.item(item.first_snapshot).level == "snapshot"
        if item.level == "block":
            assert item.page_index == item.index
        elif depth(item.level) > depth("block"):
            assert item.page_index == catalog.trail(item.key)[1].index
    keys = [item.key for item in catalog.items]
    assert len(set(keys)) == len(keys)


@given(data=st.data(), old=catalogs(), new=catalogs())
def test_a_position_survives_any_edit_of_the_card(data: st.DataObject, old: Catalog, new: Catalog) -> None:
    position = at_item(data.draw(st.sampled_from(old.items)))
    mended = repair(new, position)
    assert new.find(key_of(mended)) is not None
    assert key_of(position).startswith(key_of(mended))
    deeper = "/".join(key_of(position).split("/")[: len(navigation.ids(mended)) + 1])
    assert mended == position or new.find(deeper) is None


# -- examples ------------------------------------------------------------------------------------------------------


def test_a_snapshot_may_be_given_by_its_id_or_its_key_or_left_out(catalog: Catalog) -> None:
    plain = from_request(catalog, body())
    assert (key_of(plain), plain.snapshot_ref, plain.actor) == ("t1/b1/p1/s1", None, "api")
    for reference in ("two", FULL_KEY):
        chosen = from_request(catalog, body(snapshot_ref=reference, actor="ada", sync_requested=True))
        assert (chosen.snapshot_ref, chosen.actor, chosen.sync_requested) == (FULL_KEY, "ada", True)
        assert sync_target(catalog, chosen) == FULL_KEY
    assert sync_target(catalog, plain) == "t1/b1/p1/s1/one"


def test_ids_below_the_focus_are_kept(catalog: Catalog) -> None:
    position = from_request(catalog, body(focus_level="block", snapshot_ref="two"))
    assert key_of(position) == "t1/b1"
    assert index_of(catalog, position) == {"task": 0, "block": 0, "phase": 0, "step": 0, "snapshot": 1}
    assert sync_target(catalog, position) == "t1/b1/p1/s1/one"


def test_the_error_of_an_invalid_position_names_its_field(catalog: Catalog) -> None:
    for fields, pointer in (
        ({"step_id": None}, "/step_id"),
        ({"focus_level": "snapshot"}, "/snapshot_ref"),
        ({"focus_level": "task", "phase_id": None}, "/phase_id"),
        ({"step_id": "s9"}, "/step_id"),
        ({"task_id": "t2", "block_id": "b2"}, "/block_id"),
        ({"snapshot_ref": "three"}, "/snapshot_ref"),
        ({"snapshot_ref": "t2/b1/p1/s1/one"}, "/snapshot_ref"),
    ):
        with pytest.raises(InvalidValue) as caught:
            from_request(catalog, body(**fields))
        assert {error.pointer for error in caught.value.errors} == {pointer}, fields


def test_a_move_crosses_parents_and_stops_at_the_end(catalog: Catalog) -> None:
    start = from_request(catalog, body(snapshot_ref="two"))
    across = move(catalog, start, "step", 2)
    assert (key_of(across.position), across.moved, across.at_end) == ("t1/b2/p1/s1", 2, None)
    assert across.position.snapshot_ref is None
    end = move(catalog, across.position, "step", 10)
    assert (key_of(end.position), end.moved, end.at_end) == ("t2/b1/p1/s1", 1, "last")

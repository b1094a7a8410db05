from __future__ import annotations

from typing import Any

from cardapp.state import explanations
from cardapp.state.database import Database

KEY = "t1/b1/p1/s1/first"
STRATEGY = {"label": "Look", "commands": ["print n", "next"], "expected_observations": ["1", None]}
ANNOTATION: dict[str, Any] = {
    "strategy_id": None,
    "target": {"part": "t1/b1/p1/s1:code", "x": 0.1, "y": 0.25, "w": 0.5, "h": 1},
    "geometry": {"points": [[0.1, 0.25], [0.6, 1]]},
    "style": {"kind": "box", "color": "#a0B1c2"},
    "text": "zoë\n<b>",
    "visible": True,
}


def test_what_was_added_is_loaded_unchanged(db: Database) -> None:
    with db.write() as tx:
        strategy = explanations.add_strategy(tx, "u", KEY, STRATEGY)
        annotation = explanations.add_annotation(tx, "u", KEY, {**ANNOTATION, "strategy_id": strategy.id})
    with db.read() as conn:
        assert explanations.all_strategies(conn, "u") == [strategy] == [explanations.strategy(conn, "u", "s1")]
        assert strategy.as_json() == {"id": "s1", "key": KEY, **STRATEGY}
        assert explanations.all_annotations(conn, "u") == [annotation] == explanations.annotations_of(conn, "s1")
        assert annotation == {"id": "a1", "key": KEY, **ANNOTATION, "strategy_id": "s1"}


def test_cards_do_not_share_them(db: Database) -> None:
    with db.write() as tx:
        explanations.add_strategy(tx, "a", KEY, STRATEGY)
        explanations.add_annotation(tx, "a", KEY, ANNOTATION)
        explanations.remove_annotation(tx, "b", "a1")
        explanations.set_visible(tx, "b", ["a1"], False)
        assert explanations.strategy(tx, "b", "s1") is explanations.annotation(tx, "b", "a1") is None
        assert explanations.all_strategies(tx, "b") == explanations.all_annotations(tx, "b") == []
        found = explanations.annotation(tx, "a", "a1")
    assert found is not None
    assert found["visible"]


def test_an_id_is_never_given_again(db: Database) -> None:
    with db.write() as tx:
        explanations.add_annotation(tx, "u", KEY, ANNOTATION)
        explanations.remove_annotation(tx, "u", "a1")
        explanations.add_strategy(tx, "u", KEY, STRATEGY)
        explanations.remove_strategy(tx, "u", "s1")
    with db.write() as tx:
        assert explanations.add_annotation(tx, "u", KEY, ANNOTATION)["id"] == "a2"
        assert explanations.add_strategy(tx, "u", KEY, STRATEGY).id == "s2"


def test_every_change_increments_the_revision(db: Database) -> None:
    with db.write() as tx:
        seen = [explanations.revision(tx, "u")]
        for change in (
            lambda: explanations.add_strategy(tx, "u", KEY, STRATEGY),
            lambda: explanations.add_annotation(tx, "u", KEY, ANNOTATION),
            lambda: explanations.set_visible(tx, "u", ["a1"], False),
            lambda: explanations.remove_annotation(tx, "u", "a1"),
            lambda: explanations.remove_strategy(tx, "u", "s1"),
        ):
            change()
            seen.append(explanations.revision(tx, "u"))
    assert seen == [0, 1, 2, 3, 4, 5]


def test_hiding_changes_nothing_else(db: Database) -> None:
    with db.write() as tx:
        before = [explanations.add_annotation(tx, "u", KEY, {**ANNOTATION, "text": text}) for text in "abc"]
        explanations.set_visible(tx, "u", ["a1", "a3"], False)
        after = explanations.all_annotations(tx, "u")
    assert [each["visible"] for each in after] == [False, True, False]
    assert [{**each, "visible": True} for each in after] == before

"""The judgement of predictions, and the answers that are made of the learner's events."""

from __future__ import annotations

from typing import Any

import pytest

from cardapp.card import answers
from cardapp.card.answers import ANSWER, HINT, PREDICTION, REVEALED, Entry, asked_stop, asked_stops, overview
from cardapp.card.catalog import Catalog
from cardapp.card.model import UNDEFINED, Expectation, Snapshot, Stop
from cardapp.card.prediction import judged, unasked
from tests.cardapp.card.conftest import catalog_of, first_step, small_source

STOP, OTHER, STEP = "t1/b1/p1/s1/one", "t1/b1/p1/s1/two", "t1/b1/p1/s1"
UNKNOWN = Expectation("n", "?")


def stop(*expect: Expectation, ask: tuple[str, ...] = ()) -> Snapshot:
    return Snapshot("s", "s", Stop("a.c", 1, "x", None, 1), expect, (), ask=ask)


def right(said: str, value: str, *, card: bool = False, **expected: Any) -> bool | None:
    """Whether the prediction ``said`` is right if the program (or without a session the card) has ``value``."""
    snapshot = stop(Expectation("e", value, **expected))
    found = judged(7, {"e": said}, snapshot, None if card else {"e": {"value": value, "error": None}})
    assert (found["prediction"], found["said"], found["by"]) == (7, {"e": said}, "card" if card else "program")
    answer: bool | None = found["right"]["e"]
    return answer


def test_a_prediction_is_judged_as_a_proof_compares() -> None:
    for said, value, expected in (
        (" 0x40 ", "64", True),
        ("63", "64", False),
        ("97", "97 'a'", True),
        ("bo", '0x5555 "box"', False),
        ("{x  = 1}", "{x = 1}", True),
        ("I do not know", "64", False),
    ):
        assert right(said, value) is right(said, value, card=True) is expected, (said, value)
    for card in (False, True):
        assert right("0.1", "0.10000000149", card=card, tolerance=1e-6) is True
        assert right("0.2", "0.10000000149", card=card, tolerance=1e-6) is False


def test_what_the_card_wrote_is_right_by_the_card_too() -> None:
    assert right('"box"', "box", card=True) is True
    assert right("{x = 1, next = 0x5555}", "{x = 1, next = *}", card=True) is True
    assert right("{x = 2, next = 0x5555}", "{x = 1, next = *}", card=True) is False


def test_a_value_that_is_undefined_or_that_nobody_knows_is_never_judged() -> None:
    undefined, asked, unknown = stop(Expectation("p", UNDEFINED, undefined=True)), stop(ask=("n",)), stop(UNKNOWN)
    for values in (None, {"p": {"value": "0x7ffe", "error": None}}):
        found = judged(1, {"p": "0"}, undefined, values)
        assert (found["seen"], found["right"]) == ({"p": "undefined"}, {"p": None})
    for values in (None, {}, {"n": {"value": None, "error": "No symbol"}}):
        for snapshot in (asked, unknown):
            found = judged(1, {"n": "3"}, snapshot, values)
            assert (found["seen"], found["right"]) == ({"n": None}, {"n": None}), (values, snapshot)


def test_a_value_outside_of_expect_is_judged_by_the_program() -> None:
    found = judged(1, {"n": "3"}, stop(ask=("n",)), {"n": {"value": "4", "error": None}})
    assert (found["seen"], found["right"]) == ({"n": "4"}, {"n": False})
    assert list(unasked(stop(ask=("a", "b")), {"b": "1", "c": "2"})) == ["c"]


# -- answers -------------------------------------------------------------------------------------------------------


@pytest.fixture
def catalog() -> Catalog:
    source = small_source()
    step = first_step(source)
    step["question"] = "How *many*?"
    step["snapshots"][0]["expect"] = {"m": "2", "n": "1"}
    return catalog_of(source)


class Record:
    """Events that are a minute apart."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def __call__(self, kind: str, key: str = STOP, /, *, at: str | None = None, **data: Any) -> Entry:
        seq = len(self.entries) + 1
        self.entries.append(Entry(seq, at or f"2025-03-01T10:{seq:02}:00.000Z", kind, key, data))
        return self.entries[-1]

    def predict(self, said: dict[str, str], verdict: dict[str, Any] | None = None, by: str = "program") -> Entry:
        """With ``verdict``, ``{expression: (seen, right)}``, the prediction is judged: by the program after a proof."""
        made = self(PREDICTION, values=said)
        if verdict is not None:
            if by == "program":
                self(answers.PROVED)
            seen, right = ({name: pair[place] for name, pair in verdict.items()} for place in (0, 1))
            self(answers.JUDGED, prediction=made.seq, said=said, seen=seen, right=right, by=by)
        return made


@pytest.fixture
def record() -> Record:
    return Record()


def item(catalog: Catalog, record: Record, key: str = STOP) -> dict[str, Any]:
    (found,) = overview([asked_stop(catalog, key)], record.entries)["items"]
    return found


def row(expression: str, said: str, seen: str | None = None, right: bool | None = None) -> dict[str, Any]:
    shown = {"said": said, "said_title": None, "seen": seen, "seen_title": None}
    value = {"expression": expression, "said": said, "reads": None, "seen": seen, "right": right}
    return value | {"empty": False, "format": None, "shown": shown}


def test_without_events_there_is_no_item(catalog: Catalog) -> None:
    summary = {"stops": 5, "predicted": 0, "right_first": 0, "looked_first": 0, "seconds": 0, "misconceptions": []}
    assert overview(asked_stops(catalog), []) == {"items": [], "summary": summary}


def test_a_prediction_waits_for_its_proof(catalog: Catalog, record: Record) -> None:
    record.predict({"n": "1", "m": "3"})
    assert item(catalog, record) == {
        "key": STOP,
        "question": "How *many*?",
        "answer": None,
        "predictions": [row("m", "3"), row("n", "1")],
        "latest": [row("m", "3"), row("n", "1")],
        "by": None,
        "tries": 1,
        "looked_first": False,
        "revealed": False,
        "hints": 0,
        "self": None,
        "first_at": "2025-03-01T10:01:00.000Z",
        "proved_at": None,
        "right_first": None,
    }


def test_the_first_try_counts_and_the_last_one_is_kept_beside_it(catalog: Catalog, record: Record) -> None:
    record.predict({"n": "1", "m": "3"}, {"n": ("1", True), "m": ("2", False)})
    record.predict({"m": "2"}, {"m": ("2", True)})
    found = item(catalog, record)
    assert found["predictions"] == [row("m", "3", "2", False), row("n", "1", "1", True)]
    assert found["latest"] == [row("m", "2", "2", True)]
    assert (found["tries"], found["by"], found["right_first"]) == (2, "program", False)
    assert (found["looked_first"], found["revealed"]) == (False, True)
    assert found["proved_at"] == "2025-03-01T10:02:00.000Z"
    summary = overview(asked_stops(catalog), record.entries)["summary"]
    mistake = {"key": STOP, "expression": "m", "reads": "3", "times": 1}
    counts = {"stops": 5, "predicted": 1, "right_first": 0, "looked_first": 0, "seconds": 300}
    assert summary == {**counts, "misconceptions": [mistake]}


def test_a_right_prediction_after_a_look_is_told_apart(catalog: Catalog, record: Record) -> None:
    for look in (REVEALED, answers.PROVED):
        record.entries.clear()
        record(look)
        record.predict({"n": "1"}, {"n": ("1", True)})
        found = overview([asked_stop(catalog, STOP)], record.entries)
        assert (found["items"][0]["looked_first"], found["items"][0]["right_first"]) == (True, True)
        assert (found["summary"]["looked_first"], found["summary"]["right_first"]) == (1, 0)


def test_the_card_uncovers_its_values_when_it_judges(catalog: Catalog, record: Record) -> None:
    record.predict({"n": "2"}, {"n": ("1", False)}, by="card")
    found = item(catalog, record)
    assert (found["by"], found["revealed"], found["looked_first"], found["proved_at"]) == ("card", True, False, None)


def test_what_was_never_judged_is_neither_right_nor_wrong(catalog: Catalog, record: Record) -> None:
    record.predict({"n": "1", "m": "0"}, {"n": ("1", True), "m": ("undefined", None)})
    assert item(catalog, record)["right_first"] is True
    record.entries.clear()
    record.predict({"m": "0"}, {"m": ("undefined", None)})
    assert item(catalog, record)["right_first"] is None


def test_an_event_at_a_step_counts_for_each_of_its_stops(catalog: Catalog, record: Record) -> None:
    record(ANSWER, STEP, text="16")
    record(REVEALED, STEP)
    record(ANSWER, OTHER, text="17")
    found = overview(asked_stops(catalog), record.entries)["items"]
    assert [(each["key"], each["answer"], each["revealed"]) for each in found] == [
        (STOP, "16", True),
        (OTHER, "17", True),
    ]
    assert not found[0]["looked_first"]


def test_an_answer_does_not_excuse_a_look_before_the_prediction(catalog: Catalog, record: Record) -> None:
    record(REVEALED)
    found = item(catalog, record)
    assert (found["looked_first"], found["tries"], found["first_at"]) == (True, 0, None)
    record.entries.clear()
    record(ANSWER, text="about three")
    record(REVEALED)
    assert item(catalog, record)["looked_first"] is False
    record.predict({"n": "1"})
    assert item(catalog, record)["looked_first"] is True


def test_hints_and_the_own_judgement_are_kept(catalog: Catalog, record: Record) -> None:
    for number, said in enumerate(("no", "partly"), 1):
        record(HINT, hint=number)
        record(answers.SELF, self=said)
    found = item(catalog, record)
    assert (found["hints"], found["self"], found["revealed"]) == (2, "partly", False)


def test_a_long_gap_is_no_work(catalog: Catalog, record: Record) -> None:
    record(HINT, at="2025-03-01T10:00:00.000Z", hint=1)
    record(HINT, at="2025-03-01T10:09:59.600Z", hint=1)
    record(HINT, at="2025-03-01T10:20:00.000Z", hint=1)
    record(HINT, at="2025-03-01T10:19:00.000Z", hint=1)  # the clock was set back
    assert overview([asked_stop(catalog, STOP)], record.entries)["summary"]["seconds"] == 600


def test_events_at_other_positions_and_of_former_stops_are_left_out(catalog: Catalog, record: Record) -> None:
    for kind, key in ((ANSWER, "t1/b1/p1/s2/gone"), (REVEALED, "t1"), (REVEALED, "")):
        record(kind, key, text="x")
    assert overview(asked_stops(catalog), record.entries)["items"] == []


def test_a_value_that_the_card_no_longer_asks_comes_last(catalog: Catalog, record: Record) -> None:
    record.predict({"gone": "1", "n": "1"})
    assert [each["expression"] for each in item(catalog, record)["predictions"]] == ["m", "n", "gone"]


def test_a_value_that_was_left_empty_makes_the_stop_wrong(catalog: Catalog, record: Record) -> None:
    record.predict({"n": "1", "m": " "})
    found = item(catalog, record)
    assert [(each["said"], each["right"], each["empty"]) for each in found["predictions"]] == [
        (None, False, True),
        ("1", None, False),
    ]
    snapshot = stop(Expectation("m", "2"), Expectation("n", "1"), ask=("m", "n"))
    verdict = judged(1, {"n": "1"}, snapshot, None)
    assert (verdict["right"], verdict["seen"]) == ({"n": True, "m": False}, {"n": "1", "m": "2"})
    record(answers.JUDGED, **verdict)
    found = item(catalog, record)
    assert found["right_first"] is False
    assert [each["seen"] for each in found["predictions"]] == ["2", "1"]
    assert overview([asked_stop(catalog, STOP)], record.entries)["summary"]["misconceptions"] == []

"""The rules of the viewer, of progress, of proofs and of the allocator's difference."""

from __future__ import annotations

import copy
import itertools
import json
import math
from contextlib import suppress
from typing import Any

import pytest

from cardapp.card import allocator, progress, proof, viewer
from cardapp.card.catalog import Catalog
from cardapp.card.model import Expectation, Snapshot, Stop
from cardapp.card.progress import LastResult, Status
from cardapp.errors import EditorSyncOff, InvalidValue, NotFound

# -- viewer --------------------------------------------------------------------------------------------------------


def test_a_negative_zero_is_kept_as_zero() -> None:
    """JSON has -0, and the page may compute it. Two zeros that differ as text would count as two states."""
    merged = viewer.merge(viewer.FRESH, {"scroll": {"x": -0.0, "y": 7.5}}, 3)
    assert json.dumps(merged.state["scroll"]) == '{"x": 0.0, "y": 7.5, "page_index": 0, "sheet_scroll_top": 0}'
    assert merged.changed == ("scroll.y",)
    stored = {"scale": 1, "scroll": {"sheet_scroll_top": -0.0}}
    assert math.copysign(1, viewer.repair(stored, 3)["scroll"]["sheet_scroll_top"]) == 1


def with_editor(sync: bool, control: bool) -> viewer.State:
    state = copy.deepcopy(viewer.FRESH)
    state["viewer"]["editor"].update(sync=sync, control=control)
    return state


def test_a_change_of_sync_or_control_has_its_result() -> None:
    for before, patch, after in (
        ((True, True), {"sync": False}, (False, False)),
        ((True, True), {"sync": False, "control": True}, (False, False)),
        ((False, False), {"sync": True}, (True, False)),
        ((False, False), {"sync": True, "control": True}, (True, True)),
        ((True, False), {"control": True}, (True, True)),
        ((True, True), {"control": False}, (True, False)),
        ((True, True), {"sync": True}, (True, True)),
    ):
        editor = viewer.merge(with_editor(*before), {"viewer": {"editor": patch}}, 3).state["viewer"]["editor"]
        assert (editor["sync"], editor["control"]) == after, (before, patch)


def test_control_needs_sync() -> None:
    for patch in ({"control": True}, {"sync": False, "control": True}):
        with pytest.raises(EditorSyncOff):
            viewer.merge(with_editor(False, False), {"viewer": {"editor": patch}}, 3)
    for before, sync, control in itertools.product([(0, 0), (1, 0), (1, 1)], [None, False, True], [None, False, True]):
        patch = {name: value for name, value in {"sync": sync, "control": control}.items() if value is not None}
        with suppress(EditorSyncOff):
            merged = viewer.merge(with_editor(*map(bool, before)), {"viewer": {"editor": patch}}, 3)
            editor = merged.state["viewer"]["editor"]
            assert editor["sync"] or not editor["control"], (before, patch)


def test_only_flags_and_the_page_are_noteworthy() -> None:
    scrolled = viewer.merge(viewer.FRESH, {"scale": 2, "scroll": {"x": 5.5}}, 3)
    assert (set(scrolled.changed), scrolled.noteworthy) == ({"scale", "scroll.x"}, ())
    turned = viewer.merge(viewer.FRESH, {"scroll": {"page_index": 2}, "viewer": {"allocator": {"visible": True}}}, 3)
    assert set(turned.noteworthy) == {"scroll.page_index", "viewer.allocator.visible"}
    assert viewer.merge(viewer.FRESH, {"scale": 1}, 3).changed == ()


def test_viewer_values_out_of_range_are_refused() -> None:
    for patch, pointer in (
        ({"scale": 0.05}, "/scale"),
        ({"scale": 8.1}, "/scale"),
        ({"scale": float("nan")}, "/scale"),
        ({"scroll": {"x": -1}}, "/scroll/x"),
        ({"scroll": {"y": float("inf")}}, "/scroll/y"),
        ({"scroll": {"page_index": 3}}, "/scroll/page_index"),
    ):
        with pytest.raises(InvalidValue) as caught:
            viewer.merge(viewer.FRESH, patch, 3)
        assert [error.pointer for error in caught.value.errors] == [pointer]
    viewer.merge(viewer.FRESH, {"scale": 0.1, "scroll": {"x": 0, "page_index": 2}}, 3)
    viewer.merge(viewer.FRESH, {"scale": 8}, 3)


def test_a_page_after_the_end_of_the_card_becomes_the_last_page() -> None:
    state = viewer.merge(viewer.FRESH, {"scroll": {"page_index": 2}}, 3).state
    assert viewer.repair(state, 2)["scroll"]["page_index"] == 1


# -- progress ------------------------------------------------------------------------------------------------------


def test_progress_counts_by_task_and_by_last_result(catalog: Catalog) -> None:
    statuses = {"t1.b1.p1.s1": Status("approved", "seen", "ada", "2026-01-02T03:04:05.678Z", 1)}
    results = {
        "t1/b1/p1/s1": LastResult("ready", "2026-01-02T03:04:05.678Z", "t1/b1/p1/s1/one", None),
        "t2/b1/p1/s1": LastResult("failed", "2026-01-02T03:05:05.678Z", "t2/b1/p1/s1/one", "snapshot_drift"),
    }
    overview = progress.overview(catalog, statuses, results)
    summary = overview["summary"]
    assert [item["id"] for item in overview["items"]] == ["t1.b1.p1.s1", "t1.b1.p1.s2", "t1.b2.p1.s1", "t2.b1.p1.s1"]
    assert (summary["total"], summary["approved"], summary["pending"], summary["percent"]) == (4, 1, 3, 25.0)
    assert [(row["task_id"], row["approved"], row["total"]) for row in summary["by_task"]] == [
        ("t1", 1, 3),
        ("t2", 0, 1),
    ]
    assert summary["execution"] == {"ready": 1, "failed": 1, "never_run": 2, "last_at": "2026-01-02T03:05:05.678Z"}
    assert overview["items"][1]["note"] == ""


def test_only_a_step_is_a_progress_item(catalog: Catalog) -> None:
    assert progress.step_of(catalog, "t1.b1.p1.s1").key == "t1/b1/p1/s1"
    for wanted in ("t1.b1.p1", "t1/b1/p1/s1", "t1.b1.p1.s9", "", "t1.b1.p1.s1.one"):
        with pytest.raises(NotFound):
            progress.step_of(catalog, wanted)


# -- proof ---------------------------------------------------------------------------------------------------------


EQUAL = (
    ("48", "48"), ("0x30", "48"), ("48", "0x30"), ("-1", "-1"), ("97", "97 'a'"), ("'a'", "97 'a'"),
    ("97 'a'", "97 'a'"), ("1", "true"), ("true", "true"), ("2.5", "2.5"), ("2.50", "2.5"), ("1e3", "1000"),
    ('"abc"', '0x555555556004 "abc"'), ('"abc"', '(char *) 0x555555556004 "abc"'), ('"abc"', '"abc"'),
    ("TOKEN_NUMBER", "TOKEN_NUMBER"), ("0x0", "0x0"), ("0", "0x0"), ("NULL", "(struct node *) 0x0"),
    ("nullptr", "0x0"), ("{a = 1, b = 2}", "{a = 1,\n  b = 2}"), ("18446744073709551615", "18446744073709551615"),
    ("a  b", '"a  b"'), ("0.1", "0.100000000000000000001"),
    ("box", '"box"'), ("box", 'L"box"'), ("", '""'), ('"a\\000b"', '"a\\000b"'), ("*", '"ada"'),
    ("*", "'z' <repeats 20 times>"), ("{x = 1, next = *}", "{x = 1, next = 0x5555555592a0}"),
    ("{x = 1, next = *}", "{x = 1, next = 0x0}"), ("{name = *, n = 3}", '{name = 0x555555556004 "ada", n = 3}'),
    ("{*, 2}", "{0x555555555139 <main>, 2}"), ("*", "*"), ("*", '* {name = "a}", n = {1, 2}}'),
    ("{name = *, n = 3}", '{name = * "a, b}", n = 3}'), ('{name = * "ada", n = 3}', '{name = * "ada", n = 3}'),
    ("{*, * {x = *}}", '{* <add(int)>, * {x = * "a"}}'), ("{[1] = *}", "{[1] = * {x = 1}}"),
)  # fmt: skip
DIFFERENT = (
    ("48", "49"), ("'b'", "97 'a'"), ('"abc"', '0x555555556004 "abd"'), ('"abc"', "0x555555556004"),
    ("TOKEN_NUMBER", "TOKEN_PLUS"), ("18446744073709551615", "18446744073709551614"), ("0", "<optimized out>"),
    ("NULL", "(struct node *) 0x55555555a2a0"), ("nan", "1"), ("bo", '"box"'),
    ('"bo"', "\"bo\", 'x' <repeats 20 times>"), ('"a"', '"a\\000b"'), ('"a"', '"a\\000"'), ('""', "{0, 1}"),
    ("*", "97 'a'"), ("{x = *}", '{x = "ada"}'),
    ("{x = 1, next = *}", "{x = 2, next = 0x5555555592a0}"), ("{x = *}", "{x = 7}"), ("*", "7"),
    ('{name = * "ada"}', '{name = * "adb"}'), ("{*, 2}", '{* "a", 3}'),
    ("{f = * <add>}", "{f = * <sub>}"), ("{x = *}", "{x = *, y = 1}"), ('{name = * "ada"}', "{name = *}"),
    ("0.1", "0.10000000149011612"), ("0.100000000000000000001", "0.100000000000000000103"),
    ('"a  b"', '"a b"'), ('{name = "a  b", n = 1}', '{name = "a b", n = 1}'),
)  # fmt: skip


def test_values_are_compared_in_any_notation() -> None:
    assert [each for each in EQUAL if not proof.same_value(Expectation("n", each[0]), each[1])] == []
    assert [each for each in DIFFERENT if proof.same_value(Expectation("n", each[0]), each[1])] == []


def test_a_tolerance_says_how_far_a_number_may_be() -> None:
    price = Expectation("price", "0.1", tolerance=1e-6)
    assert proof.same_value(price, "0.10000000149011612")
    assert not proof.same_value(price, "0.1001")
    assert not proof.same_value(price, "<optimized out>")


def test_a_recorded_value_equals_what_was_seen_and_has_no_address() -> None:
    for actual, recorded in (
        ("97 'a'", "97 'a'"),
        ('0x5555 "  two  blanks"', '"  two  blanks"'),
        (r'"box\000\000left"', r'"box\000\000left"'),
        (r"'\000' <repeats 15 times>", r"'\000' <repeats 15 times>"),
        ("-nan(0x8000000000000)", "-nan(0x8000000000000)"),
        (r'''"ab", 'c' <repeats 20 times>, "d"''', r'''"ab", 'c' <repeats 20 times>, "d"'''),
        ('{x = 1, next = *, last = 0x0, name = * "a,}b"}', '{x = 1, next = *, last = 0x0, name = * "a,}b"}'),
    ):
        assert proof.recordable(actual) == recorded
        assert proof.same_value(Expectation("n", recorded), actual)
        assert not proof.is_address(recorded)
    assert proof.is_address(proof.recordable("0x55555555a2a0"))
    assert not proof.is_address(proof.recordable("0x0"))


def test_what_a_mask_hides_and_what_is_cut_off_is_not_compared() -> None:
    for expected, actual, partly in (
        ("{name = *}", '{name = * "ada"}', True),
        ("{f = *, next = *}", "{f = *, next = * <add>}", True),
        ("*", "* {x = 1}", True),
        ("std::vector of length 300 = {7, 7…}", "std::vector of length 300 = {7, 7…}", True),
        ("{next = *, last = *}", "{next = *, last = 0x0}", True),
        ("{next = *, last = 0x0}", "{next = *, last = 0x0}", False),
        ("*", "0x0", True),
        ("*", '"ada"', True),
        ("* {…}", "* {…}", True),
        ("Item { up: (Weak) }", "Item { up: (Weak) }", True),
        ('"(Weak)"', '"(Weak)"', False),
        ('{name = * "a…"}', '{name = * "a…"}', False),
        ("{n = <optimized out>}", "{n = <optimized out>}", True),
        ('"<optimized out>"', '"<optimized out>"', False),
        ("*", "*", False),
        (r'"box\000old"', r'"box\000old"', False),
    ):
        assert proof.same_value(Expectation("n", expected), actual)
        assert proof.partly(Expectation("n", expected), actual) is partly, expected


def test_what_is_not_compared_has_a_reason() -> None:
    for expected, actual, reason in (
        ("{name = *}", '{name = * "ada"}', "hides behind a *"),
        ("{7…}", "{7…}", "not shown (…)"),
        ("{n = <optimized out>}", "{n = <optimized out>}", "gdb cannot read: <optimized out>"),
    ):
        assert reason in str(proof.uncompared(Expectation("n", expected), actual))


def test_a_stop_at_a_function_is_proved_by_its_name() -> None:
    for wanted, function, inside, match in (
        ("total", "total", None, True),
        ("total", "shop::total(int)", None, True),
        ("shop::total", "shop::total", None, True),
        ("total", "subtotal", None, False),
        ("qsort", "main", "qsort", True),
        ("qsort", "main", None, False),
    ):
        snapshot = Snapshot("s", "S", Stop(None, None, None, wanted, 1), (), ())
        observed = {"file": "a.c", "line": 1, "function": function, "inside": inside, "values": {}}
        assert [check.match for check in proof.checks(snapshot, observed)] == [match], (wanted, function)


def test_a_stop_at_a_signal_is_proved_by_that_signal() -> None:
    snapshot = Snapshot("s", "S", Stop(None, None, None, None, 1, signal="SIGSEGV"), (), ())
    observed = {"file": "a.c", "line": 1, "function": "main", "signal": "SIGABRT", "values": {}}
    assert [check.as_json() for check in proof.checks(snapshot, observed)] == [
        {"name": "signal", "expected": "SIGSEGV", "actual": "SIGABRT", "match": False}
    ]


def test_a_proof_compares_the_stop_and_the_values(catalog: Catalog) -> None:
    snapshot = catalog.snapshots["t1/b1/p1/s1/one"]
    good = {"file": "a.c", "line": 3, "function": "f", "values": {"n": {"value": "1", "error": None}}}
    assert proof.drift_reason(proof.checks(snapshot, good)) is None
    for wrong in (
        {**good, "line": 4},
        {**good, "file": "b.c"},
        {**good, "values": {"n": {"value": "2", "error": None}}},
        {**good, "values": {"n": {"value": None, "error": "No symbol"}}},
        {**good, "values": {}},
    ):
        assert proof.drift_reason(proof.checks(snapshot, wrong)) is not None


def test_an_undefined_value_is_shown_and_proves_nothing() -> None:
    unset = Expectation("p", "undefined", undefined=True)
    snapshot = Snapshot("s", "S", Stop(None, None, None, "main", 1), (unset,), ())
    for read, actual in (({"value": "9", "error": None}, "9"), ({"value": None, "error": "gone"}, "<gone>")):
        found = proof.checks(snapshot, {"file": "a.c", "line": 1, "function": "main", "values": {"p": read}})
        assert (found[1].expected, found[1].actual, found[1].match) == ("undefined", actual, None)
        assert proof.drift_reason(found) is None


# -- allocator -----------------------------------------------------------------------------------------------------


def reading(*blocks: tuple[int, int, str], used: int, size: int = 64) -> dict[str, Any]:
    listed = [{"offset": offset, "size": length, "label": label} for offset, length, label in blocks]
    return {"base": 0x1000, "size": size, "used": used, "high_water": used, "blocks": listed}


def test_an_allocator_reading_gets_derived_values_and_a_difference() -> None:
    before = reading((0, 3, "a"), used=3)
    after = reading((0, 3, "a"), (8, 8, "b"), used=16)
    model = allocator.describe(after)
    assert (model["allocation_pointer"], model["free"], model["occupancy"]) == (0x1010, 48, 0.25)
    assert [block["padding"] for block in model["blocks"]] == [0, 5]
    assert allocator.difference(None, after) is None
    change = allocator.difference(before, after)
    assert change is not None
    assert (change["used"], change["high_water"]) == (13, 13)
    assert [block["label"] for block in change["added"]] == ["b"]
    assert change["removed"] == []
    back = allocator.difference(after, before)
    assert back is not None
    assert [block["label"] for block in back["removed"]] == ["b"]
    assert allocator.describe(reading(used=0, size=0))["occupancy"] == 0.0

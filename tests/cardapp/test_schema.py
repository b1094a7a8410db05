"""Each fault of a document is reported by its pointer and in JSON's terms."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cardapp.errors import FieldError
from cardapp.mcp.tool_schema import ToolSchema
from cardapp.schema import MAX_DEPTH, decode, field_errors, validator

LINE = "^[^\\u0000-\\u001f\\u007f]*$"
NAMED = {"properties": {"a": {}, "b": {}, "c": {}}, "required": ["a", "b", "c"], "additionalProperties": False}


def faults(schema: dict[str, Any], value: Any) -> list[tuple[str, str]]:
    return [(fault.pointer, fault.message) for fault in field_errors(validator(schema), value)]


def test_each_missing_and_each_unknown_field_has_its_own_fault() -> None:
    found = faults({"properties": {"in": NAMED}}, {"in": {"b": 1, "x/y": 2, "z": 3}})
    assert sorted(found) == [
        ("/in/a", "is missing"),
        ("/in/c", "is missing"),
        ("/in/x~1y", "is unknown; known: a, b, c"),
        ("/in/z", "is unknown; known: a, b, c"),
    ]


def test_faults_of_a_peers_schema_name_the_same_fields() -> None:
    assert ToolSchema(NAMED).faults({"a": 1, "b": 1}) == (FieldError("/c", "is missing"),)


def test_a_field_that_a_pattern_allows_is_not_unknown() -> None:
    schema = {"patternProperties": {"^x-": {}}, "additionalProperties": False}
    assert faults(schema, {"x-a": 1, "y": 1}) == [("/y", "is unknown; known: none")]


def test_a_fault_is_a_sentence() -> None:
    sentences: list[tuple[dict[str, Any], Any, str]] = [
        ({"type": "integer"}, True, "must be an integer, not true"),
        ({"type": "integer"}, None, "must be an integer, not null"),
        ({"type": ["string", "null"]}, [1, "a"], 'must be a string or null, not [1, "a"]'),
        ({"type": "boolean"}, 1, "must be true or false, not 1"),
        ({"minimum": 1}, 0, "must be at least 1, not 0"),
        ({"maximum": 8}, 8.5, "must be at most 8, not 8.5"),
        ({"exclusiveMinimum": 0}, 0, "must be greater than 0, not 0"),
        ({"exclusiveMaximum": 0}, 0, "must be less than 0, not 0"),
        ({"not": {"const": 0}}, 0, "must not be 0"),
        ({"minLength": 1}, "", "must have at least 1 character, not 0"),
        ({"maxLength": 256}, "x" * 257, "must have at most 256 characters, not 257"),
        ({"maxItems": 1}, [1, 2], "must have at most 1 item, not 2"),
        ({"minProperties": 2}, {}, "must have at least 2 fields, not 0"),
        ({"uniqueItems": True}, [1, 1], "must not contain an item twice"),
        ({"enum": ["on", None]}, "Ü", 'must be one of "on", null, not "Ü"'),
        ({"const": "v1"}, False, 'must be "v1", not false'),
        ({"pattern": LINE}, "a\x07b", "must not contain the control character U+0007"),
        ({"pattern": LINE}, "a\n", "must not contain the control character U+000A"),
        ({"pattern": "^[a-z]+$"}, "A", 'must match ^[a-z]+$, not "A"'),
        ({"pattern": "^a", "description": "Begins with a."}, "b", 'must match ^a, not "b" (Begins with a)'),
        ({"pattern": "^note$"}, "note\n", 'must match ^note$, not "note\\n"'),
        ({"pattern": "^[a-z\t]+$"}, "a\tB", 'must match ^[a-z\t]+$, not "a\\tB"'),
        ({"propertyNames": {"const": "a"}}, {"b": 1}, 'has the name "b", which must be "a", not "b"'),
        ({"multipleOf": 2}, 3, "breaks the rule multipleOf: 2"),
        ({"enum": ["a"]}, "b" * 5000, f'must be one of "a", not "{"b" * 59}…'),
    ]  # fmt: skip
    for schema, value, message in sentences:
        assert faults(schema, value) == [("", message)], schema


def test_the_errors_of_the_best_matching_branch_are_reported() -> None:
    schema = {"anyOf": [{"type": "null"}, {"type": "object", **NAMED}]}
    assert faults(schema, {"a": 1}) == [("/b", "is missing"), ("/c", "is missing")]


def test_json_that_cannot_be_shown_stored_or_traversed_is_refused() -> None:
    for raw, said in (
        (b"\xff", r"is not UTF-8 \(byte 0\)"),
        (b"{", "is not JSON: .* at line 1, column 2"),
        (b'{"a":1,"a":1}', "is ambiguous: an object has the name 'a' twice"),
        (b"[NaN]", "contains NaN, which is not a JSON value"),
        (b"[-Infinity]", "contains -Infinity, which is not a JSON value"),
        (b"[1e999]", "contains the number 1e999, which is too large"),
        (b"1" * 301, "contains a number of 301 digits; at most 300 are allowed"),
        (rb'{"a":[{"b/c":"\ud800"}]}', "unpaired surrogate, which is not a character, at /a/0/b~1c"),
        (rb'["\ud800x\udc00"]', "unpaired surrogate, which is not a character, at /0"),
        (rb'{"\udc00":1}', "unpaired surrogate, which is not a character, at /"),
        (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "is nested too deeply"),
        (b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1), "is nested too deeply"),
        (b"[" * 1_000_000, "is nested too deeply"),
    ):
        with pytest.raises(ValueError, match=said):
            decode(raw)


def test_any_other_json_is_decoded() -> None:
    assert decode(rb'{"a": [1, -2.5e3, "\ud83d\ude00", null, true], "": {}}') == {
        "a": [1, -2500.0, "😀", None, True],
        "": {},
    }
    assert decode(b"9" * 300) == 10**300 - 1
    assert repr(decode(b"[1.0, -2e3, 1.5, 1e300]")) == "[1, -2000, 1.5, 1e+300]"
    value = decode(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    assert json.loads(json.dumps(value)) == value

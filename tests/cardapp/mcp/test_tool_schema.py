from __future__ import annotations

import socket
from typing import Any

import pytest

from cardapp.errors import FieldError
from cardapp.mcp.tool_schema import DIALECT, MAX_DEPTH, MAX_NODES, MAX_REPORTED, ToolSchema, UnusableSchema, peer_schema
from cardapp.session_host.session_tools import REPLAY_OUT

MAX_BLOCKS = 4096
"""Blocks of an arena. The same limit is in the code that runs in gdb, which no test can import."""


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"not": schema}
    return schema


def test_faults_name_their_place() -> None:
    schema = ToolSchema({"properties": {"a/b": {"items": {"type": "integer"}}}})
    assert schema.faults({"a/b": [1, 2.0, "x"]}) == (FieldError("/a~1b/2", 'must be an integer, not "x"'),)
    assert schema.faults({"a/b": []}) == ()


def test_the_number_of_reported_faults_is_limited() -> None:
    assert len(ToolSchema({"items": {"type": "null"}}).faults([1] * 100)) == MAX_REPORTED


def test_an_unusable_schema_is_refused() -> None:
    for schema, reason in (
        (True, "object"),
        (None, "object"),
        ({"type": "objekt"}, "type"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "dialect"),
        ({"$schema": 7}, "dialect"),
        (nested(MAX_DEPTH), "levels"),
        (nested(100_000), "levels"),
        ({"enum": list(range(MAX_NODES - 1))}, "nodes"),
    ):
        with pytest.raises(UnusableSchema, match=reason):
            ToolSchema(schema)
    for schema in (nested(MAX_DEPTH - 1), {"enum": list(range(MAX_NODES - 2))}, {"$schema": DIALECT}):
        assert ToolSchema(schema).faults(0) is not None
    for schema in (None, {"type": "objekt"}, nested(5000)):
        with pytest.raises(UnusableSchema):
            peer_schema(schema)


def test_a_network_reference_is_refused_and_never_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[Any] = []

    def note(*args: Any, **_kwargs: Any) -> None:
        attempts.append(args)
        raise OSError("no network here")

    monkeypatch.setattr(socket, "getaddrinfo", note)
    monkeypatch.setattr(socket.socket, "connect", note)
    for reference in ("http://127.0.0.1:9/x.json", "https://example.com/x.json", "file:///etc/hostname", "other.json"):
        with pytest.raises(UnusableSchema, match="reference"):
            ToolSchema({"$ref": reference}).faults({})
    assert attempts == []


def test_a_local_reference_works_and_an_endless_one_is_refused() -> None:
    tree = {"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "additionalProperties": {"$ref": "#/$defs/n"}}}}
    assert ToolSchema(tree).faults({"a": {"b": {}}}) == ()
    assert ToolSchema(tree).faults({"a": {"b": 1}})[0].pointer == "/a/b"
    with pytest.raises(UnusableSchema, match="deep"):
        ToolSchema({"$ref": "#"}).faults({})
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(UnusableSchema, match="deep"):
        ToolSchema(tree).faults(deep)


def test_a_validation_that_would_take_too_long_is_aborted() -> None:
    twice = {f"s{number}": {"anyOf": [{"$ref": f"#/$defs/s{number + 1}"}] * 2} for number in range(40)}
    endless = ToolSchema({"$ref": "#/$defs/s0", "$defs": twice | {"s40": {"type": "object"}}})
    for schema, value in (
        (endless, []),
        (endless, []),  # each validation has the whole limit, and none is left without one
        (ToolSchema({"uniqueItems": True}), [{"a": number} for number in range(1000)]),
        (ToolSchema({"items": {"enum": [[]] * 1000}}), [{"a": number} for number in range(1000)]),
    ):
        with pytest.raises(UnusableSchema, match="too long"):
            schema.faults(value)
    assert ToolSchema({"uniqueItems": True}).faults([]) == ()


def test_the_longest_result_of_a_replay_can_be_validated() -> None:
    block = {"offset": 1, "size": 1, "label": "x"}
    arena = {"base": 1, "size": 1, "used": 1, "high_water": 1, "blocks": [block] * MAX_BLOCKS}
    values = {str(number): {"value": "1", "error": None} for number in range(500)}
    card = dict.fromkeys(("id", "uuid", "version", "source_sha256", "title"), "x")
    binding = {**dict.fromkeys(("container_id", "instance", "profile", "target"), "x"), "card": card}
    answer = {
        "generation": 1, "snapshot_ref": "x", "binding": binding, "method": "fork", "fresh": False,
        "fallbacks": ["second_run"] * 1000,
        "file": "x", "line": 1, "function": "x", "inside": "x", "signal": "SIGSEGV", "values": values,
        "allocator": arena, "allocator_error": None, "causes": ["x"], "stop_id": "x", "timings_ms": {"run": 0.5},
    }  # fmt: skip
    assert ToolSchema(REPLAY_OUT).faults(answer) == ()


def test_the_patterns_of_a_peer_are_refused() -> None:
    for schema in ({"pattern": "^(a+)+$"}, {"items": {"patternProperties": {"^(a+)+$": False}}}):
        with pytest.raises(UnusableSchema, match="pattern"):
            peer_schema(schema)
        ToolSchema(schema)
    assert peer_schema({"properties": {"pattern": {"type": "string"}}}).faults({"pattern": "a"}) == ()

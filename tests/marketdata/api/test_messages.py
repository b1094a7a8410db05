"""The messages of refusals name the field, the cause and the remedy in the terms of JSON, and never the program's own
types."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from marketdata.api.app import ROUTES
from marketdata.api.routing import Route
from marketdata.http.reply import JSON
from tests.marketdata.api.conftest import Api
from tests.marketdata.api.test_fuzz import leaves, name_of, sound_request

HUGE = "9" * 5000
ODD = [
    "null", "true", "[]", "{}", '{"a":{"b":[null,true]}}', "0", "-1", "1.5", "-0.0", "1e3", "1e400",
    "-1e999999999999999999999", "1e-999999999999999999999", HUGE, f"-{HUGE}", f"{HUGE}.5",
    '""', '"x y"', '"\\u0000"', '"\\ud800"', f'"{"x" * 3000}"', '"2023-02-29T00:00:00Z"', '"2026-01-01T00:00:00+99:99"',
    "[" * 960 + "]" * 960, '{"a":' * 900 + "1" + "}" * 900,
]  # fmt: skip
DEEP = [
    "[" * 5000 + "]" * 5000, '{"a":' * 9000 + "1" + "}" * 9000,  # Python 3.13 decodes less than 10 000 levels
]  # fmt: skip
PROGRAM = re.compile(
    r"\b(None|True|False|Decimal|JsonNumber|NoneType|dict|str|int|float|bool|list|tuple|bytes|timedelta|datetime"
    r"|isoformat|mapping|class|object at|instance|Traceback|Error|Exception|sys|json\.|jsonschema)\b|\[<|\\x"
)
"""Words of Python. A message that needs one of them as an English word has to find another."""


def check_words(answer: Any) -> None:
    said = [answer.get("detail", "")]
    said += [each["message"] for each in answer.get("errors", ())]
    said += [each["detail"] for each in answer.get("rejected", ())]
    for text in said:
        assert not PROGRAM.search(text), text[:300]
        assert len(text) < 2000


def body_routes() -> list[Route]:
    return [route for route in ROUTES if route.body is not None]


def raw_with(value: Any, way: tuple[str | int, ...], odd: str) -> bytes:
    """``value`` as JSON with the text ``odd`` at ``way``."""
    mark = "the-odd-value"

    def changed(part: Any, rest: tuple[str | int, ...]) -> Any:
        if not rest:
            return mark
        if isinstance(part, list):
            return [changed(each, rest[1:]) if place == rest[0] else each for place, each in enumerate(part)]
        return {**part, rest[0]: changed(part.get(rest[0]), rest[1:])}

    return json.dumps(changed(value, way)).replace(f'"{mark}"', odd).encode()


def places(value: Any) -> list[tuple[str | int, ...]]:
    """Every leaf, every object and array above one, the document itself, and a field that nobody knows."""
    found: dict[tuple[str | int, ...], None] = {("more",): None}
    for way in leaves(value):
        for length in range(len(way) + 1):
            found[way[:length]] = None
    return list(found)


@pytest.mark.parametrize("route", body_routes(), ids=name_of)
def test_an_odd_value_in_a_body_makes_nothing_fail(api: Api, route: Route) -> None:
    path = route.path
    for name in route.parameters:
        path = path.replace(f"{{{name}}}", "999")
    for body in sound_request(route)["body"]:
        for number, way in enumerate(places(body)):
            for odd in ODD[number % 3 :: 3] + DEEP * (number < 3):
                response = api(route.method, path, raw=raw_with(body, way, odd), headers={"Content-Type": JSON})
                assert response.status_int < 500, (way, odd[:40], response.text[:500])
                if response.content_type != "text/plain":
                    check_words(response.json)


def test_messages_name_what_is_expected(api: Api) -> None:
    def said(body: str) -> list[tuple[str, str]]:
        problem = api("POST", "/v1/admin/tokens", raw=body.encode(), status=422).json
        return [(each["pointer"], each["message"]) for each in problem["errors"]]

    assert said('{"name": null, "scope": "read"}') == [("/name", "must be a string")]
    assert said('{"name": "n", "scope": "all"}') == [("/scope", "must be read or write")]
    assert said('{"name": "n", "scope": "read", "expires_at": []}') == [("/expires_at", "must be a string or a number")]
    [(pointer, message)] = said('{"name": "", "scope": "read"}')
    assert (pointer, message.partition("^")[0]) == ("/name", "must match the pattern ")

    def lease(ttl: str) -> str:
        raw = f'{{"holder": "me", "ttl_s": {ttl}}}'.encode()
        return str(api("PUT", "/v1/lease/words", raw=raw, status=422).json["errors"][0]["message"])

    assert lease("0") == lease("1e-999999999999999999999") == lease(f"-{HUGE}") == "must be at least 1"
    assert lease("3600.5") == lease(HUGE) == lease("1e999999999999999999999") == "must be at most 3600"
    assert lease("true") == "must be a number"
    state = {"symbol": "A", "from": 1, "to": 2, "state": None}
    assert "must be indexed, joined or failed" in api("PUT", "/v1/coverage", state, status=422).json["detail"]

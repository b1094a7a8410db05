"""The compiled schemas accept the same queries as jsonschema."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from marketdata.api import schemas
from marketdata.api.app import ROUTES

QUERIES = sorted({route.query for route in ROUTES})

_ODD_TEXTS = [
    "", "A:B", "a b", "A\n", "1m", "1M", "60", "asc", "csv", "object", "previous", "+05:30", " 14:00", "-12:30",
    "2024-02-30T00:00:00Z", "2024-02-29T00:00:00Z", "1e3", "x" * 65, "x" * 601, "none", "exclude", "15:00",
    "Europe/Berlin", "Etc/GMT 5", "z" * 65,
]  # fmt: skip
_ODD_NUMBERS = [0, 1, -1, 500, 10_000, 10_001, 32_503_680_000_000, -(10**17)]
_ODD = st.one_of(st.sampled_from(_ODD_TEXTS), st.sampled_from(_ODD_NUMBERS), st.text(max_size=3))
_USUAL = {
    "symbol": "A:B", "interval": "1m", "resolution": "60", "limit": 5, "sort": "desc", "fill": "none", "timeZone": "-8",
    "current": "include", "format": "csv", "startTime": 1, "endTime": "2024-01-01T00:00:00Z", "cursor": "abc",
    "from": 1, "to": 2, "countback": 3, "query": "", "type": "", "exchange": "", "currencyCode": "",
    "symbols": '["A:B"]', "fromId": 7,
}  # fmt: skip


@given(name=st.sampled_from(QUERIES), data=st.data())
def test_a_compiled_schema_accepts_the_same_queries_as_jsonschema(name: str, data: st.DataObject) -> None:
    known = [*schemas.definition(name).get("properties", {}), "more"]
    chosen: dict[str, Any] = {}
    for key in data.draw(st.sets(st.sampled_from(known))):
        odd = data.draw(st.integers(0, 3)) == 0
        chosen[key] = data.draw(_ODD) if odd or key not in _USUAL else _USUAL[key]
    assert schemas.accepts(name, chosen) == (not schemas.faults(name, chosen))


def test_no_reference_in_a_query_has_rules_beside_it() -> None:
    """fastjsonschema ignores them, as JSON Schema did before 2019-09."""
    for name in QUERIES:
        for part in schemas.definition(name).get("properties", {}).values():
            if "$ref" in part:
                assert part.keys() <= {"$ref", "description", "default"}, name

"""What schemathesis needs in addition to the description: the service's string formats, lines of JSON, and rules that
OpenAPI cannot express.

Loaded by ``market_schemathesis.toml`` into schemathesis' own process.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import schemathesis
from hypothesis import strategies as st

_INSTANTS = st.datetimes(datetime(1970, 1, 1), datetime(2999, 12, 31), timezones=st.just(UTC)).map(datetime.isoformat)
_TICKS = st.fixed_dictionaries(
    {
        "symbol": st.sampled_from(["SCHEMA:A", "SCHEMA:B"]),
        "id": st.text("abc", min_size=1, max_size=2),
        "ts": _INSTANTS,
        "price": st.sampled_from(["1.5", "2"]),
        "size": st.sampled_from(["0", "1"]),
    }
)
_LINES = st.lists(st.one_of(_TICKS.map(json.dumps), st.text(max_size=9)), max_size=5)

for name in ("instant", "tick-instant"):
    schemathesis.openapi.format(name, _INSTANTS)
schemathesis.openapi.media_type("application/x-ndjson", _LINES.map(lambda lines: "\n".join(lines).encode()))
schemathesis.openapi.media_type("text/csv", _TICKS.map(lambda tick: f"{','.join(tick)}\n{','.join(tick.values())}"))


@schemathesis.hook
def before_load_schema(context: Any, raw_schema: dict[str, Any]) -> None:
    """Narrow the description to valid requests only, so that more requests reach the handlers."""
    schemas, chart = raw_schema["components"]["schemas"], raw_schema["paths"]["/v1/chart"]["get"]
    # The pattern accepts the 31st of February, and the format does not.
    for name in ("Instant", "TickInstant"):
        del schemas[name]["pattern"]
    # One of interval and resolution, not both.
    chart["parameters"] = [
        {**each, "required": each["required"] or each["name"] == "interval"}
        for each in chart["parameters"]
        if each["name"] != "resolution"
    ]
    # UTF-8 cannot encode a lone surrogate, and schemathesis ignores patterns that mention surrogates.
    for name in ("TickId", "Hash", "LeaseHolder", "TokenName"):
        schemas[name]["pattern"] = schemas[name]["pattern"].replace("\\ud800-\\udfff", "")


@schemathesis.hook
def filter_case(context: Any, case: Any) -> bool:
    """Leave out requests with a header that the description does not name. HTTP allows any further header, but
    schemathesis expects that it is refused."""
    return "x-schemathesis-unknown-property" not in (case.headers or {})

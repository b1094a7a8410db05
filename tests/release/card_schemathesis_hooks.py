"""Hooks of schemathesis that add to the card application's description: pictures, and values with which requests reach
the handlers.

``card_schemathesis.toml`` loads this module into the process of schemathesis.
"""

from __future__ import annotations

import json
import os
from typing import Any

import schemathesis
from hypothesis import strategies as st

from tests.functional.serving import picture

_PICTURES = st.one_of(st.integers(0, 255).map(picture), st.binary(max_size=64))

for _media_type in ("image/png", "image/jpeg", "application/octet-stream"):
    schemathesis.openapi.media_type(_media_type, _PICTURES)


@schemathesis.hook
def before_load_schema(context: Any, raw_schema: dict[str, Any]) -> None:
    """Narrow the description to valid requests only, so that more requests reach the handlers."""
    schemas = raw_schema["components"]["schemas"]
    activation = schemas["ActivateRequest"]["properties"]
    activation["expected_binding"] = {"const": json.loads(os.environ["BINDING"])}
    activation["expected_identity"] = {"const": json.loads(os.environ["IDENTITY"])}
    activation["generation"]["maximum"] = 1_000_000  # a number that is far above the last generation is refused
    activation["snapshot_ref"] = {"enum": ["t1/b1/p1/quick/first", "t1/b1/p1/quick/second"]}
    schemas["EventRequest"]["properties"]["key"] = {"enum": ["t1/b1", "t1/b1/p1/quick"]}
    for name in ("StrategyRequest", "AnnotationRequest"):
        schemas[name]["properties"]["key"] = {"enum": ["t1/b1/p1/quick/first", "t1/b1/p1/quick/second"]}
    schemas["StrategyRequest"]["properties"]["commands"]["items"] = {"enum": ["print n", "info locals", "next"]}
    schemas["AnnotationRequest"]["properties"]["strategy_id"] = {"const": None}
    schemas["Target"]["properties"]["part"] = {"enum": ["t1/b1/p1/quick:step_title", "t1/b1/p1/quick/first:machine"]}
    position = schemas["PositionRequest"]["properties"]
    for name, known in (("task_id", "t1"), ("block_id", "b1"), ("phase_id", "p1"), ("step_id", "quick")):
        position[name] = {"enum": [known, None]}
    position["snapshot_ref"] = {"enum": ["first", "t1/b1/p1/quick/second", None]}


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    """JSON Schema accepts 2.0 as an integer. This application refuses it."""
    if not isinstance(body, dict):
        return body
    return {name: int(part) if isinstance(part, float) and part.is_integer() else part for name, part in body.items()}

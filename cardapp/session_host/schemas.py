"""The JSON Schemas (2020-12) of the arguments and results of the session's tools."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
INTEGER: Schema = {"type": "integer"}
INTEGER_OR_NULL: Schema = {"type": ["integer", "null"]}
BOOLEAN: Schema = {"type": "boolean"}
EXPRESSION: Schema = {"type": "string", "minLength": 1, "maxLength": 1000}


def record(properties: dict[str, Schema], *, optional: tuple[str, ...] = ()) -> Schema:
    """An object with exactly these properties; those not ``optional`` are required."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def document(properties: dict[str, Schema], *, optional: tuple[str, ...] = ()) -> Schema:
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **record(properties, optional=optional)}


NOTHING = document({})

AVAILABILITY = {"available": BOOLEAN, "reason": TEXT_OR_NULL}
BINDING_OUT = document(
    {
        "container_id": TEXT,
        "instance": TEXT,
        "profile": TEXT,
        "target": TEXT,
        "runtime": TEXT,
        "container_process": {"anyOf": [record({"pid": INTEGER, "started": INTEGER}), {"type": "null"}]},
        "card": record({"id": TEXT, "uuid": TEXT, "version": TEXT, "source_sha256": TEXT}),
        "card_source": TEXT,
        "source_directory": TEXT,
        "editor": record({"socket": TEXT, **AVAILABILITY}),
        "debugger": record(AVAILABILITY),
    }
)

HITS: Schema = {"type": "integer", "minimum": 1, "maximum": 1_000_000_000}
NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 500, "pattern": "^[^\\s][^\\n]*$"}
LINE: Schema = {"type": "integer", "minimum": 1}
TEXT_OF_LINE: Schema = {"type": "string", "minLength": 1}
STOP: Schema = {
    "oneOf": [
        record({"file": NAME, "line": LINE, "text": TEXT_OF_LINE, "hits": HITS}, optional=("hits",)),
        record({"function": NAME, "hits": HITS}, optional=("hits",)),
    ]
}
# The allocator's recipe is validated separately, by RECIPE, so that a wrong one has its own error code.
REPLAY_IN = document(
    {
        "container_id": TEXT,
        "instance": TEXT,
        "profile": TEXT,
        "target": TEXT,
        "generation": INTEGER,
        "snapshot_ref": TEXT,
        "stop": STOP,
        "expressions": {"type": "array", "items": EXPRESSION, "maxItems": 500},
        "allocator": {"type": ["object", "null"]},
        "timeout_ms": {"type": "integer", "minimum": 1, "maximum": 3_600_000},
        "fresh": BOOLEAN,
    },
    optional=("allocator", "fresh"),
)
RECIPE = document(
    {
        "base": EXPRESSION,
        "size": EXPRESSION,
        "used": EXPRESSION,
        "high_water": EXPRESSION,
        "blocks": record(
            {"count": EXPRESSION, "offset": EXPRESSION, "size": EXPRESSION, "label": EXPRESSION}, optional=("label",)
        ),
    },
    optional=("high_water", "blocks"),
)
ARENA = record(
    {
        "base": INTEGER,
        "size": INTEGER,
        "used": INTEGER,
        "high_water": INTEGER_OR_NULL,
        "blocks": {"type": "array", "items": record({"offset": INTEGER, "size": INTEGER, "label": TEXT_OR_NULL})},
    }
)
FALLBACKS = ("late_pc_sign", "no_checkpoint", "failed_restart", "second_run")
"""The slow ways that a replay may have taken: the PC sign came only by our own ``show``; a stop got no checkpoint; gdb
failed to restart one; a program that ended early was run again from its start."""
REPLAY_OUT = document(
    {
        "generation": INTEGER,
        "snapshot_ref": TEXT,
        "method": {"enum": ["rerun", "fork"]},
        "fresh": BOOLEAN,
        "fallbacks": {"type": "array", "items": {"enum": list(FALLBACKS)}, "maxItems": 1000},
        "file": TEXT_OR_NULL,
        "line": INTEGER_OR_NULL,
        "function": TEXT_OR_NULL,
        "values": {
            "type": "object",
            "additionalProperties": record({"value": TEXT_OR_NULL, "error": TEXT_OR_NULL}),
        },
        "allocator": {"anyOf": [ARENA, {"type": "null"}]},
        "allocator_error": TEXT_OR_NULL,
        "stop_id": TEXT,
        "timings_ms": {"type": "object", "additionalProperties": {"type": "number"}},
    }
)

RESET_OUT = document({"stop_id": TEXT, "debugger_restarted": BOOLEAN, "editor_restarted": BOOLEAN})

COLUMNS: Schema = {"type": "integer", "minimum": 20, "maximum": 500}
ROWS: Schema = {"type": "integer", "minimum": 6, "maximum": 200}
FIT_IN = document({"cols": COLUMNS, "rows": ROWS}, optional=("cols", "rows"))
SIZE = record({"cols": INTEGER, "rows": INTEGER})
FIT_OUT = document({"host": SIZE, "grid": SIZE})

STATE_IN = document(
    {"unless_stop_id": TEXT, "wait_ms": {"type": "integer", "minimum": 0, "maximum": 10_000}},
    optional=("unless_stop_id", "wait_ms"),
)
STATE_OUT = document(
    {
        "instance": TEXT,
        "alive": BOOLEAN,
        "state": {"enum": ["none", "running", "stopped", "exited"]},
        "stop_id": TEXT,
        "file": TEXT_OR_NULL,
        "line": INTEGER_OR_NULL,
        "function": TEXT_OR_NULL,
        "reason": TEXT_OR_NULL,
        "editor_alive": BOOLEAN,
    }
)

"""The JSON Schemas (draft 2020-12) of all requests and responses, used for validation and for the API description.

Each file has definitions under ``$defs``. Their names are unique over all files, because the API description lists them
together. A reference is ``#/$defs/Name`` or ``other.json#/$defs/Name``. No reference is fetched from a network.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import referencing
from jsonschema.protocols import Validator
from referencing.jsonschema import DRAFT202012

from cardapp.errors import FieldError, InvalidValue
from cardapp.schema import field_errors, validator

Schema = dict[str, Any]

_MAX_FAULTS_SHOWN = 100


@cache
def files() -> dict[str, Schema]:
    """All schema files by name."""
    found = sorted(Path(__file__).parent.glob("*.json"))
    return {file.name: json.loads(file.read_text("utf-8")) for file in found}


@cache
def definitions() -> dict[str, tuple[str, Schema]]:
    """All definitions by name; each value is the file's name and the schema."""
    found: dict[str, tuple[str, Schema]] = {}
    for file, document in files().items():
        for name, schema in document["$defs"].items():
            if name in found:
                raise ValueError(f"{name} is defined in {found[name][0]} and in {file}")
            found[name] = (file, schema)
    return found


def definition(name: str) -> Schema:
    """The schema ``name``, as in its file."""
    return definitions()[name][1]


@cache
def checker(name: str) -> Validator:
    """A validator of the schema ``name``."""
    file = definitions()[name][0]
    return validator({"$ref": f"{files()[file]['$id']}#/$defs/{name}"}, _registry())


def faults(name: str, value: Any) -> tuple[FieldError, ...]:
    """All violations of the schema ``name`` in ``value``."""
    return field_errors(checker(name), value)


def check(schema: str, value: Any, what: str) -> None:
    """Raise :class:`InvalidValue` with at most 100 faults if ``value`` violates ``schema``. ``what`` names the value in
    the message."""
    found = faults(schema, value)
    if found:
        place = f"{what}, {found[0].pointer}:" if found[0].pointer else what
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise InvalidValue(f"{place} {found[0].message}{more}", errors=found[:_MAX_FAULTS_SHOWN])


@cache
def _registry() -> referencing.Registry[Any]:
    resources = [(document["$id"], DRAFT202012.create_resource(document)) for document in files().values()]
    return referencing.Registry().with_resources(resources).crawl()

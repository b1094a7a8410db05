"""The JSON Schemas (draft 2020-12) of every request and response: the single source for checking and describing.

Each file holds named definitions under ``$defs``; a name is used once over all files, so the API description can list
them side by side. A reference is ``#/$defs/Name`` or ``other.json#/$defs/Name``; none is ever fetched from a network.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import referencing
from jsonschema.protocols import Validator
from referencing.jsonschema import DRAFT202012

from cardapp.errors import FieldError
from cardapp.schema import field_errors, validator

Schema = dict[str, Any]


@cache
def files() -> dict[str, Schema]:
    """Every schema file by its name."""
    found = sorted(Path(__file__).parent.glob("*.json"))
    return {file.name: json.loads(file.read_text("utf-8")) for file in found}


@cache
def definitions() -> dict[str, tuple[str, Schema]]:
    """Every definition by its name, with the file that holds it."""
    found: dict[str, tuple[str, Schema]] = {}
    for file, document in files().items():
        for name, schema in document["$defs"].items():
            if name in found:
                raise ValueError(f"{name} is defined in {found[name][0]} and in {file}")
            found[name] = (file, schema)
    return found


def definition(name: str) -> Schema:
    """The schema called ``name`` as it is written."""
    return definitions()[name][1]


@cache
def checker(name: str) -> Validator:
    """A validator of the schema called ``name``."""
    file = definitions()[name][0]
    return validator({"$ref": f"{files()[file]['$id']}#/$defs/{name}"}, _registry())


def faults(name: str, value: Any) -> tuple[FieldError, ...]:
    """Every way in which ``value`` breaks the schema called ``name``."""
    return field_errors(checker(name), value)


@cache
def _registry() -> referencing.Registry[Any]:
    resources = [(document["$id"], DRAFT202012.create_resource(document)) for document in files().values()]
    return referencing.Registry().with_resources(resources).crawl()

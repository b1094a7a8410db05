"""The API description: schemas are valid, references exist, every row is described, client generators can read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema

from cardapp.web import openapi, schemas, streams
from cardapp.web.app import ROUTES

DOCUMENT = openapi.describe(ROUTES, streams.DESCRIPTION)
METHODS = {"get", "put", "post", "delete", "patch"}


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in DOCUMENT["paths"].items():
        for method, operation in item.items():
            assert method in METHODS
            yield path, method, operation


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, part in value.items():
            if name == "$ref":
                yield part
            yield from references(part)
    elif isinstance(value, list):
        for part in value:
            yield from references(part)


def test_every_schema_and_its_file_are_valid_by_the_metaschema() -> None:
    validator = jsonschema.Draft202012Validator(jsonschema.Draft202012Validator.META_SCHEMA)
    described = [schemas.definition(name) for name in schemas.definitions()]
    served = [DOCUMENT["components"]["schemas"][name] for name in schemas.definitions()]
    for document in (*described, *served, *schemas.files().values()):
        assert [*validator.iter_errors(document)] == [], document
    for name, document in schemas.files().items():
        assert document["$schema"] == openapi.DIALECT
        assert document["$id"].endswith(f"/{name}")


def test_every_reference_leads_somewhere() -> None:
    for reference in set(references(DOCUMENT)):
        target: Any = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]
        assert isinstance(target, dict)
    for name, (_, schema) in schemas.definitions().items():
        for reference in references(schema):
            file, _, pointer = reference.partition("#/$defs/")
            holder = file or schemas.definitions()[name][0]
            assert pointer in schemas.files()[holder]["$defs"], f"{name}: {reference}"


def test_every_object_of_a_request_refuses_unknown_fields() -> None:
    for route in ROUTES:
        if route.body is not None:
            for schema in objects(schemas.definition(route.body.schema)):
                # An event's data is the client's own.
                assert schema.get("additionalProperties") is False or set(schema) == {"type"}, route.path


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for part in schema.values():
            yield from objects(part)


def test_the_document_is_served(api: Any) -> None:
    assert api.get("/api/openapi.json")["paths"] == DOCUMENT["paths"]

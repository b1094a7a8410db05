"""The examples of the schemas are valid by them, and so are those that are composed."""

from __future__ import annotations

from marketdata.api import schemas
from marketdata.api.app import ROUTES
from marketdata.api.schema_examples import example


def test_each_example_is_valid() -> None:
    components = {name: schema for name, (_, schema) in schemas.definitions().items()}
    assert len(components) > 100
    for name, schema in components.items():
        for each in [*schema.get("examples", ()), example(schema, components)]:
            assert schemas.faults(name, each) == (), (name, each)


def test_each_query_with_parameters_has_an_example_of_its_own() -> None:
    """If one of several parameters is required, examples of single parameters do not show which one."""
    for route in ROUTES:
        query = schemas.definition(route.query)
        assert ("examples" in query) == bool(query.get("properties")), route.query

"""The examples of the schemas are valid by them, and so are those that are composed."""

from __future__ import annotations

import pytest

from marketdata.api import schemas
from marketdata.api.app import ROUTES
from marketdata.api.schema_examples import example

COMPONENTS = {name: schema for name, (_, schema) in schemas.definitions().items()}


@pytest.mark.parametrize("name", sorted(COMPONENTS))
def test_an_example_is_valid(name: str) -> None:
    for each in [*COMPONENTS[name].get("examples", ()), example(COMPONENTS[name], COMPONENTS)]:
        assert schemas.faults(name, each) == (), each


def test_each_query_with_parameters_has_an_example_of_its_own() -> None:
    """If one of several parameters is required, examples of single parameters do not show which one."""
    for route in ROUTES:
        query = schemas.definition(route.query)
        assert ("examples" in query) == bool(query.get("properties")), route.query

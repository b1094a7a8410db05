"""The OpenAPI description: it lists every code that an error may have, and which path may answer with which."""

from __future__ import annotations

import re
from typing import Any

import pytest

from marketdata.api.app import ROUTES
from marketdata.http import failures
from marketdata.http.problem_page import problem_page
from marketdata.http.reply import PROBLEM
from tests.marketdata.api.conftest import Api

ON_CONNECTIONS = {"too_many_subscriptions", "not_subscribed", "missed"}
"""Codes of messages on a WebSocket."""
BEFORE_A_PATH = {"bad_request", "headers_too_large", "unknown_coding", "method_not_allowed"}


@pytest.fixture
def document(api: Api) -> dict[str, Any]:
    found: dict[str, Any] = api.get("/openapi.json")
    return found


def test_every_code_is_listed(document: dict[str, Any]) -> None:
    listed = document["components"]["schemas"]["Problem"]["properties"]["code"]["enum"]
    assert listed == sorted(re.findall(r'id="([^"]+)"', problem_page().decode()))
    types = document["x-problem-types"]
    assert listed == sorted([*types, *(code for each in types.values() for code in each["codes"])])


def test_each_error_of_a_path_names_its_codes(document: dict[str, Any]) -> None:
    found = set()
    for path in document["paths"].values():
        for operation in path.values():
            for status, response in operation["responses"].items():
                is_problem = PROBLEM in response.get("content", {})
                assert ("x-problem-codes" in response) == is_problem
                assert is_problem == (int(status) >= 400 and "Binance's clients" not in operation["tags"])
                codes = response.get("x-problem-codes", [])
                assert all(f"`{code}`" in response["description"] for code in codes)
                found |= set(codes)
    assert found | ON_CONNECTIONS | BEFORE_A_PATH == set(failures.statuses_of_codes())
    assert all(f"`{code}`" in document["info"]["description"] for code in BEFORE_A_PATH)


def test_a_codes_status_is_that_of_its_class_unless_the_route_says_otherwise() -> None:
    for route in ROUTES:
        statuses = {**failures.statuses_of_codes(), **route.errors.statuses}
        statuses |= {"disk_full": 503} if route.method == "GET" else {}
        for status, codes in route.codes().items():
            assert route.database_status == status or {statuses[code] for code in codes} == {status}


def test_only_known_codes_of_internal_errors_reach_clients() -> None:
    assert failures.internal_error("database_defect").code == "database_defect"
    assert failures.internal_error("state").code == failures.internal_error().code == "internal_error"

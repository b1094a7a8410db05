"""The page of problems has every code that a client can get."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from marketdata import errors
from marketdata.frontend import problems
from marketdata.http import failures
from marketdata.http.problem_page import problem_page
from marketdata.settings import ROOT
from marketdata.store.ticks import REFUSALS

API = set(re.findall(r'id="([^"]+)"', problem_page().decode()))
FRONTEND = set(re.findall(r'id="([^"]+)"', problems.explained().decode()))
PARTS = ("api", "store", "http", "frontend")


def given() -> Iterator[tuple[str, str]]:
    """Each code in the source that is given as an argument ``code``, with the name of the called class."""
    for file in (path for part in PARTS for path in (ROOT / "marketdata" / part).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                for keyword in node.keywords:
                    if keyword.arg == "code" and isinstance(keyword.value, ast.Constant):
                        yield name, str(keyword.value.value)


def is_internal(name: str) -> bool:
    kind = getattr(errors, name, None) or getattr(failures, name, None) or getattr(problems, name, None)
    return isinstance(kind, type) and failures.status_of(kind, problems.STATUS) == 500


def test_every_code_in_the_source_has_an_entry() -> None:
    found = {code for name, code in given() if not is_internal(name)}
    assert {"unknown_symbol", "lease_held", "upstream_refused"} <= found
    assert found <= FRONTEND
    assert {code for code, _ in REFUSALS.values()} <= API


def test_every_class_that_a_client_can_get_has_an_entry() -> None:
    kinds = {kind for kind in problems.STATUS if kind is not errors.MarketError}
    assert {kind.code for kind in kinds} <= FRONTEND
    assert {kind.code for kind in failures.STATUS if kind is not errors.MarketError} <= API
    assert "login_required" not in API


def test_a_code_has_one_entry_and_its_own_way_out() -> None:
    text = problems.explained().decode()
    codes = re.findall(r'id="([^"]+)"', text)
    assert len(codes) == len(set(codes))
    for kind in failures.kinds_shown(problems.STATUS):
        assert kind.remedy != errors.MarketError.remedy, kind
    assert "$" not in text
    assert "``" not in text

"""The API description has every code of an error that the service gives. The codes are read from the source."""

from __future__ import annotations

import re
from pathlib import Path

import cardapp
from cardapp.errors import CardAppError
from cardapp.session_client.session_tools import FAILURES, failure
from cardapp.web import openapi, streams
from cardapp.web.app import ROUTES
from cardapp.web.failures import problem_types
from cardapp.web.problem_codes import DESCRIBED

ROOT = Path(cardapp.__file__).parent
SOURCES = [*(ROOT / "session_client").glob("*.py"), *(ROOT / "state").glob("*.py"), *(ROOT / "web").rglob("*.py")]
AT_THE_START = {"migrations.py", "listener.py"}
"""They raise their errors before the service listens."""


def test_the_description_has_every_code_that_the_service_gives_and_no_other() -> None:
    described = openapi.describe(ROUTES, streams.DESCRIPTION)["x-problem-codes"]
    text = "".join(path.read_text("utf-8") for path in SOURCES if path.name not in AT_THE_START)
    given = set(re.findall(r'\bcode="([a-z_]+)"', text))
    assert {"source_changed", "mcp_socket_changed"} <= given
    assert given | set(FAILURES) | set(problem_types()) <= set(described)
    assert list(described) == sorted(described)
    assert all(described.values())
    everything = "".join(path.read_text("utf-8") for path in ROOT.rglob("*.py") if path.name != "problem_codes.py")
    assert [code for code in DESCRIBED if f'"{code}"' not in everything] == []


def test_an_unknown_code_of_a_session_becomes_the_general_one() -> None:
    for code in ("a_new_code", "", "Über", 7):
        found = failure({"code": code, "reason": "why"}, "")
        assert isinstance(found, CardAppError)
        assert (found.code, found.detail) == ("debugger_failed", "why"), code

"""The API description has every code of an error, and no other. The codes are read from the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import cardapp
from cardapp.errors import CardAppError
from cardapp.session_client.session_tools import FAILURES, failure
from cardapp.web import openapi, streams
from cardapp.web.app import ROUTES
from cardapp.web.failures import problem_types
from cardapp.web.problem_codes import DESCRIBED

ROOT = Path(cardapp.__file__).parent
CODE = re.compile("[a-z][a-z0-9_]*")
NOT_IN_AN_ANSWER = (
    # These run in processes other than the service.
    "authoring/", "session_host/", "cli.py", "open_cli.py", "console.py",
    # These raise their errors before the service listens.
    "private_directories.py", "unix_socket.py", "settings.py", "serve.py", "web/listener.py", "state/migrations.py",
    # Errors of these have no code.
    "card/", "layout/",
)  # fmt: skip
FAILURE_OF_TOOL = {"ToolFailure", "Failure"}


@cache
def parsed() -> dict[str, list[ast.AST]]:
    """The calls, assignments and classes of each module, by its path."""
    kinds = (ast.Call, ast.Assign, ast.AnnAssign, ast.ClassDef)
    trees = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8")) for path in ROOT.rglob("*.py")}
    return {name: [node for node in ast.walk(tree) if isinstance(node, kinds)] for name, tree in trees.items()}


def nodes(*kinds: type[ast.AST], without: tuple[str, ...] = ()) -> Iterator[ast.AST]:
    """The nodes of these kinds in the package, without those in the files and folders ``without``."""
    for name, found in parsed().items():
        if not name.startswith(without):
            yield from (node for node in found if isinstance(node, kinds))


def texts(node: ast.AST | None) -> set[str]:
    """The texts in an expression that have the form of a code."""
    found = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)} if node is not None else set()
    return {text for text in found if isinstance(text, str) and CODE.fullmatch(text)}


def codes_of_arguments() -> set[str]:
    """The codes that the service gives to an error, or has in a table of codes (``_CODES``)."""
    found = set()
    for node in nodes(ast.Call, ast.Assign, ast.AnnAssign, without=NOT_IN_AN_ANSWER):
        if isinstance(node, ast.Call):
            found |= {text for keyword in node.keywords if keyword.arg == "code" for text in texts(keyword.value)}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= texts(node.value) if getattr(targets[0], "id", "") == "_CODES" else set()
    return found


def codes_of_tools() -> set[str]:
    """The codes with which a tool of the session may fail, except the codes of the error classes."""
    calls = (node for node in nodes(ast.Call) if getattr(node.func, "id", "") in FAILURE_OF_TOOL)  # type: ignore[attr-defined]
    return {text for call in calls if call.args for text in texts(call.args[0])}  # type: ignore[attr-defined]


def codes_of_classes() -> set[str]:
    found = set()
    for node in nodes(ast.ClassDef):
        assert isinstance(node, ast.ClassDef)
        lines = [line for line in node.body if isinstance(line, ast.Assign)]
        found |= {text for line in lines if getattr(line.targets[0], "id", "") == "code" for text in texts(line.value)}
    return found


def test_the_description_has_every_code_that_the_service_gives() -> None:
    described = openapi.describe(ROUTES, streams.DESCRIPTION)["x-problem-codes"]
    assert {"source_changed", "mcp_socket_changed", "state_locked", "state_disk_full"} <= codes_of_arguments()
    assert codes_of_arguments() | set(FAILURES) | set(problem_types()) == set(described)
    assert all(described.values())
    assert list(described) == sorted(described)


def test_every_code_of_the_session_is_known() -> None:
    assert {"target_exited", "bad_condition", "not_copied"} <= codes_of_tools()
    of_classes = {code for code in FAILURES if code in codes_of_classes()}
    assert codes_of_tools() | of_classes == set(FAILURES)


def test_no_code_is_described_that_nothing_gives() -> None:
    assert set(DESCRIBED) <= codes_of_arguments() | set(FAILURES)


def test_an_unknown_code_of_a_session_becomes_the_general_one() -> None:
    for code in ("a_new_code", "", "Über", 7):
        found = failure({"code": code, "reason": "why"}, "")
        assert isinstance(found, CardAppError)
        assert (found.code, found.detail) == ("debugger_failed", "why"), code

"""The walls of the house, read from the source: which part may import which, and a few habits that are kept.

The rules are the tables below. They are checked on the syntax tree, nothing is imported. Each is shown to fail on a
made-up source, so a rule that stopped to bite would be seen.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "cardapp"

# Each part may import itself and the parts before it.
ORDER = (
    "errors", "private", "schema", "settings", "card", "shelf", "mcp", "neovim", "state", "session", "rehearsal",
    "reports", "web", "serve", "cli", "__main__",
)  # fmt: skip

# What runs inside the session is apart: it has its own short list, and nothing imports it.
APART = {"container": ("errors", "private", "schema", "card", "mcp", "neovim")}

# Only the command line may start the composition root.
IMPORTED_ONLY_BY = {"serve": ("cli",), "cli": ("__main__",), "__main__": ()}

# One place for each dependency: the module prefixes (below the package) that may import it.
DEPENDENCY_HOMES = {
    "bottle": ("web",),
    "pynvim": ("neovim",),
    "simple_websocket": ("web.listener",),
    "sqlite3": ("state",),
    "waitress": ("web.listener",),
    "gdb": ("container.ingdb",),
}

# gdb's own Python has none of our packages: this part lives on the standard library and on itself.
IN_GDB = "container.ingdb"

# Pure modules know no socket, thread, clock, process, database or HTTP.
PURE = ("errors", "schema", "card", "mcp.jsonrpc", "mcp.revisions")
IMPURE_MODULES = {
    "asyncio", "concurrent", "http", "multiprocessing", "queue", "select", "selectors", "signal", "socket",
    "socketserver", "sqlite3", "subprocess", "threading", "time", "urllib",
}  # fmt: skip

VAGUE_NAMES = {"common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}
MODULE_LINES = 320
FUNCTION_LINES = 40


def part_of(name: str) -> str:
    """The part of the house a module below the package belongs to: ``state.database`` -> ``state``."""
    return name.split(".", 1)[0]


def within(name: str, homes: tuple[str, ...]) -> bool:
    return any(name == home or name.startswith(f"{home}.") for home in homes)


def imports(tree: ast.Module, package: str) -> Iterator[tuple[int, str]]:
    """Each import as (line, absolute dotted name); ``package`` resolves the relative ones."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            # `from cardapp import state` names a part as `import cardapp.state` does.
            names = [f"{base}.{alias.name}" for alias in node.names] if base == PACKAGE else [base]
            yield from ((node.lineno, name) for name in names)


def own_import_fault(name: str, target: str) -> str | None:
    """Why the module ``name`` may not import ``target``, both below the package; None when it may."""
    here, there = part_of(name), part_of(target)
    if within(name, (IN_GDB,)) and not within(target, (IN_GDB,)):
        return f"gdb's Python loads {IN_GDB} only"
    if here == there or there in ("", "__version__"):
        return None
    if there in APART:
        return f"nothing may import {there}"
    if there in IMPORTED_ONLY_BY and here not in IMPORTED_ONLY_BY[there]:
        return f"only {IMPORTED_ONLY_BY[there] or 'the interpreter'} may import {there}"
    allowed = APART[here] if here in APART else ORDER[: ORDER.index(here)]
    return None if there in allowed else f"{here} may not import {there}"


def import_faults(name: str, tree: ast.Module, package: str) -> Iterator[str]:
    for line, target in imports(tree, package):
        top = target.split(".", 1)[0]
        if top == PACKAGE:
            fault = own_import_fault(name, target.removeprefix(PACKAGE).lstrip("."))
            if fault:
                yield f"line {line}: {fault}"
        elif within(name, (IN_GDB,)) and top != "gdb" and top not in sys.stdlib_module_names:
            yield f"line {line}: gdb's Python has no {top}"
        elif top in DEPENDENCY_HOMES and not within(name, DEPENDENCY_HOMES[top]):
            yield f"line {line}: {top} is imported only in {', '.join(DEPENDENCY_HOMES[top])}"
        elif top in IMPURE_MODULES and within(name, PURE):
            yield f"line {line}: a pure module may not import {top}"


def habit_faults(tree: ast.Module) -> Iterator[str]:
    """Sleeping, overlong functions, and work done by the mere import of a module."""
    for node in ast.walk(tree):
        sleeps = (isinstance(node, ast.Attribute) and node.attr == "sleep") or (
            isinstance(node, ast.ImportFrom) and node.module == "time" and any(a.name == "sleep" for a in node.names)
        )
        if sleeps:
            yield f"line {node.lineno}: wait on an event, do not sleep"
        if isinstance(node, ast.FunctionDef) and (length := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES:
            yield f"line {node.lineno}: {length} lines; past {FUNCTION_LINES} a function wants to be two"
    for statement in tree.body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            yield f"line {statement.lineno}: nothing starts at import"


def faults(name: str, source: str, *, is_package: bool = False) -> list[str]:
    """Every broken rule of one module; ``name`` is its dotted name below the package ("" for the package)."""
    tree = ast.parse(source)
    full = f"{PACKAGE}.{name}" if name else PACKAGE
    found = list(import_faults(name, tree, full if is_package else full.rpartition(".")[0]))
    if name.rpartition(".")[2] != "__main__":
        found += habit_faults(tree)
    if VAGUE_NAMES & set(name.split(".")):
        found.append("the name says nothing: name what the module is about")
    lines = source.count("\n")
    if lines > MODULE_LINES:
        found.append(f"{lines} lines; past {MODULE_LINES} a module wants a wall")
    return found


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT / PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = sorted((ROOT / PACKAGE).rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_keeps_the_rules(path: Path) -> None:
    assert faults(dotted(path), path.read_text(encoding="utf-8"), is_package=path.name == "__init__.py") == []


def test_every_part_has_its_place() -> None:
    parts = {part_of(dotted(path)) for path in MODULES} - {""}
    assert parts <= {*ORDER, *APART}, "place the new part in ORDER (or APART)"


@pytest.mark.parametrize(
    ("name", "source", "fault"),
    [
        ("state.database", "from cardapp.web import app", "state may not import web"),
        ("card.model", "import cardapp.state.events", "card may not import state"),
        ("card.model", "from ..session import choice", "card may not import session"),
        ("card.model", "from .. import web", "card may not import web"),
        ("web.app", "def late():\n    from cardapp import serve", "only ('cli',) may import serve"),
        ("web.app", "from cardapp.container import control", "nothing may import container"),
        ("container.host", "import cardapp.state", "container may not import state"),
        ("container.ingdb.channel", "from cardapp.errors import CardAppError", "loads container.ingdb only"),
        ("container.ingdb.channel", "import pynvim", "gdb's Python has no pynvim"),
        ("container.host", "import gdb", "gdb is imported only in container.ingdb"),
        ("session.editor", "import pynvim", "pynvim is imported only in neovim"),
        ("neovim", "from cardapp.session import choice", "neovim may not import session"),
        ("private", "from cardapp.settings import load", "private may not import settings"),
        ("web.app", "import sqlite3", "sqlite3 is imported only in state"),
        ("session.editor", "import bottle", "bottle is imported only in web"),
        ("web.app", "from waitress.server import create_server", "waitress is imported only in web.listener"),
        ("web.listeners", "import waitress", "waitress is imported only in web.listener"),
        ("card.navigation", "import threading", "a pure module may not import threading"),
        ("mcp.jsonrpc", "from socket import socket", "a pure module may not import socket"),
        ("state.events", "import time\ndef f():\n    time.sleep(1)", "do not sleep"),
        ("state.events", "from time import sleep", "do not sleep"),
        ("state.events", "import threading\nthreading.Thread().start()", "nothing starts at import"),
        ("state.utils", "", "the name says nothing"),
        ("state.events", "\n" * (MODULE_LINES + 1), "a module wants a wall"),
        ("state.events", "def f():" + "\n    g()" * FUNCTION_LINES, "a function wants to be two"),
    ],
)
def test_a_broken_rule_is_found(name: str, source: str, fault: str) -> None:
    found = faults(name, source)
    assert len(found) == 1
    assert fault in found[0]


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("web.listener", "import waitress\nfrom cardapp.errors import CardAppError"),
        ("state", "from . import database\nfrom ..card import model"),
        ("container.host", "import threading\nfrom cardapp import neovim\nfrom cardapp.mcp import server"),
        ("container.ingdb.channel", "import gdb, json\nfrom cardapp.container.ingdb import values"),
        ("cli", "from cardapp import serve"),
    ],
)
def test_what_the_rules_allow(name: str, source: str) -> None:
    assert faults(name, source, is_package="." not in name) == []

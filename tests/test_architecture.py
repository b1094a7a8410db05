"""The import rules of the two products (which part may import which), and a few rules for every module.

The rules are the tables below. Imports within a package must not form a cycle either. The rules are checked on the
syntax tree; nothing is imported. For each rule a test shows that an invented source which breaks it is reported.
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Product:
    """The rules of one product. Parts are the names below its package, module prefixes begin with one."""

    package: str
    order: tuple[str, ...]
    """Each part may import itself and the parts before it."""
    separate: dict[str, tuple[str, ...]]
    """Parts outside the order: each may import the listed parts, and nothing may import it."""
    imported_only_by: dict[str, tuple[str, ...]]
    """Parts that only the listed parts may import."""
    dependency_importers: dict[str, tuple[str, ...]]
    """The module prefixes that may import each dependency. One that is not listed may not be imported."""
    pure: tuple[str, ...]
    """Module prefixes that use no socket, thread, clock, process, database or HTTP."""


CARD = Product(
    package="cardapp",
    order=(
        "errors", "console", "private_directories", "unix_socket", "procfs", "session_choice", "schema",
        "settings", "card", "source_tree", "layout", "card_loader", "mcp", "neovim", "state", "session_client",
        "publish", "authoring", "reports", "web", "serve", "open_cli", "cli", "__main__",
    ),
    # The programs that run inside the session.
    separate={
        "session_host": (
            "errors", "console", "private_directories", "unix_socket", "procfs", "session_choice",
            "schema", "settings", "card", "source_tree", "mcp", "neovim",
        ),
    },
    # Only the command line may start the composition root.
    imported_only_by={"serve": ("cli",), "open_cli": ("cli",), "cli": ("__main__",), "__main__": ()},
    dependency_importers={
        "bottle": ("web",),
        "fastjsonschema": ("card.source",),
        "markdown_it": ("layout.text",),
        "pygments": ("layout.highlight",),
        "pynvim": ("neovim",),
        "simple_websocket": ("web.websocket",),
        "sqlite3": ("state",),
        "waitress": ("web.waitress_adapter",),
        "gdb": ("session_host.gdb_plugin",),
        "jsonschema": ("schema", "card.source", "publish.layouts", "mcp.tool_schema", "web.schemas"),
        "referencing": ("mcp.tool_schema", "web.schemas"),
    },
    pure=("errors", "schema", "card", "layout", "mcp.jsonrpc", "mcp.revisions"),
)  # fmt: skip

MARKET = Product(
    package="marketdata",
    order=(
        "errors", "limits", "status_line", "file_system", "settings", "tick", "tick_csv", "tick_columns", "interval",
        "token", "secretfile", "source", "ingest", "postgres", "store", "graphql", "operations", "http", "api",
        "frontend", "commands", "backup", "demo", "cli", "__main__",
    ),
    separate={},
    # The service works on any PostgreSQL. Only the command line uses the private one, which it starts.
    imported_only_by={
        "postgres": ("commands", "backup", "cli"),
        "operations": ("commands", "backup", "cli"),
        # The engine's client: a task has it track a version, the API reports what it tracks.
        "graphql": ("operations", "api", "commands"),
        # What the data API and the frontend share.
        "http": ("api", "frontend"),
        "api": ("cli",),
        "frontend": ("cli",),
        # The ingestor reaches the store through the API alone; a version is dropped with its outboxes, and backed up.
        "source": ("ingest", "demo"),
        "ingest": ("operations", "backup", "demo", "cli"),
        "demo": ("cli",),
        "commands": ("backup", "cli"),
        "backup": ("cli",),
        "cli": ("__main__",),
        "__main__": (),
    },
    dependency_importers={
        "bcrypt": ("frontend.users", "frontend.login"),
        "bottle": ("api.routing",),
        "fastjsonschema": ("api.schemas",),
        "jsonschema": ("api.schemas", "source.rpc_file"),
        "psycopg": ("store", "operations", "backup"),
        "psycopg_pool": ("store.pool",),
        # Only the commands that write or read Parquet files need it.
        "pyarrow": ("operations.parquet",),
        "referencing": ("api.schemas",),
        "sqlite3": ("ingest.outbox",),
        "waitress": ("http.waitress_adapter",),
        # simple_websocket needs a thread for each connection; here one selector serves all of them.
        "wsproto": ("api.live.websocket", "source.heads"),
    },
    pure=(
        "errors", "limits", "tick", "tick_csv", "tick_columns", "interval", "token", "api.schemas",
        "http.revalidation", "http.reply", "http.chunked_coding",
        "api.live.websocket",
        "source.evm", "source.pools", "source.log_filter", "source.proof", "source.swaps", "source.adaptive_range",
        "source.provider_errors", "ingest.span_size",
        "demo.chain", "demo.prices",
        "api.live.feed", "frontend.request_origin", "frontend.upstream_response", "frontend.request_target",
        "frontend.websocket_frames",
    ),
)  # fmt: skip

PRODUCTS = {product.package: product for product in (CARD, MARKET)}

# gdb's own Python has none of our packages: this part may import the standard library, itself and one module only.
IN_GDB = ("session_host.gdb_plugin", "card.expression")

IMPURE_MODULES = {
    "asyncio", "concurrent", "http", "multiprocessing", "queue", "select", "selectors", "signal", "socket",
    "psycopg", "socketserver", "sqlite3", "subprocess", "threading", "time", "urllib",
}  # fmt: skip

VAGUE_NAMES = {"common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}
# Above these a module or function may want to be divided: a warning. Above the second number the test fails.
MODULE_LINES, MAX_MODULE_LINES = 400, 800
FUNCTION_LINES, MAX_FUNCTION_LINES = 50, 120


def part_of(name: str) -> str:
    """The part that a module of the package belongs to: ``state.database`` -> ``state``."""
    return name.split(".", 1)[0]


def within(name: str, importers: tuple[str, ...]) -> bool:
    return any(name == importer or name.startswith(f"{importer}.") for importer in importers)


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
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def own_import_fault(product: Product, name: str, target: str) -> str | None:
    """Why the module ``name`` may not import ``target``, both below the package; None when it may."""
    here, there = part_of(name), part_of(target)
    if in_gdb(product, name) and not in_gdb(product, target):
        return f"gdb's Python loads {', '.join(IN_GDB)} only"
    if here == there or there in ("", "__version__"):
        return None
    if there in product.separate:
        return f"nothing may import {there}"
    importers = product.imported_only_by.get(there)
    if importers is not None and here not in importers:
        return f"only {importers or 'the interpreter'} may import {there}"
    allowed = product.separate[here] if here in product.separate else product.order[: product.order.index(here)]
    return None if there in allowed else f"{here} may not import {there}"


def in_gdb(product: Product, name: str) -> bool:
    return product is CARD and within(name, IN_GDB)


def import_faults(product: Product, name: str, tree: ast.Module, package: str) -> Iterator[str]:
    for line, target in imports(tree, package):
        top = target.split(".", 1)[0]
        importers = product.dependency_importers.get(top, None if top in sys.stdlib_module_names else ())
        if top == product.package:
            fault = own_import_fault(product, name, target.removeprefix(top).lstrip("."))
            if fault:
                yield f"line {line}: {fault}"
        elif top in PRODUCTS:
            yield f"line {line}: {product.package} may not import {top}"
        elif in_gdb(product, name) and top != "gdb" and top not in sys.stdlib_module_names:
            yield f"line {line}: gdb's Python has no {top}"
        elif importers is not None and not within(name, importers):
            yield f"line {line}: {top} is imported only in {', '.join(importers) or 'no module'}"
        elif top in IMPURE_MODULES and not within(target, ("urllib.parse",)) and within(name, product.pure):
            yield f"line {line}: a pure module may not import {top}"


def cycles(sources: Mapping[str, str]) -> Iterator[list[str]]:
    """The cycles among the modules and packages of one package, also through others; at most one for each package.

    ``sources`` maps absolute dotted module names to source text. An import for types alone counts as any other.
    """
    packages: dict[str, dict[str, set[str]]] = {}
    for name, source in sources.items():
        tree = ast.parse(source)
        for _line, target in imports(tree, name if is_package(name, sources) else name.rpartition(".")[0]):
            here, there = name.split("."), target.split(".")
            depth = next((at for at, pair in enumerate(zip(here, there, strict=False)) if len({*pair}) > 1), None)
            if depth is not None:
                needs = packages.setdefault(".".join(here[:depth]), {})
                needs.setdefault(here[depth], set()).add(there[depth])
    for package, needs in packages.items():
        try:
            TopologicalSorter(needs).prepare()
        except CycleError as error:
            yield [f"{package}.{name}" for name in error.args[1]]


def is_package(name: str, sources: Mapping[str, str]) -> bool:
    return any(other.startswith(f"{name}.") for other in sources)


def module_faults(tree: ast.Module) -> Iterator[str]:
    """Sleeping, overlong functions, and work done by the mere import of a module."""
    for node in ast.walk(tree):
        sleeps = (isinstance(node, ast.Attribute) and node.attr == "sleep") or (
            isinstance(node, ast.ImportFrom) and node.module == "time" and any(a.name == "sleep" for a in node.names)
        )
        if sleeps:
            yield f"line {node.lineno}: wait on an event, do not sleep"
        if isinstance(node, ast.FunctionDef) and (length := length_of(node)) > MAX_FUNCTION_LINES:
            yield f"line {node.lineno}: {length} lines; split the function, the maximum is {MAX_FUNCTION_LINES}"
    for statement in tree.body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            yield f"line {statement.lineno}: nothing starts at import"


def length_of(function: ast.FunctionDef) -> int:
    return (function.end_lineno or 0) - function.lineno + 1


def oversizes(source: str) -> Iterator[str]:
    """What of a module is longer than most readers keep in mind."""
    if (lines := source.count("\n")) > MODULE_LINES:
        yield f"size: {lines} lines; above {MODULE_LINES}, look whether the module has two subjects"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and (length := length_of(node)) > FUNCTION_LINES:
            yield f"size: {node.name} has {length} lines; above {FUNCTION_LINES}, look whether it does two things"


def faults(product: Product, name: str, source: str, *, is_package: bool = False) -> list[str]:
    """Every broken rule of one module; ``name`` is its dotted name below the package ("" for the package)."""
    tree = ast.parse(source)
    full = f"{product.package}.{name}" if name else product.package
    found = list(import_faults(product, name, tree, full if is_package else full.rpartition(".")[0]))
    if name.rpartition(".")[2] != "__main__":
        found += module_faults(tree)
    if VAGUE_NAMES & set(name.split(".")):
        found.append("the name is too vague: name what the module is about")
    lines = source.count("\n")
    if lines > MAX_MODULE_LINES:
        found.append(f"{lines} lines; split the module, the maximum is {MAX_MODULE_LINES}")
    return found


def dotted(product: Product, path: Path) -> str:
    parts = path.relative_to(ROOT / product.package).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = [(product, path) for product in PRODUCTS.values() for path in sorted((ROOT / product.package).rglob("*.py"))]


def test_every_module_keeps_the_rules() -> None:
    found = []
    for product, path in MODULES:
        source, name = path.read_text(encoding="utf-8"), dotted(product, path)
        is_package = path.name == "__init__.py"
        found += [f"{path}: {fault}" for fault in faults(product, name, source, is_package=is_package)]
        for oversize in oversizes(source):
            warnings.warn(f"{oversize} ({path.relative_to(ROOT)})", stacklevel=1)  # all other warnings are errors
    assert found == []


def test_every_part_has_its_place() -> None:
    for product in PRODUCTS.values():
        parts = {part_of(dotted(each, path)) for each, path in MODULES if each is product} - {""}
        assert parts == {*product.order, *product.separate}, "add the new part to the product's order or separate parts"
        assert set(product.imported_only_by) <= parts


def test_within_a_package_imports_go_one_way() -> None:
    sources = {
        f"{product.package}.{dotted(product, path)}".rstrip("."): path.read_text(encoding="utf-8")
        for product, path in MODULES
    }
    assert list(cycles(sources)) == []


def test_a_cycle_is_found() -> None:
    sources = {
        "cardapp.layout.drawing": "",
        "cardapp.layout.drawing.tikz": "from ..latex.escape import line",
        "cardapp.layout.latex.escape": "",
        "cardapp.layout.latex.parts": "from cardapp.layout import paper",
        "cardapp.layout.paper": "def late():\n    import cardapp.layout.drawing.tikz",
    }
    (cycle,) = cycles(sources)
    assert set(cycle) == {f"cardapp.layout.{name}" for name in ("drawing", "latex", "paper")}
    sources["cardapp.layout.paper"] = "if TYPE_CHECKING:\n    import cardapp.layout.drawing.tikz"
    assert len(list(cycles(sources))) == 1
    sources["cardapp.layout.paper"] = ""
    assert list(cycles(sources)) == []


BROKEN = (
    ("cardapp.state.database", "from cardapp.web import app", "state may not import web"),
    ("cardapp.card.model", "import cardapp.state.events", "card may not import state"),
    ("cardapp.card.model", "from ..session_client import link", "card may not import session_client"),
    ("cardapp.card.model", "from .. import web", "card may not import web"),
    ("cardapp.web.app", "def late():\n    from cardapp import serve", "only ('cli',) may import serve"),
    ("cardapp.web.app", "from cardapp.session_host import control", "nothing may import session_host"),
    ("cardapp.session_host.mcp_server", "import cardapp.state", "session_host may not import state"),
    ("cardapp.session_host.gdb_plugin.channel", "from cardapp.errors import CardAppError", "gdb's Python loads"),
    ("cardapp.session_host.gdb_plugin.channel", "import pynvim", "gdb's Python has no pynvim"),
    ("cardapp.session_host.mcp_server", "import gdb", "gdb is imported only in session_host.gdb_plugin"),
    ("cardapp.session_client.editor", "import pynvim", "pynvim is imported only in neovim"),
    ("cardapp.neovim", "from cardapp.session_client import link", "neovim may not import session_client"),
    ("cardapp.private_directories", "import cardapp.settings", "private_directories may not import settings"),
    ("cardapp.web.app", "import sqlite3", "sqlite3 is imported only in state"),
    ("cardapp.session_client.editor", "import bottle", "bottle is imported only in web"),
    ("cardapp.web.app", "from waitress import serve", "waitress is imported only in web.waitress_adapter"),
    ("cardapp.web.listener", "import waitress", "waitress is imported only in web.waitress_adapter"),
    ("cardapp.card.navigation", "import threading", "a pure module may not import threading"),
    ("cardapp.mcp.jsonrpc", "from socket import socket", "a pure module may not import socket"),
    ("cardapp.state.events", "import time\ndef f():\n    time.sleep(1)", "do not sleep"),
    ("cardapp.state.events", "from time import sleep", "do not sleep"),
    ("cardapp.state.events", "import threading\nthreading.Thread().start()", "nothing starts at import"),
    ("cardapp.state.utils", "", "the name is too vague"),
    ("cardapp.state.events", "\n" * (MAX_MODULE_LINES + 1), "split the module"),
    ("cardapp.state.events", "def f():" + "\n    g()" * MAX_FUNCTION_LINES, "split the function"),
    ("cardapp.state.events", "import psycopg", "psycopg is imported only in no module"),
    ("cardapp.web.app", "from marketdata.errors import MarketError", "cardapp may not import marketdata"),
    ("marketdata.api.app", "from cardapp import errors", "marketdata may not import cardapp"),
    ("marketdata.cli", "import cardapp.serve", "marketdata may not import cardapp"),
    ("marketdata.api.chart", "import psycopg", "psycopg is imported only in store, operations"),
    ("marketdata.http.listener", "import waitress", "waitress is imported only in http.waitress_adapter"),
    ("marketdata.operations.setup", "import psycopg_pool", "psycopg_pool is imported only in store.pool"),
    ("marketdata.api.serve", "import waitress", "waitress is imported only in http.waitress_adapter"),
    ("marketdata.store.ticks", "import sqlite3", "sqlite3 is imported only in ingest.outbox"),
    ("marketdata.ingest.ingestor", "from marketdata.store import ticks", "ingest may not import store"),
    ("marketdata.source.evm", "import threading", "a pure module may not import threading"),
    ("marketdata.api.app", "import bottle", "bottle is imported only in api.routing"),
    ("marketdata.frontend.app", "from marketdata.api import app", "only ('cli',) may import api"),
    ("marketdata.store.ticks", "from marketdata.api import app", "only ('cli',) may import api"),
    (
        "marketdata.store.pool",
        "from marketdata import operations",
        "only ('commands', 'backup', 'cli') may import operations",
    ),
    ("marketdata.tick", "from marketdata.store import ticks", "tick may not import store"),
    ("marketdata.errors", "from .settings import load", "errors may not import settings"),
    (
        "marketdata.api.serve",
        "from marketdata.postgres.client import database",
        "only ('commands', 'backup', 'cli') may import postgres",
    ),
    ("marketdata.operations.setup", "from ..postgres.cluster import conninfo", "may import postgres"),
    ("marketdata.tick", "import time", "a pure module may not import time"),
    ("marketdata.api.live.feed", "import selectors", "a pure module may not import selectors"),
    ("marketdata.frontend.request_target", "import urllib.request", "a pure module may not import urllib"),
    ("marketdata.api.helpers", "", "the name is too vague"),
    ("marketdata.store.ticks", "def f():" + "\n    g()" * MAX_FUNCTION_LINES, "split the function"),
)  # fmt: skip
"""Invented modules, each with the one fault that is to be found in it."""


def test_a_broken_rule_is_found() -> None:
    for name, source, fault in BROKEN:
        package, _, below = name.partition(".")
        found = faults(PRODUCTS[package], below, source)
        assert (len(found), fault in found[0]) == (1, True), (name, found)


def test_a_long_module_and_a_long_function_are_warned_about() -> None:
    source = "def f():" + "\n    g()" * MODULE_LINES
    assert [each.split(";")[0] for each in oversizes(source + "\n\n")] == [
        f"size: {MODULE_LINES + 2} lines", f"size: f has {MODULE_LINES + 1} lines",
    ]  # fmt: skip
    assert list(oversizes("def f():\n    g()\n")) == []


ALLOWED = (
    ("cardapp.web.waitress_adapter", "import waitress\nfrom cardapp.errors import CardAppError"),
    ("cardapp.state", "from . import database\nfrom ..card import model"),
    (
        "cardapp.session_host.mcp_server",
        "import time\nfrom cardapp import neovim\nfrom cardapp.mcp import server",
    ),
    (
        "cardapp.session_host.gdb_plugin.channel",
        "import gdb, json\nfrom cardapp.session_host.gdb_plugin import values",
    ),
    ("cardapp.cli", "from cardapp import serve"),
    ("marketdata.http.waitress_adapter", "import waitress, threading\nfrom marketdata.errors import MarketError"),
    ("marketdata.api.routing", "import bottle"),
    ("marketdata.frontend.request_target", "import urllib.parse\nfrom urllib.parse import quote"),
    ("marketdata.api", "from marketdata import token\nfrom . import app\nfrom ..store import tokens"),
    ("marketdata.store.pool", "import psycopg, psycopg_pool"),
    ("marketdata.cli", "from marketdata.api import serve\nfrom marketdata import __version__, postgres"),
)


def test_what_the_rules_allow() -> None:
    for name, source in ALLOWED:
        package, _, below = name.partition(".")
        assert faults(PRODUCTS[package], below, source, is_package="." not in below) == [], name

"""Reads a card's source file ``card_source.json`` into a :class:`Card` with its identity.

The document must meet ``card-source.v1.schema.json`` and the rules that a schema cannot express: ids are unique among
siblings, code ranges and stops name files of the target, a range does not end before it begins, snapshots name runs of
the target, expressions change nothing, and the folder to copy contains the target's directory.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import fastjsonschema
from jsonschema.protocols import Validator

from cardapp.card import expression as expressions
from cardapp.card.model import (
    NOT_RECORDED,
    UNDEFINED,
    AllocatorRecipe,
    Block,
    BlockRecipe,
    Card,
    CodeRange,
    Expectation,
    Identity,
    NodesRecipe,
    Phase,
    Run,
    Snapshot,
    Step,
    Stop,
    Target,
    Task,
    UnresolvedCode,
)
from cardapp.errors import FieldError, InvalidCard, NoCard
from cardapp.schema import decode, field_errors, validator

SOURCE_NAME = "card_source.json"
MAX_SOURCE_BYTES = 64 * 1024 * 1024
MAX_NODES = 200
"""The maximum number of nodes of a list or tree that are read, unless the card names another number."""


_MACRO = re.compile(r"\s*#\s*define\s+(\w+)\(")
_HEADERS = ("*.h", "*.hh", "*.hpp", "*.inc")


@dataclass(frozen=True)
class LoadedCard:
    """A card with its identity and the absolute path of its source file."""

    card: Card
    identity: Identity
    path: Path

    @property
    def target_directory(self) -> Path:
        return Path(os.path.normpath(self.path.parent / self.card.target.directory))

    @property
    def root(self) -> Path:
        """The folder that a session copies: the target's directory, or a folder above it."""
        return Path(os.path.normpath(self.path.parent / (self.card.target.root or self.card.target.directory)))

    def sources(self) -> dict[str, list[str]]:
        """The lines of the target's source files as they are now, without line ends, by file name. A file that cannot
        be read, or that is a link out of the root, is left out. A caller that needs the file reports it."""
        return source_lines(self.target_directory, filter(self.has_inside, self.card.target.sources))

    def macros(self) -> set[str]:
        """The function-like macros that the target's files define as they are now."""
        return macros(self.target_directory, self.card.target.sources)

    def has_inside(self, name: str) -> bool:
        """Whether the file is in the root, also after links are resolved. Sheets must not show other files."""
        root = os.path.realpath(self.root)
        return os.path.commonpath([root, os.path.realpath(self.target_directory / name)]) == root


def source_lines(directory: Path, names: Iterable[str]) -> dict[str, list[str]]:
    """The lines of each file in ``directory`` that can be read, without line ends, by file name."""
    found = {}
    for name in names:
        raw = read_regular(directory / name)
        if raw is not None:
            found[name] = _lines(raw.decode("utf-8", "replace"))
    return found


def macros(directory: Path, names: Iterable[str]) -> set[str]:
    """The function-like macros that the files ``names``, or a header below ``directory``, define."""
    headers = (str(each.relative_to(directory)) for pattern in _HEADERS for each in directory.rglob(pattern))
    lines = (line for each in source_lines(directory, {*names, *headers}).values() for line in each)
    return {found[1] for line in lines if (found := _MACRO.match(line)) is not None}


def read_regular(path: Path) -> bytes | None:
    """The content of a regular file; None for any other path, because reading a pipe or a device may never end."""
    if not os.path.isfile(path):
        return None
    try:
        return path.read_bytes()
    except OSError:
        return None


def _lines(text: str) -> list[str]:
    """Split at line feeds only, as compilers do. ``str.splitlines`` also splits at other characters."""
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def source_path(argument: str | Path) -> Path:
    """The absolute path of the source file; ``argument`` is a card's folder or the file itself."""
    path = Path(argument).absolute()
    # os.path.isdir returns False for a name that is too long or in an unreadable directory, where Path.is_dir raises.
    if os.path.isdir(path):
        path = path / SOURCE_NAME
    if not os.path.isfile(path):
        raise NoCard(f"there is no card at {argument}: name a card's folder or its {SOURCE_NAME}")
    return path


def load_card(path: str | Path) -> LoadedCard:
    """Load the card at ``path`` (folder or file).

    :raises InvalidCard: its ``errors`` are all faults.
    """
    file = source_path(path)
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise InvalidCard(f"{file} cannot be read: {error.strerror}") from error
    card, identity = parse_card(raw, str(file), file.parent)
    loaded = LoadedCard(card, identity, file)
    if not loaded.target_directory.is_relative_to(loaded.root):
        message = f"{loaded.root} does not contain the target's directory {loaded.target_directory}"
        raise InvalidCard(f"{file}: /target/root {message}", errors=(FieldError("/target/root", message),))
    return loaded


def parse_card(raw: bytes, name: str, folder: Path | None = None) -> tuple[Card, Identity]:
    """Decode and check the card in ``raw``; return it with its identity. Messages call it ``name``.

    ``folder`` is the card's folder, whose sources may define macros; None: there is none.
    """
    if len(raw) > MAX_SOURCE_BYTES:
        raise InvalidCard(f"{name} is larger than {MAX_SOURCE_BYTES} bytes")
    document = decode_source(raw, name)
    faults = (() if _is_valid(document) else field_errors(_checker(), document)) or tuple(_faults(document, folder))
    if faults:
        first = faults[0]
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise InvalidCard(f"{name}: {first.pointer or '/'} {first.message}{more}", errors=faults)
    digest = hashlib.sha256(raw).hexdigest()
    identity = Identity(document["id"], document["uuid"], document["version"], digest)
    return _card(document), identity


def _schema() -> dict[str, Any]:
    """A new copy with each call, because fastjsonschema changes the schema that it compiles."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name("card-source.v1.schema.json").read_text("utf-8"))
    return found


@cache
def _checker() -> Validator:
    return validator(_schema())


def _is_valid(document: Any) -> bool:
    """Whether the document meets the schema. jsonschema takes twenty times as long, so it is used only to name the
    faults."""
    try:
        _compiled()(document)
    except fastjsonschema.JsonSchemaException:
        return False
    return True


@cache
def _compiled() -> Callable[[Any], Any]:
    return fastjsonschema.compile(_schema(), use_default=False)


def decode_source(raw: bytes, name: str) -> Any:
    """The JSON value of a source file, which may still have faults. Messages call it ``name``.

    :raises InvalidCard: it is not JSON.
    """
    try:
        return decode(raw)
    except ValueError as error:
        raise InvalidCard(f"{name} {error}") from error


# -- rules beyond the schema ---------------------------------------------------------------------------------------

_CHILDREN = {"tasks": "blocks", "blocks": "phases", "phases": "steps", "steps": "snapshots", "snapshots": None}


def _faults(document: dict[str, Any], folder: Path | None) -> Iterator[FieldError]:
    target = document["target"]
    sources, runs = set(target["sources"]), target.get("runs", {})
    if "root" not in target and ".." in target["directory"].split("/"):
        message = "contains '..', which needs target.root: the folder that a session copies"
        yield FieldError("/target/directory", message)
    for pointer, kind, item in _walk(document, "tasks", ""):
        if kind == "steps" and "code" in item:
            yield from _code_faults(item["code"], sources, f"{pointer}/code")
        if kind == "snapshots":
            yield from _stop_faults(item["stop"], sources, f"{pointer}/stop")
            if "run" in item and item["run"] not in runs:
                known = ", ".join(sorted(runs)) or "there are none"
                yield FieldError(f"{pointer}/run", f"{item['run']!r} is not one of target.runs ({known})")
    found = list(_expressions(document))
    defined: set[str] = set()
    if folder is not None and any(expressions.called(expression) for _, expression in found):
        defined = macros(folder / target["directory"], sources)
    for pointer, expression in found:
        if (reason := expressions.fault(expression, defined)) is not None:
            yield FieldError(pointer, f"{expression!r} {reason}")
    yield from _duplicate_ids(document, "tasks", "")


def _code_faults(code: dict[str, Any], sources: set[str], pointer: str) -> Iterator[FieldError]:
    if code.get("from", 1) > code.get("to", code.get("from", 1)):
        yield FieldError(pointer, f"ends before it begins: from {code['from']} to {code['to']}")
    yield from _unknown_file(code, sources, f"{pointer}/file")


def _stop_faults(stop: dict[str, Any], sources: set[str], pointer: str) -> Iterator[FieldError]:
    yield from _unknown_file(stop, sources, f"{pointer}/file")
    if stop.get("text") == NOT_RECORDED and stop.get("line", NOT_RECORDED) == NOT_RECORDED:
        yield FieldError(pointer, "needs a line, or the text of one")


def _expressions(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Every expression of the card, with the pointer of its place."""
    yield from _texts_of(document.get("allocator", {}), "/allocator", skipped=("label", "max"))
    for pointer, kind, item in _walk(document, "tasks", ""):
        if kind != "snapshots":
            continue
        for expression in item.get("expect", {}):
            yield f"{pointer}/expect/{pointer_token(expression)}", expression
        for name in ("watch", "ask"):
            for number, expression in enumerate(item.get(name, ())):
                yield f"{pointer}/{name}/{number}", expression
        if "if" in item["stop"]:
            yield f"{pointer}/stop/if", item["stop"]["if"]


def _texts_of(value: Any, pointer: str, skipped: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, list | dict):
        for name, member in value.items() if isinstance(value, dict) else enumerate(value):
            if name not in skipped:
                yield from _texts_of(member, f"{pointer}/{name}")


def pointer_token(name: str) -> str:
    """``name`` as a part of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


def _walk(parent: dict[str, Any], kind: str | None, at: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    if kind is None:
        return
    for number, item in enumerate(parent[kind]):
        pointer = f"{at}/{kind}/{number}"
        yield pointer, kind, item
        yield from _walk(item, _CHILDREN[kind], pointer)


def _duplicate_ids(parent: dict[str, Any], kind: str | None, at: str) -> Iterator[FieldError]:
    if kind is None:
        return
    seen: set[str] = set()
    for number, item in enumerate(parent[kind]):
        pointer = f"{at}/{kind}/{number}"
        if item["id"] in seen:
            yield FieldError(f"{pointer}/id", f"{item['id']!r} is already the id of a sibling")
        seen.add(item["id"])
        yield from _duplicate_ids(item, _CHILDREN[kind], pointer)


def _unknown_file(place: dict[str, Any], sources: set[str], pointer: str) -> Iterator[FieldError]:
    name = place.get("file")
    if name is not None and name not in sources:
        yield FieldError(pointer, f"{name!r} is not one of target.sources ({', '.join(sorted(sources))})")


# -- the document as a model ---------------------------------------------------------------------------------------


def _card(document: dict[str, Any]) -> Card:
    return Card(
        id=document["id"],
        uuid=document["uuid"],
        version=document["version"],
        title=document["title"],
        text=document.get("text", ""),
        language=document["language"],
        layout=document["layout"],
        target=target_of(document["target"]),
        allocator=_allocator(document.get("allocator")),
        tasks=tuple(_task(task) for task in document["tasks"]),
    )


def target_of(target: dict[str, Any]) -> Target:
    return Target(
        name=target["name"],
        directory=target["directory"],
        build=tuple(target["build"]),
        program=target["program"],
        sources=tuple(target["sources"]),
        root=target.get("root"),
        build_timeout=target.get("build_timeout_s"),
        run=_run(target),
        runs=tuple((name, _run(run)) for name, run in target.get("runs", {}).items()),
    )


def _run(run: dict[str, Any]) -> Run:
    environment = tuple(run.get("env", {}).items())
    return Run(tuple(run.get("args", ())), run.get("stdin"), environment, run.get("timeout_s"))


def _allocator(recipe: dict[str, Any] | None) -> AllocatorRecipe | NodesRecipe | None:
    if recipe is None:
        return None
    if "each" in recipe:
        return _nodes(recipe)
    blocks = recipe.get("blocks")
    return AllocatorRecipe(
        base=recipe["base"],
        size=recipe["size"],
        used=recipe["used"],
        high_water=recipe.get("high_water"),
        blocks=blocks and BlockRecipe(blocks["count"], blocks["offset"], blocks["size"], blocks.get("label")),
    )


def _nodes(recipe: dict[str, Any]) -> NodesRecipe:
    each, blocks = recipe["each"], recipe["blocks"]
    return NodesRecipe(
        title=recipe.get("label"),
        first=each["first"] if "first" in each else each["root"],
        following=(each["next"],) if "next" in each else tuple(each["children"]),
        max=each.get("max", MAX_NODES),
        address=blocks["address"],
        size=blocks["size"],
        label=blocks.get("label"),
    )


def _task(task: dict[str, Any]) -> Task:
    return Task(task["id"], task["title"], task.get("text", ""), tuple(_block(block) for block in task["blocks"]))


def _block(block: dict[str, Any]) -> Block:
    phases = tuple(
        Phase(phase["id"], phase["title"], phase.get("text", ""), tuple(step_of(step) for step in phase["steps"]))
        for phase in block["phases"]
    )
    return Block(block["id"], block["title"], block.get("goal", ""), block.get("text", ""), phases)


def step_of(step: dict[str, Any]) -> Step:
    code = step.get("code", {})
    return Step(
        id=step["id"],
        title=step["title"],
        text=step.get("text", ""),
        question=step.get("question", ""),
        code=_code(code) if "from" in code else None,
        snapshots=tuple(snapshot_of(snapshot) for snapshot in step["snapshots"]),
        unresolved=UnresolvedCode(code["file"], code["function"]) if code and "from" not in code else None,
    )


def _code(code: dict[str, Any]) -> CodeRange:
    return CodeRange(
        code["file"], code["from"], code["to"], code.get("text"), code.get("digest"), code.get("function")
    )  # fmt: skip


def snapshot_of(snapshot: dict[str, Any]) -> Snapshot:
    stop = snapshot["stop"]
    return Snapshot(
        id=snapshot["id"],
        title=snapshot["title"],
        stop=Stop(
            file=stop.get("file"),
            line=None if stop.get("line") == NOT_RECORDED else stop.get("line"),
            text=stop.get("text"),
            function=stop.get("function"),
            hits=stop.get("hits", 1),
            signal=stop.get("signal"),
            condition=stop.get("if"),
        ),
        expect=tuple(_expectation(*each) for each in snapshot.get("expect", {}).items()),
        watch=tuple(snapshot.get("watch", ())),
        run=snapshot.get("run"),
        ask=tuple(snapshot.get("ask", snapshot.get("expect", ()))),
        hints=tuple(snapshot.get("hints", ())),
        explanation=snapshot.get("explanation", ""),
    )


def _expectation(expression: str, expected: Any) -> Expectation:
    members = expected if isinstance(expected, dict) else {"value": expected}
    if "undefined" in members:
        return Expectation(expression, UNDEFINED, undefined=True)
    return Expectation(expression, _value_text(members["value"]), members.get("format"), members.get("tolerance"))


def _value_text(value: str | float) -> str:
    return value if isinstance(value, str) else repr(value)

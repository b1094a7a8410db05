"""Finds and loads layout files: the shipped ones in ``templates/`` by their id, and others by their path."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from jsonschema.protocols import Validator

from cardapp.errors import InvalidLayout, NoLayout
from cardapp.layout.layout_file import build
from cardapp.layout.layout_model import Layout
from cardapp.schema import decode, field_errors, validator
from cardapp.settings import TEMPLATES

SCHEMA = TEMPLATES / "card-template.v1.schema.json"
MAX_LAYOUT_BYTES = 1024 * 1024
ANSWER_KEY = TEMPLATES / "answer-key.json"
"""The layout of the answer key. A card cannot use it as its layout, so it is not among ``shipped``."""


def shipped() -> list[Path]:
    """Return the shipped files, sorted by name. A layout's id is its file name without the suffix."""
    return sorted(TEMPLATES.glob("karta-*.json"))


def known_ids() -> list[str]:
    return [path.stem for path in shipped()]


def path_of(layout_id: str) -> Path:
    """Return the path of the shipped layout with this id. Raises :class:`NoLayout` if there is no such layout. Its
    message lists the known ids."""
    if layout_id not in known_ids():
        message = f"there is no layout {layout_id!r}; known: {', '.join(known_ids())}"
        raise NoLayout(f"{message}; to use a layout file, give its name with the suffix .json")
    return TEMPLATES / f"{layout_id}.json"


def find(argument: str) -> Layout:
    """Load the layout that a command line argument names. An argument that ends with ".json" or contains a slash is a
    path. Any other argument is the id of a shipped layout."""
    is_path = argument.endswith(".json") or "/" in argument
    return load(Path(argument) if is_path else path_of(argument))


def description(layout: Layout) -> list[str]:
    """Return the lines that describe a layout: its name, its page, its warnings and its limitations."""
    page = layout.page
    return [
        f"{layout.id} {layout.version}: {layout.name}; {page.format} {page.orientation}, {layout.emitters}",
        *(f"  warning: {warning.pointer} {warning.message}" for warning in layout.warnings),
        *(f"  {limitation}" for limitation in layout.limitation_sentences()),
    ]


def load(path: Path) -> Layout:
    """Load the layout file at ``path``.

    :raises NoLayout: there is no such file.
    :raises InvalidLayout: the file has faults; the error lists all of them.
    """
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_LAYOUT_BYTES + 1)
    except FileNotFoundError as error:
        known = ", ".join(known_ids())
        raise NoLayout(
            f"there is no layout file {path}: name an existing file, or a shipped layout ({known})"
        ) from error
    except IsADirectoryError as error:
        raise NoLayout(f"{path} is a folder: name a layout file, which ends with .json") from error
    except OSError as error:
        raise InvalidLayout(f"{path} cannot be read: {error.strerror}") from error
    return parse(raw, str(path))


def parse(raw: bytes, name: str) -> Layout:
    """Return the layout in ``raw``. Messages refer to it by ``name``."""
    if len(raw) > MAX_LAYOUT_BYTES:
        raise InvalidLayout(f"{name} is larger than {MAX_LAYOUT_BYTES} bytes")
    try:
        document = decode(raw)
    except ValueError as error:
        raise InvalidLayout(f"{name} {error}") from error
    faults = field_errors(_checker(), document)
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        message = f"{name}: {faults[0].pointer or '/'} {faults[0].message}{more}"
        raise InvalidLayout(message, errors=faults)
    try:
        return build(document)
    except InvalidLayout as error:
        raise InvalidLayout(f"{name}: {error.detail}", errors=error.errors) from error


@cache
def _checker() -> Validator:
    return validator(json.loads(SCHEMA.read_text("utf-8")))

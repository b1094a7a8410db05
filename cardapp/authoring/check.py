"""Checks a card without running its program: its layout, its stops and excerpts, and values that are not recorded
yet."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from cardapp.authoring.code_faults import part_faults, parts_of, stop_places
from cardapp.authoring.fault import RECORD_HINT, Fault
from cardapp.authoring.source_text import SourceText, read_source
from cardapp.card import anchors
from cardapp.card.draft import Part, key_at, read_draft
from cardapp.card.model import Snapshot, Step, Target
from cardapp.card.source import LoadedCard, decode_source, source_lines
from cardapp.errors import InvalidCard, InvalidLayout
from cardapp.layout.compose import compose
from cardapp.publish import layouts
from cardapp.source_tree import root_fault


def static_faults(loaded: LoadedCard) -> list[Fault]:
    """All faults that can be found without running the program, in document order."""
    parts = parts_of(loaded)
    found = [*_layout_faults(loaded), *_target_faults(loaded.card.target, loaded.target_directory, parts)]
    if os.path.isdir(loaded.target_directory) and (detail := root_fault(loaded)) is not None:
        found.append(Fault("", "/target/root", None, "sources_unusable", detail))
    for number, name in enumerate(loaded.card.target.sources):
        if not loaded.has_inside(name):
            detail = (
                f"the link {name} leads out of {loaded.root}: put the file in its place, or choose a larger target.root"
            )
            found.append(Fault("", f"/target/sources/{number}", None, "source_missing", detail))
    found += part_faults(parts, loaded.sources())
    return located(loaded.path, found)


def static_warnings(loaded: LoadedCard) -> list[Fault]:
    """The excerpts that have no anchor, so that a change of their lines cannot be noticed."""
    found = [
        Fault(part.key, f"{part.pointer}/code", None, "no_anchor", f"the excerpt has no anchor: {RECORD_HINT}")
        for part in parts_of(loaded)
        if isinstance(part.item, Step) and part.item.code is not None and not anchors.is_anchored(part.item.code)
    ]
    return located(loaded.path, found)


def source_faults(path: Path, error: InvalidCard) -> list[Fault]:
    """The faults of an invalid source file: those in ``error``, and the static faults of the parts that can be read."""
    try:
        raw = path.read_bytes()
        document = decode_source(raw, "the source")
    except OSError:
        return [Fault("", "", None, error.code, error.detail)]
    except InvalidCard as undecodable:
        return [_undecodable(raw, undecodable)]
    if not error.errors:
        return [Fault("", "", None, error.code, error.detail)]
    found = [
        Fault(key_at(document, each.pointer), each.pointer, None, error.code, f"{each.pointer or '/'} {each.message}")
        for each in error.errors
    ]
    draft = read_draft(document, error.errors)
    files = {}
    if draft.target is not None:
        directory = Path(os.path.normpath(path.parent / draft.target.directory))
        found += _target_faults(draft.target, directory, draft.parts)
        files = source_lines(directory, draft.target.sources)
    return located(path, [*found, *part_faults(draft.parts, files)])


def _undecodable(raw: bytes, error: InvalidCard) -> Fault:
    """The fault of a source file that is not JSON, or has values that JSON does not have."""
    cause = error.__cause__ and error.__cause__.__cause__
    if isinstance(cause, json.JSONDecodeError):
        return Fault("", "", cause.lineno, error.code, error.detail)
    with suppress(ValueError, RecursionError):
        text = SourceText(raw.decode())
        if (pointer := text.undecodable()) is not None:
            key = key_at(json.loads(text.text), pointer)
            return Fault(key, pointer, text.line(pointer), error.code, f"{pointer}: {error.detail}")
    return Fault("", "", None, error.code, error.detail)


def located(path: Path, faults: Iterable[Fault]) -> list[Fault]:
    """The faults with the lines of their places in the source file at ``path``, in the order of these lines."""
    faults = list(faults)
    with suppress(OSError, UnicodeDecodeError):
        text = SourceText(read_source(path)) if faults else None
        faults = [replace(fault, line=text.line(fault.pointer)) for fault in faults] if text is not None else []
    return sorted(faults, key=lambda fault: fault.line or 0)


# -- the card as a whole -------------------------------------------------------------------------------------------


def _layout_faults(loaded: LoadedCard) -> list[Fault]:
    """The fault that prevents the card from having sheets: its layout is missing or invalid, or a part fits no
    sheet."""
    try:
        layout = layouts.find(loaded.card.layout)
        for arranged in (layout.arranged("html"), layout.arranged("latex")):
            compose(loaded.card, loaded.identity, arranged, loaded.sources())
    except InvalidLayout as error:
        return [Fault("", "/layout", None, error.code, error.detail)]
    return []


def _target_faults(target: Target, directory: Path, parts: Iterable[Part]) -> Iterator[Fault]:
    """The folder or the source files that are missing. The stops and excerpts in them are not reported as well."""
    if not os.path.isdir(directory):
        detail = f"there is no folder {directory}: target.directory is relative to the card's folder"
        yield Fault("", "/target/directory", None, "source_missing", detail)
        return
    for number, name in enumerate(target.sources):
        if not os.access(directory / name, os.R_OK) or not os.path.isfile(directory / name):
            detail = f"{name} cannot be read: there is no such file in {directory}"
            detail += _other_name(name, target, directory, parts)
            if os.path.exists(directory / name):
                detail = f"{name} cannot be read: it is no file, or its permissions forbid it"
            yield Fault("", f"/target/sources/{number}", None, "source_missing", detail)


def _other_name(name: str, target: Target, directory: Path, parts: Iterable[Part]) -> str:
    """The end of the message of a missing file: another file of its folder that has its lines or a similar name."""
    folder = (directory / name).parent
    siblings = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    others = [str(Path(name).with_name(each)) for each in siblings if Path(each).suffix == Path(name).suffix]
    others = [each for each in others if each not in target.sources]
    in_file = [part.item for part in parts if _file_of(part.item) == name]
    texts = source_lines(directory, others)
    for other, lines in texts.items():
        if any(_is_found(item, lines) for item in in_file):
            return f"; {other} has its lines: if it was renamed, write the new name in target.sources, code and stop"
    near = difflib.get_close_matches(name, others, n=1)
    return f"; did you mean {near[0]}?" if near else "; correct target.sources"


def _file_of(item: Step | Snapshot) -> str | None:
    if isinstance(item, Snapshot):
        return item.stop.file
    return item.code.file if item.code is not None else None


def _is_found(item: Step | Snapshot, lines: list[str]) -> bool:
    """Whether the excerpt of a step or the stop of a snapshot has the same line numbers in a file with these lines."""
    if isinstance(item, Step):
        return item.code is not None and anchors.is_anchored(item.code) and anchors.holds(item.code, lines)
    line, text = item.stop.line, item.stop.text
    if line is None:
        return len(stop_places(item.stop, lines)) == 1
    return text is not None and line <= len(lines) and text in lines[line - 1]

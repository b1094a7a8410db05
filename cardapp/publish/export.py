"""A card as a file to hand out: its sheets, in the format that was asked for, written whole or not at all."""

from __future__ import annotations

import gc
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cardapp.card.source import LoadedCard
from cardapp.errors import UsageError
from cardapp.layout.compose import compose
from cardapp.layout.html.document import render as render_html
from cardapp.layout.latex.document import render as render_latex
from cardapp.layout.sheets import Document
from cardapp.layout.template import Layout
from cardapp.publish.lualatex import FONT_PACKAGES, typeset
from cardapp.settings import load


@dataclass(frozen=True)
class ExportedFile:
    """The bytes of a card's file, and what whoever asked for it should know of it, a sentence each."""

    content: bytes
    remarks: tuple[str, ...] = ()


Environment = Mapping[str, str]
Emitter = Callable[[Document, Environment], ExportedFile]


def _html(document: Document, _environment: Environment) -> ExportedFile:
    return ExportedFile(b"".join(sheet.encode() for sheet in render_html(document)))


def _latex(document: Document, _environment: Environment) -> ExportedFile:
    return ExportedFile(render_latex(document).encode())


def _pdf(document: Document, environment: Environment) -> ExportedFile:
    typeset_pdf = typeset(render_latex(document), load(environment).latex_cache)
    return ExportedFile(typeset_pdf.pdf, (*typeset_pdf.remarks, *_unshown(typeset_pdf.named)))


def _unshown(characters: Iterable[str]) -> Iterator[str]:
    if codes := ", ".join(f"U+{ord(char):04X}" for char in characters):
        yield (
            f"no font here has {codes}; they are named in their places. "
            f"More fonts: sudo apt-get install {' '.join(FONT_PACKAGES)}"
        )


EMITTERS: Mapping[str, Emitter] = {"html": _html, "latex": _latex, "pdf": _pdf}
"""The formats by their names on the command line, each from the sheets to its file."""


def emit(loaded: LoadedCard, layout: Layout, form: str, environment: Environment) -> ExportedFile:
    """The card in the format ``form``, a name of ``EMITTERS``; ``environment`` has the settings (``settings.load``)."""
    arranged = layout.arranged("html" if form == "html" else "latex")
    with _uncollected():
        # The sheets have no name here: they are gone before the collector looks at what there is.
        return EMITTERS[form](compose(loaded.card, loaded.identity, arranged, loaded.sources()), environment)


@contextmanager
def _uncollected() -> Iterator[None]:
    """The sheets of a big card are a million objects in no cycle; to look for one again and again takes a fifth of the
    time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def write(content: bytes, output: str | None) -> None:
    """Write to the file ``output``, whole or not at all; to standard output for None and "-".

    :raises UsageError: it cannot be written.
    """
    try:
        if output is None or output == "-":
            sys.stdout.buffer.write(content)
            sys.stdout.flush()
        else:
            _write_file(content, Path(output))
    except BrokenPipeError:
        raise  # whoever read it has enough
    except OSError as error:
        raise UsageError(f"{output or 'standard output'} cannot be written: {error.strerror}") from error


def _write_file(content: bytes, path: Path) -> None:
    path = path.resolve()  # a link stays, and leads to the new content
    if path.exists() and not path.is_file():
        path.write_bytes(content)  # a pipe or a terminal
        return
    new = path.with_name(f".emit-{secrets.token_hex(8)}")
    try:
        with open(new, "xb") as file:
            file.write(content)
        if path.exists():
            new.chmod(path.stat().st_mode & 0o777)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise

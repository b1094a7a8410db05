"""Exports a card's sheets to a file in HTML, LaTeX or PDF. The file is written completely or not at all."""

from __future__ import annotations

import gc
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cardapp.card import anchors
from cardapp.card.catalog import Catalog
from cardapp.card.model import Card
from cardapp.card.source import LoadedCard
from cardapp.errors import UsageError
from cardapp.layout.annotations import by_part
from cardapp.layout.compose import compose
from cardapp.layout.html.document import render as render_html
from cardapp.layout.latex.document import render as render_latex
from cardapp.layout.layout_model import Layout
from cardapp.layout.part_names import part_names
from cardapp.layout.sheets import Document
from cardapp.publish.lualatex import FONT_PACKAGES, typeset
from cardapp.settings import load


@dataclass(frozen=True)
class ExportedFile:
    """The content of the file, and remarks for the user. Each remark is one sentence."""

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
    return ExportedFile(typeset_pdf.pdf, (*typeset_pdf.remarks, *_missing_glyphs(typeset_pdf.named)))


def _missing_glyphs(characters: Iterable[str]) -> Iterator[str]:
    if codes := ", ".join(f"U+{ord(char):04X}" for char in characters):
        yield (
            f"no installed font has {codes}; the PDF shows their code points instead. "
            f"To install more fonts: sudo apt-get install {' '.join(FONT_PACKAGES)}"
        )


EMITTERS: Mapping[str, Emitter] = {"html": _html, "latex": _latex, "pdf": _pdf}
"""The function that makes each format, by the format's name on the command line."""


def emit(
    loaded: LoadedCard,
    layout: Layout,
    form: str,
    environment: Environment,
    proved: str,
    *,
    running_on: bool = False,
    annotations: Iterable[Mapping[str, Any]] = (),
) -> ExportedFile:
    """Make the card's file in the format ``form``, a key of ``EMITTERS``. ``environment`` contains the settings.

    The sheets show the text ``proved``, which says whether the card was proved. If ``running_on`` is true, a block
    begins below the one before it. The visible annotations among ``annotations``, records of the API, are drawn over
    their parts.
    """
    arranged, sources = layout.arranged("html" if form == "html" else "latex"), loaded.sources()
    with _garbage_collection_paused():
        # The sheets are freed before collection resumes.
        composed = compose(loaded.card, loaded.identity, arranged, sources, proved, running_on=running_on)
        drawn = by_part(annotations)
        missing = drawn.keys() - part_names(composed) if drawn else set()
        made = EMITTERS[form](replace(composed, annotations=drawn), environment)
        del composed
    remarks = (f"the annotation of {name} is left out: these sheets have no such part" for name in sorted(missing))
    return replace(made, remarks=(*_wrong_excerpts(loaded.card, sources), *remarks, *made.remarks))


def _wrong_excerpts(card: Card, sources: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield a remark for each excerpt that does not show the lines that its author chose. The sheets have the same
    remark."""
    for key, step in Catalog(card).steps.items():
        code = step.code
        if code is not None and (difference := anchors.difference(code, sources.get(code.file))):
            yield f"{key}: the excerpt of {code.file}, lines {code.first}–{code.last}: {difference}"


@contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    """Pause the garbage collection. The sheets of a big card are a million objects without a reference cycle, and the
    repeated search for cycles would take a fifth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def write(content: bytes, output: str | None) -> None:
    """Write ``content`` to the file ``output``, completely or not at all. None and "-" mean standard output.

    :raises UsageError: the output cannot be written.
    """
    try:
        if output is None or output == "-":
            sys.stdout.buffer.write(content)
            sys.stdout.flush()
        else:
            _write_file(content, Path(output))
    except BrokenPipeError:
        raise  # The reader closed the pipe; ``console.run_printing`` handles this.
    except OSError as error:
        raise UsageError(f"{output or 'standard output'} cannot be written: {error.strerror}") from error


def _write_file(content: bytes, path: Path) -> None:
    path = path.resolve()  # so that the target of a symbolic link is replaced, and not the link
    if path.exists() and not path.is_file():
        path.write_bytes(content)  # a pipe or a device
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

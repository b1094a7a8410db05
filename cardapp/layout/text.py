"""A card's texts: from CommonMark to blocks of styled spans, which is what both emitters get. The only parser there is.

They are plain data without the markup of any output; an emitter escapes each string for the place it puts it in:

    Block = Paragraph | Heading | CodeBlock | Quote | Bullets | Rule     quotes and lists hold blocks, at most 40 deep
    Span  = Run | Image | Break                                          flat: styles are flags, a link is a member

HTML in a text is text like any other. Nothing is dropped: a text nested deeper than that is one ``CodeBlock`` of its
source, and a character that cannot be seen is a visible mark (``escape.visible``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

from cardapp.layout.escape import visible

_DEEPEST = 42
"""Levels of the parser, of which a list takes two (list and item), a quote one, a paragraph and its content two."""


@dataclass(frozen=True, slots=True)
class Link:
    """``url`` is percent-encoded, of any scheme: an emitter makes it an address only if ``escape.safe_url`` lets it,
    and shows it as text if not. ``title`` is plain text, "" for none."""

    url: str
    title: str


@dataclass(frozen=True, slots=True)
class Run:
    """Characters of one style; ``code`` may be emphasised too. Neighbours with an equal link are one link."""

    text: str
    code: bool = False
    emphasis: bool = False
    strong: bool = False
    link: Link | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """A sheet has no files beside it: ``alt``, ``source`` and ``title`` are shown in the image's place."""

    alt: str
    source: str
    title: str
    link: Link | None = None


@dataclass(frozen=True, slots=True)
class Break:
    """A line break that the author asked for."""


Span = Run | Image | Break


@dataclass(frozen=True, slots=True)
class Paragraph:
    """``tight``: an item's own line, without the space between paragraphs."""

    spans: tuple[Span, ...]
    tight: bool = False


@dataclass(frozen=True, slots=True)
class Heading:
    """``level`` 1 to 6 is the author's; in the document it ranks below every heading of the card itself."""

    level: int
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """Lines, the last without its line break. ``info`` stands behind the fence, mostly a language; "" for none."""

    text: str
    info: str = ""


@dataclass(frozen=True, slots=True)
class Quote:
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list. ``start`` is its first number, None where the items have no numbers."""

    items: tuple[tuple[Block, ...], ...]
    start: int | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A line across the column."""


Block = Paragraph | Heading | CodeBlock | Quote | Bullets | Rule


def parse(markdown: str) -> tuple[Block, ...]:
    """The blocks of a text. Every text is CommonMark, so there are no errors."""
    # Before the parser, which strips all kinds of blanks where CommonMark strips two.
    source = visible(markdown.replace("\r\n", "\n").replace("\r", "\n"))
    tokens = _parser().parse(source)
    if any(token.level >= _DEEPEST - 2 for token in tokens):  # the parser leaves out what is nested too deep
        return (CodeBlock(source),)
    return _blocks(iter(tokens))


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST})
    # Else a link of another scheme would be no link but stay as it was typed, brackets and all.
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    return parser


def _blocks(tokens: Iterator[Token]) -> tuple[Block, ...]:
    """The blocks up to the end of what ``tokens`` stands in: a quote, an item, or the text."""
    found: list[Block] = []
    for token in tokens:
        if token.nesting < 0:
            break
        found.append(_block(token, tokens))
    return tuple(found)


def _block(token: Token, tokens: Iterator[Token]) -> Block:
    match token.type:
        case "paragraph_open":
            return Paragraph(_content(tokens), tight=token.hidden)
        case "heading_open":
            return Heading(int(token.tag[1:]), _content(tokens))
        case "fence" | "code_block":
            return CodeBlock(token.content.removesuffix("\n"), visible(token.info.strip()))
        case "blockquote_open":
            return Quote(_blocks(tokens))
        case "bullet_list_open":
            return Bullets(_items(tokens))
        case "ordered_list_open":
            return Bullets(_items(tokens), start=int(token.attrs.get("start", 1)))
        case _:
            return Rule()


def _items(tokens: Iterator[Token]) -> tuple[tuple[Block, ...], ...]:
    found: list[tuple[Block, ...]] = []
    for token in tokens:
        if token.nesting < 0:
            break
        found.append(_blocks(tokens))
    return tuple(found)


def _content(tokens: Iterator[Token]) -> tuple[Span, ...]:
    """The spans of the paragraph or heading whose opening was the last token; takes it to its end."""
    inline = next(tokens)
    next(tokens)
    return tuple(_joined(_spans(inline.children or ())))


def _spans(children: Iterable[Token]) -> Iterator[Span]:
    emphasis = strong = 0
    link: Link | None = None
    for child in children:
        match child.type:
            case "text" | "softbreak" | "code_inline":
                text = "\n" if child.type == "softbreak" else visible(child.content)
                yield Run(text, child.type == "code_inline", emphasis > 0, strong > 0, link)
            case "em_open" | "em_close":
                emphasis += child.nesting
            case "strong_open" | "strong_close":
                strong += child.nesting
            case "link_open":
                link = Link(str(child.attrs["href"]), visible(str(child.attrs.get("title", ""))))
            case "link_close":
                link = None
            case "image":
                source, title = visible(str(child.attrs["src"])), visible(str(child.attrs.get("title", "")))
                yield Image(_words(child.children or ()), source, title, link)
            case "hardbreak":
                yield Break()


def _words(children: Iterable[Token]) -> str:
    """What an image's description says, without its styles."""
    return "".join(
        span.text if isinstance(span, Run) else span.alt if isinstance(span, Image) else " "
        for span in _spans(children)
    )


def _joined(spans: Iterable[Span]) -> Iterator[Span]:
    """Neighbouring runs of one style as one run, no empty ones."""
    last: Run | None = None
    for span in spans:
        if isinstance(span, Run) and last is not None and _style(span) == _style(last):
            last = Run(last.text + span.text, *_style(last))
            continue
        if last is not None and last.text:
            yield last
        last = span if isinstance(span, Run) else None
        if last is None:
            yield span
    if last is not None and last.text:
        yield last


def _style(run: Run) -> tuple[bool, bool, bool, Link | None]:
    return run.code, run.emphasis, run.strong, run.link

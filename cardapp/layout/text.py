"""Parses a card's texts from CommonMark with tables (GFM) to blocks of styled spans, for all emitters.

The result is plain data without markup; an emitter escapes each string for its context:

    Block = Paragraph | Heading | CodeBlock | Quote | Bullets | Table | Rule     quotes and lists nest, at most 40 deep
    Span  = Run | Break                                                          not nested: style and link are members

Blocks and spans with content are named tuples. A big card has thousands of them, and creating a tuple takes a third of
the time of a frozen dataclass.

HTML in a text is treated as plain text. No content is lost, except the cells of a table beyond the columns of its
head, which GFM leaves out. A text that is nested deeper than 40 becomes one
``CodeBlock`` with its source. An invisible character becomes a visible mark (``escape.visible``). An image or
a link to an unsafe address is written as words, because a sheet cannot contain them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from cardapp.layout.escape import safe_url, visible

_MAX_NESTING = 42
"""Maximum of the parser's nesting levels. A list takes two (list and item), a quote one, a paragraph and its content
two."""


class Link(NamedTuple):
    """``url`` is accepted by ``escape.safe_url``. An emitter makes ``#`` and a key a link only if the card has the key.
    ``title`` is plain text; it is "" if there is none."""

    url: str
    title: str


class Run(NamedTuple):
    """Text of one style; ``code`` may also be emphasised. Adjacent runs with an equal link form one link."""

    text: str
    code: bool = False
    emphasis: bool = False
    strong: bool = False
    link: Link | None = None


@dataclass(frozen=True, slots=True)
class Break:
    """A hard line break."""


Span = Run | Break


class Paragraph(NamedTuple):
    """``tight`` is true in a tight list, whose items have no space between paragraphs."""

    spans: tuple[Span, ...]
    tight: bool = False


class Heading(NamedTuple):
    """``level`` (1 to 6) is the author's level. In the document, the heading ranks below all headings of the card
    itself."""

    level: int
    spans: tuple[Span, ...]


class CodeBlock(NamedTuple):
    """Lines without the final line break. ``info`` is the info string of the fence, usually a language; it is "" if
    there is none."""

    text: str
    info: str = ""


class Quote(NamedTuple):
    blocks: tuple[Block, ...]


class Bullets(NamedTuple):
    """A list. ``start`` is the first number, None for a bullet list."""

    items: tuple[tuple[Block, ...], ...]
    start: int | None = None


Cell = tuple[Span, ...]
Align = Literal["left", "center", "right"]


class Table(NamedTuple):
    """A table. Each row has a cell for each column. ``head`` is (), or the cells that each fragment repeats. A fragment
    has the ``widths`` of the columns of the whole table, in mm; they are () for a table that was not split."""

    head: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    aligns: tuple[Align, ...]
    widths: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """A line across the column."""


Block = Paragraph | Heading | CodeBlock | Quote | Bullets | Table | Rule


_PLAIN_CHARACTER = r"[A-Za-z0-9 ,.;:'\"()/?%+=@-]"
"""A character without a meaning in CommonMark within a line."""
_SIMPLE = re.compile(
    rf"(?=[A-Za-z`*])(?:{_PLAIN_CHARACTER}"
    r"|`[!-_a-~](?:[ -_a-~]*[!-_a-~])?`(?!`)"
    rf"|(?<![\w*`])\*\*[A-Za-z0-9](?:{_PLAIN_CHARACTER}*[A-Za-z0-9])?\*\*(?![\w*`])"
    r")*(?<! )",
    re.ASCII,
)
"""A line that consists of such characters, code, and strong words with blanks around them. Most texts are such lines.
They are read without the Markdown parser, which would take a quarter of a big card's time."""
_SIMPLE_RUNS = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|([^`*]+)")
_LINE = r"[^\W\d_][^\n]*(?<![^\S \t])"
_PARAGRAPHS = re.compile(rf"{_LINE}(?:\n{{1,2}}{_LINE})*\n?")
"""Text whose lines all begin with a letter. It contains only paragraphs, so the parser does not have to look for other
blocks. A line must not end with a blank other than a space or tab, because only the full parser removes that."""


def parse(markdown: str) -> tuple[Block, ...]:
    """Return the blocks of a text. Any text is valid CommonMark, so there are no errors."""
    if _SIMPLE.fullmatch(markdown):
        return (Paragraph(tuple([_run(*run) for run in _SIMPLE_RUNS.findall(markdown)])),)
    # Marked before parsing, because the parser would strip all kinds of blanks; CommonMark strips only two kinds.
    source = visible(markdown.replace("\r\n", "\n").replace("\r", "\n"))
    if _PARAGRAPHS.fullmatch(source):
        return tuple(Paragraph(_parse_paragraph(paragraph)) for paragraph in source.split("\n\n"))
    tokens = _parser().parse(source)
    if any(token.level >= _MAX_NESTING - 2 for token in tokens):  # the parser omits content that is nested too deeply
        return (CodeBlock(source),)
    return _blocks(iter(tokens))


def _run(code: str, strong: str, words: str) -> Run:
    return Run(code or strong or words, code=bool(code), strong=bool(strong))


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _MAX_NESTING}).enable("table")
    # Otherwise the parser would leave a link with another scheme as Markdown source.
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    return parser


def _blocks(tokens: Iterator[Token]) -> tuple[Block, ...]:
    """Return the blocks up to the end of the current quote, list item or text."""
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
        case "table_open":
            return _table(tokens)
        case _:
            return Rule()


def _items(tokens: Iterator[Token]) -> tuple[tuple[Block, ...], ...]:
    found: list[tuple[Block, ...]] = []
    for token in tokens:
        if token.nesting < 0:
            break
        found.append(_blocks(tokens))
    return tuple(found)


def _table(tokens: Iterator[Token]) -> Table:
    """Return the table up to its closing token. Its first row is the head."""
    rows: list[list[Cell]] = []
    aligns: list[Align] = []
    for token in tokens:
        if token.type == "table_close":
            break
        if token.type == "tr_open":
            rows.append([])
        elif token.type in ("th_open", "td_open"):
            if token.type == "th_open":
                aligns.append(_ALIGNS.get(str(token.attrs.get("style", "")), "left"))
            rows[-1].append(_content(tokens))
    head, *body = map(tuple, rows)
    return Table(head, tuple(body), tuple(aligns))


_ALIGNS: dict[str, Align] = {"text-align:center": "center", "text-align:right": "right"}


def _content(tokens: Iterator[Token]) -> tuple[Span, ...]:
    """Return the spans of the paragraph, heading or table cell whose opening token was read last, and skip its closing
    token."""
    inline = next(tokens)
    next(tokens)
    return _flat(inline)


def _parse_paragraph(paragraph: str) -> tuple[Span, ...]:
    (inline,) = _parser().parseInline(paragraph.rstrip(" \t\n"))
    return _flat(inline)


def _flat(inline: Token) -> tuple[Span, ...]:
    return tuple(_joined(_spans(inline.children or ())))


def _spans(children: Iterable[Token]) -> Iterator[Span]:
    emphasis = strong = 0
    link: Link | None = None
    address = ""
    for child in children:
        match child.type:
            case "text" | "softbreak" | "code_inline" | "image":
                yield Run(_shown(child), child.type == "code_inline", emphasis > 0, strong > 0, link)
            case "em_open" | "em_close":
                emphasis += child.nesting
            case "strong_open" | "strong_close":
                strong += child.nesting
            case "link_open":
                link, address = _link(child)
            case "link_close":
                yield Run(address)
                link = None
            case "hardbreak":
                yield Break()


def _link(opening: Token) -> tuple[Link | None, str]:
    """Return the link. If its URL is not safe, return None, and the words to be written after the link's text."""
    url, title = str(opening.attrs["href"]), str(opening.attrs.get("title", ""))
    if safe_url(url) is not None:
        return Link(url, visible(title)), ""
    return None, _in_parentheses(url, title)


def _shown(token: Token) -> str:
    if token.type == "softbreak":
        return "\n"
    if token.type != "image":
        return visible(token.content)
    alt = "".join(span.text if isinstance(span, Run) else " " for span in _spans(token.children or ()))
    return f"[image: {alt}{_in_parentheses(str(token.attrs['src']), str(token.attrs.get('title', '')))}]"


def _in_parentheses(*words: str) -> str:
    """Return an address and a title in parentheses, for an image or link that is not shown as such."""
    joined = " ".join(visible(word) for word in words if word)
    return f" ({joined})" if joined else ""


def _joined(spans: Iterable[Span]) -> Iterator[Span]:
    """Join adjacent runs of one style, and drop empty ones."""
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

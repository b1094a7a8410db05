"""A card's texts: from CommonMark to blocks of styled spans, which is what both emitters get. The only parser there is.

They are plain data without the markup of any output; an emitter escapes each string for the place it puts it in:

    Block = Paragraph | Heading | CodeBlock | Quote | Bullets | Rule     quotes and lists hold blocks, at most 40 deep
    Span  = Run | Break                                                  flat: styles are flags, a link is a member

Those that have anything in them are tuples: a big card has thousands of each, and they are made in a third of the time
that a frozen dataclass takes.

HTML in a text is text like any other. Nothing is dropped: a text nested deeper than that is one ``CodeBlock`` of its
source, a character that cannot be seen is a visible mark (``escape.visible``), and what a sheet cannot do (an image, as
it has no files beside it; a link to an address that is not safe) is said in words, the same in every output.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from cardapp.layout.escape import safe_url, visible

_DEEPEST = 42
"""Levels of the parser, of which a list takes two (list and item), a quote one, a paragraph and its content two."""


class Link(NamedTuple):
    """``url`` is one that ``escape.safe_url`` lets through: of the web, a mail address, or ``#`` and a key of the card,
    which an emitter links to if the card has it. ``title`` is plain text, "" for none."""

    url: str
    title: str


class Run(NamedTuple):
    """Characters of one style; ``code`` may be emphasised too. Neighbours with an equal link are one link."""

    text: str
    code: bool = False
    emphasis: bool = False
    strong: bool = False
    link: Link | None = None


@dataclass(frozen=True, slots=True)
class Break:
    """A line break that the author asked for."""


Span = Run | Break


class Paragraph(NamedTuple):
    """``tight``: an item's own line, without the space between paragraphs."""

    spans: tuple[Span, ...]
    tight: bool = False


class Heading(NamedTuple):
    """``level`` 1 to 6 is the author's; in the document it ranks below every heading of the card itself."""

    level: int
    spans: tuple[Span, ...]


class CodeBlock(NamedTuple):
    """Lines, the last without its line break. ``info`` stands behind the fence, mostly a language; "" for none."""

    text: str
    info: str = ""


class Quote(NamedTuple):
    blocks: tuple[Block, ...]


class Bullets(NamedTuple):
    """A list. ``start`` is its first number, None where the items have no numbers."""

    items: tuple[tuple[Block, ...], ...]
    start: int | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A line across the column."""


Block = Paragraph | Heading | CodeBlock | Quote | Bullets | Rule


_WORDS = r"[A-Za-z0-9 ,.;:'\"()/?%+=@-]"
"""A character that CommonMark gives no meaning within a line."""
_SIMPLE = re.compile(
    rf"(?=[A-Za-z`*])(?:{_WORDS}"
    r"|`[!-_a-~](?:[ -_a-~]*[!-_a-~])?`(?!`)"
    rf"|(?<![\w*`])\*\*[A-Za-z0-9](?:{_WORDS}*[A-Za-z0-9])?\*\*(?![\w*`])"
    r")*(?<! )",
    re.ASCII,
)
"""One line of these, of code, and of strong words that stand apart: what most texts and questions are. The parser takes
a quarter of a big card's time."""
_PIECES = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|([^`*]+)")
_LINE = r"[^\W\d_][^\n]*(?<![^\S \t])"
_PARAGRAPHS = re.compile(rf"{_LINE}(?:\n{{1,2}}{_LINE})*\n?")
"""Where each line begins with a letter there are only paragraphs: the parser need not ask what else they may be. A line
that ends in a blank of another kind is left to it, since it takes that away."""


def parse(markdown: str) -> tuple[Block, ...]:
    """The blocks of a text. Every text is CommonMark, so there are no errors."""
    if _SIMPLE.fullmatch(markdown):
        return (Paragraph(tuple([_run(*piece) for piece in _PIECES.findall(markdown)])),)
    # Before the parser, which strips all kinds of blanks where CommonMark strips two.
    source = visible(markdown.replace("\r\n", "\n").replace("\r", "\n"))
    if _PARAGRAPHS.fullmatch(source):
        return tuple(Paragraph(_read(paragraph)) for paragraph in source.split("\n\n"))
    tokens = _parser().parse(source)
    if any(token.level >= _DEEPEST - 2 for token in tokens):  # the parser leaves out what is nested too deep
        return (CodeBlock(source),)
    return _blocks(iter(tokens))


def _run(code: str, strong: str, words: str) -> Run:
    return Run(code or strong or words, code=bool(code), strong=bool(strong))


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
    return _flat(inline)


def _read(paragraph: str) -> tuple[Span, ...]:
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
    """The link, or the words that stand behind its text instead."""
    url, title = str(opening.attrs["href"]), str(opening.attrs.get("title", ""))
    if safe_url(url) is not None:
        return Link(url, visible(title)), ""
    return None, _behind(url, title)


def _shown(token: Token) -> str:
    if token.type == "softbreak":
        return "\n"
    if token.type != "image":
        return visible(token.content)
    alt = "".join(span.text if isinstance(span, Run) else " " for span in _spans(token.children or ()))
    return f"[image: {alt}{_behind(str(token.attrs['src']), str(token.attrs.get('title', '')))}]"


def _behind(*words: str) -> str:
    """An address and a title that are no link, in parentheses behind what they belong to."""
    said = " ".join(visible(word) for word in words if word)
    return f" ({said})" if said else ""


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

"""Parses a card's texts from CommonMark to blocks of styled spans, for all emitters.

The result is plain data without markup; an emitter escapes each string for its context:

    Block = Paragraph | Heading | CodeBlock | Quote | Bullets | Rule     quotes and lists hold blocks, at most 40 deep
    Span  = Run | Break                                                  flat: styles are flags, a link is a member

Blocks and spans with content are named tuples: a big card has thousands of them, and a tuple is created in a third of
the time of a frozen dataclass.

HTML in a text is treated as plain text. No content is lost: a text that is nested deeper is one ``CodeBlock`` of its
source, an invisible character becomes a visible mark (``escape.visible``), and an image or a link to an unsafe address
is written as words, because a sheet cannot have them."""

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
"""Nesting levels of the parser: a list takes two (list and item), a quote one, a paragraph and its content two."""


class Link(NamedTuple):
    """``url`` is accepted by ``escape.safe_url``; an emitter links ``#`` and a key only if the card has the key.
    ``title`` is plain text, "" for none."""

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
    """``tight``: in a tight list, whose items have no space between paragraphs."""

    spans: tuple[Span, ...]
    tight: bool = False


class Heading(NamedTuple):
    """``level`` (1 to 6) is the author's; in the document the heading ranks below all headings of the card itself."""

    level: int
    spans: tuple[Span, ...]


class CodeBlock(NamedTuple):
    """Lines without the final line break. ``info`` is the info string of the fence, mostly a language; "" for none."""

    text: str
    info: str = ""


class Quote(NamedTuple):
    blocks: tuple[Block, ...]


class Bullets(NamedTuple):
    """A list. ``start`` is the first number, None for a bullet list."""

    items: tuple[tuple[Block, ...], ...]
    start: int | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A line across the column."""


Block = Paragraph | Heading | CodeBlock | Quote | Bullets | Rule


_WORDS = r"[A-Za-z0-9 ,.;:'\"()/?%+=@-]"
"""A character without a meaning in CommonMark within a line."""
_SIMPLE = re.compile(
    rf"(?=[A-Za-z`*])(?:{_WORDS}"
    r"|`[!-_a-~](?:[ -_a-~]*[!-_a-~])?`(?!`)"
    rf"|(?<![\w*`])\*\*[A-Za-z0-9](?:{_WORDS}*[A-Za-z0-9])?\*\*(?![\w*`])"
    r")*(?<! )",
    re.ASCII,
)
"""A line of such characters, code and separate strong words, as most texts are. It is parsed without the parser, which
would take a quarter of a big card's time."""
_SIMPLE_RUNS = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|([^`*]+)")
_LINE = r"[^\W\d_][^\n]*(?<![^\S \t])"
_PARAGRAPHS = re.compile(rf"{_LINE}(?:\n{{1,2}}{_LINE})*\n?")
"""If each line begins with a letter, there are only paragraphs, and the parser need not check for other blocks. A line
that ends with another kind of blank is left to the parser, which removes the blank."""


def parse(markdown: str) -> tuple[Block, ...]:
    """The blocks of a text. Any text is valid CommonMark, so there are no errors."""
    if _SIMPLE.fullmatch(markdown):
        return (Paragraph(tuple([_run(*run) for run in _SIMPLE_RUNS.findall(markdown)])),)
    # Before parsing, because the parser strips all kinds of blanks, while CommonMark strips only two.
    source = visible(markdown.replace("\r\n", "\n").replace("\r", "\n"))
    if _PARAGRAPHS.fullmatch(source):
        return tuple(Paragraph(_read(paragraph)) for paragraph in source.split("\n\n"))
    tokens = _parser().parse(source)
    if any(token.level >= _DEEPEST - 2 for token in tokens):  # the parser omits content that is nested too deeply
        return (CodeBlock(source),)
    return _blocks(iter(tokens))


def _run(code: str, strong: str, words: str) -> Run:
    return Run(code or strong or words, code=bool(code), strong=bool(strong))


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST})
    # Else the parser would leave a link with another scheme as plain Markdown source.
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    return parser


def _blocks(tokens: Iterator[Token]) -> tuple[Block, ...]:
    """The blocks up to the end of the current quote, list item or text."""
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
    """The spans of the paragraph or heading whose opening token was the last one; consumes its closing token."""
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
    """The link, or else the words that follow its text instead."""
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
    """An address and a title that are not linked, in parentheses."""
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

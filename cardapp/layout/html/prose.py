"""A card's text as HTML: from the blocks and spans of ``text.parse`` to elements, each string escaped on its way."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from itertools import groupby

from cardapp.layout.escape import html
from cardapp.layout.metrics import INDENTED_LEVELS
from cardapp.layout.text import Block, Break, Bullets, CodeBlock, Heading, Link, Paragraph, Quote, Span

_DEEPEST_HEADING = 6


def prose(blocks: Iterable[Block], rank: int, keys: Container[str]) -> str:
    """The blocks of a text below a heading of ``rank`` (1 to 6); ``keys`` are the positions that a link may lead to.

    Headings of a text all have the next rank, whatever the author wrote: none is skipped, none stands above the card's.
    """
    return "".join(_block(block, min(rank + 1, _DEEPEST_HEADING), keys) for block in blocks)


def _block(block: Block, rank: int, keys: Container[str], level: int = 0) -> str:
    deep = " class=deep" if level >= INDENTED_LEVELS else ""
    match block:
        case Paragraph(spans=spans, tight=tight):
            return f'<p dir="auto"{" class=tight" if tight else ""}>{_spans(spans, keys)}</p>\n'
        case Heading(level=level, spans=spans):
            return f'<h{rank} dir="auto" class="inner" data-level="{level}">{_spans(spans, keys)}</h{rank}>\n'
        case CodeBlock(text=text, info=info):
            language = f' data-language="{html(info)}"' if info else ""
            return f'<pre dir="ltr"{deep}{language}><code>{html(text)}</code></pre>\n'
        case Quote(blocks=blocks):
            inner = "".join(_block(each, rank, keys, level + 1) for each in blocks)
            return f"<blockquote{deep}>{inner}</blockquote>\n"
        case Bullets():
            return _list(block, rank, keys, level)
        case _:
            return "<hr>\n"


def _list(bullets: Bullets, rank: int, keys: Container[str], level: int) -> str:
    name, attributes = "ul", ""
    if bullets.start is not None:
        digits = len(str(bullets.start + len(bullets.items)))
        name, attributes = "ol", f' start="{bullets.start}" style="--digits:{digits}"'
    deep = " class=deep" if level >= INDENTED_LEVELS else ""
    items = "".join(
        f"<li>{''.join(_block(block, rank, keys, level + 1) for block in item)}</li>\n" for item in bullets.items
    )
    return f"<{name}{deep}{attributes}>\n{items}</{name}>\n"


def _spans(spans: Iterable[Span], keys: Container[str]) -> str:
    pieces = []
    for link, group in groupby(spans, lambda span: None if isinstance(span, Break) else span.link):
        inner = "".join(_styled(group))
        pieces.append(inner if link is None else _linked(link, inner, keys))
    return "".join(pieces)


def _styled(spans: Iterable[Span]) -> Iterator[str]:
    for span in spans:
        if isinstance(span, Break):
            yield "<br>"
            continue
        text = html(span.text)
        if span.code:
            text = f"<code>{text}</code>"
        if span.emphasis:
            text = f"<em>{text}</em>"
        yield f"<strong>{text}</strong>" if span.strong else text


def _linked(link: Link, inner: str, keys: Container[str]) -> str:
    title = f' title="{html(link.title)}"' if link.title else ""
    if link.url.startswith("#") and link.url[1:] not in keys:
        return f"<span{title}>{inner}</span>"
    return f'<a href="{html(link.url)}"{title}>{inner}</a>'

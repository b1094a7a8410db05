"""Reads an HTML file strictly: each element is closed in its place, each attribute occurs once, each name is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "col", "img"}
SVG = {"svg", "title", "desc", "g", "rect", "circle", "polygon", "path", "text", "a"}


@dataclass
class Element:
    """An element with its attributes and its content in order."""

    name: str
    attributes: dict[str, str]
    inner: list[Element | str] = field(default_factory=list)

    @property
    def classes(self) -> set[str]:
        return set(self.attributes.get("class", "").split())

    @property
    def text(self) -> str:
        """All characters in the element in order, including those of drawings."""
        return "".join(piece if isinstance(piece, str) else piece.text for piece in self.inner)

    def all(self, name: str = "", within: str = "") -> Iterator[Element]:
        """The descendant elements with the name ``name`` and the class ``within``, in order."""
        for piece in self.inner:
            if isinstance(piece, Element):
                if (not name or piece.name == name) and (not within or within in piece.classes):
                    yield piece
                yield from piece.all(name, within)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].inner.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in SVG, f"<{tag}/> closes itself outside of a drawing"
        self.handle_starttag(tag, attrs)
        self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        last = self._open.pop()
        assert last.name == tag, f"</{tag}> closes <{last.name}>"

    def handle_data(self, data: str) -> None:
        self._open[-1].inner.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"a processing instruction: {data}")

    def finished(self) -> Element:
        self.close()
        assert len(self._open) == 1, f"<{self._open[-1].name}> is never closed"
        return self.root


def read(source: str) -> Element:
    """Parse the document. An ``AssertionError`` says where it is not well formed."""
    reader = _Reader()
    reader.feed(source)
    return reader.finished()

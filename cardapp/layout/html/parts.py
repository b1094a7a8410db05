"""Renders the parts of a sheet as HTML elements in their frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from cardapp.card.model import LEVELS, Level
from cardapp.layout.annotations import Drawn, pens
from cardapp.layout.diagram import svg
from cardapp.layout.diagram.shapes import Diagram
from cardapp.layout.escape import html, percent_encoded
from cardapp.layout.font_metrics import longer_than_a_line
from cardapp.layout.html.annotation_layer import layer
from cardapp.layout.html.text_blocks import TextWriter, code_pieces, words
from cardapp.layout.layout_model import Layout
from cardapp.layout.layout_options import COMPONENTS
from cardapp.layout.measure import TICK_BOX, Measure
from cardapp.layout.part_names import Piece
from cardapp.layout.sheets import (
    CONTINUED,
    TABLE_SHARE,
    Code,
    CodeLine,
    Fields,
    Machine,
    Note,
    Notes,
    Part,
    Question,
    RichText,
    Title,
)


class Parts:
    """Renders the parts of one document. ``titles`` maps each position to its title. ``language`` is the card's
    language. If ``keyed`` is true, each part has ``data-key``, ``data-kind`` and ``data-part``, its name. If it is
    split or has wrapped lines, it also has ``data-shares`` and ``data-heights``, the fields of :class:`Piece`.
    ``annotations`` are drawn over the parts with these names."""

    def __init__(
        self,
        layout: Layout,
        titles: Mapping[str, str],
        language: str,
        annotations: Mapping[str, Sequence[Drawn]],
        *,
        keyed: bool = False,
    ) -> None:
        self._layout = layout
        self._annotations = annotations
        self._pens = pens(layout.colors)
        self._keyed = keyed
        self._measure = Measure(layout)
        self._titles = titles
        self._ranks = _ranks(layout)
        is_english = language.partition("-")[0].lower() == "en"
        self._english = "" if is_english else ' lang="en"'
        """The attribute of English words that are not from the card."""

    def draw(self, part: Part, piece: Piece, anchor: str, further: Iterable[str]) -> str:
        """Render the part in its frame. ``anchor`` is the position of which this part is the anchor, or "". ``further``
        are positions without a part, of which this part is the anchor too."""
        name, inner, attributes = self._element(part)
        marks = "".join(f'<span class="anchor" id="{html(key)}"></span>' for key in further)
        identity = f' id="{html(anchor)}"' if anchor else ""
        if self._keyed:
            identity += f' data-key="{html(part.key)}" data-kind="{part.kind}" data-part="{html(piece.name)}"'
            identity += _share(piece)
        more = (" continued" if part.continued else "") + (" continues" if part.continues else "")
        if drawn := [found for each in self._annotations.get(piece.name, ()) if (found := piece.shown(each))]:
            inner += layer(piece, drawn, self._pens)
        return (
            f'<{name} class="part {part.kind}{more}"{identity}{attributes} style="{_place(part)}">'
            f"{marks}{inner}</{name}>\n"
        )

    def rank(self, level: Level) -> int:
        """Return the rank (1 to 6) of a level's heading. It is 1 for the card; levels without titles are not
        counted."""
        return self._ranks[level]

    def _element(self, part: Part) -> tuple[str, str, str]:
        """Return the element's name, its content, and further attributes."""
        content = part.content
        match content:
            case Fields():
                english = self._layout.components[part.kind].label == COMPONENTS[part.kind].label
                names = "".join(f'<span class="field"><span>{html(name)}</span></span>' for name in content.names)
                return "p", names, self._english if english else ""
            case Title():
                return f"h{self.rank(content.level)}", self._title(part, content), ' dir="auto"'
            case RichText():
                attributes = self._english if part.kind == "colophon" else ""
                return "div", self._captioned("p", part, self._rich_text(part, content)), attributes
            case Question():
                lines = '<div class="answer"></div>' * content.answer_lines
                return "div", self._captioned("p", part, self._rich_text(part, content) + lines), ""
            case Code():
                return "figure", self._captioned("figcaption", part, self._code(content)), ""
            case Diagram():
                return "figure", self._captioned("figcaption", part, svg.render(content)), ""
            case Machine():
                return "figure", self._captioned("figcaption", part, self._machine(content)), ""
            case Notes():
                return "aside", self._captioned("p", part, "".join(map(self._note, content.entries))), ""

    def _captioned(self, element: str, part: Part, inner: str) -> str:
        room = self._measure.width(part.kind)
        caption = self._caption(part, room)
        mark = f'<p class="mark"{self._english}>{self._words(part.mark, room, "label")}</p>\n' if part.mark else ""
        return (f'<{element} class="caption">{caption}</{element}>\n' if caption else "") + inner + mark

    def _caption(self, part: Part, room: float) -> str:
        if not self._english:
            return self._words(part.caption, room, "label")
        label, end = self._layout.components[part.kind].label, CONTINUED if part.continued else ""
        subject = part.caption.removeprefix(label).removesuffix(end)
        # A label that the layout file sets is in the card's language. The default labels are English.
        phrases = (
            (label, label == COMPONENTS[part.kind].label),
            (subject, isinstance(part.content, Code)),
            (end, True),
        )
        return "".join(self._phrase(plain, room, english=english) for plain, english in phrases if plain)

    def _phrase(self, plain: str, room: float, *, english: bool) -> str:
        written = self._words(plain, room, "label")
        return f"<span{self._english}>{written}</span>" if english else written

    def _words(self, plain: str, room: float, size: str) -> str:
        """Render plain text for lines of ``room`` mm."""
        return words(plain, longer_than_a_line(plain, room, self._measure.em(size)))

    def _title(self, part: Part, title: Title) -> str:
        component = self._layout.components[part.kind]
        number = f'<span class="number">{title.number}</span> ' if title.number else ""
        tick = TICK_BOX * self._measure.em(component.size) if component.tick_box else 0.0
        box = '<span class="tick" aria-hidden="true"></span>' if tick else ""
        text = self._words(title.text, self._measure.width(part.kind) - tick, component.size)
        return f"{number}<span>{text}</span>{box}"

    def _rich_text(self, part: Part, content: RichText | Question) -> str:
        level = LEVELS[part.key.count("/") + 1 if part.key else 0]
        return TextWriter(self.rank(level), self._titles).blocks(content.blocks, self._measure.setting(part.kind))

    def _machine(self, machine: Machine) -> str:
        blank = f'<code class="blank" aria-label="to be filled in"{self._english}>&nbsp;</code>'
        rows = "".join(
            f'<tr><th scope="row">{_segments(row.expression)}</th><td>{_segments(row.value) or blank}</td></tr>\n'
            for row in machine.rows
        )
        head = f'<tr{self._english}><th scope="col">Expression</th><th scope="col">Value</th></tr>'
        columns = "<colgroup><col><col></colgroup>"
        style = "" if machine.share == TABLE_SHARE else f' style="--expressions:{machine.share:g}"'
        return f'<table dir="ltr"{style}>{columns}<thead class="unseen">{head}</thead>\n<tbody>{rows}</tbody></table>\n'

    def _note(self, note: Note) -> str:
        size = self._layout.components["notes"].size
        text = (
            f"<p{self._english}>{self._words(note.text, self._measure.width('notes'), size)}</p>" if note.text else ""
        )
        code = f'<p dir="ltr">{_segments(note.code)}</p>' if note.code else ""
        return f'<div class="note">{text}{code}</div>\n'

    def _code(self, code: Code) -> str:
        notice = f'<p class="notice"{self._english}>{html(code.notice)}</p>\n' if code.notice else ""
        if not code.lines:
            return notice
        numbers = " numbered" if self._layout.components["code"].line_numbers else ""
        lines = "".join(self._line(line) for line in code.lines)
        attributes = f'class="source{numbers}" dir="ltr" style="--gutter:{code.gutter}"'
        return f"<pre {attributes}><code>{lines}</code></pre>\n{notice}"

    def _line(self, line: CodeLine) -> str:
        stops = "".join(
            f'<a class="stop" href="#{html(percent_encoded(key))}" title="{title}" aria-label="{title}">▶</a>'
            for key, title in ((key, html(self._titles[key])) for key in line.stops)
        )
        text = '</span><span class="segment">'.join(map(code_pieces, line.segments)) + "\n"
        state = " at" if line.stops else ""
        return (
            f'<span class="line{state}" data-number="{line.number}">{stops}<span class="segment">{text}</span></span>'
        )


def _ranks(layout: Layout) -> dict[Level, int]:
    found: dict[Level, int] = {"card": 1}
    rank = 1
    for level in LEVELS[1:]:
        rank += f"{level}_title" in layout.components
        found[level] = rank
    return found


def _place(part: Part) -> str:
    frame = part.frame
    place = f"--x:{frame.x:.2f};--y:{frame.y:.2f};--w:{frame.width:.2f};--h:{frame.height:.2f}"
    return f"{place};--dw:{part.content.width:.2f}" if isinstance(part.content, Diagram) else place


def _share(piece: Piece) -> str:
    """The attributes of a piece that shows only a range of the whole part, or shows the part with uneven heights."""
    if piece.is_even:
        return ""
    shares, heights = (" ".join(f"{each:g}" for each in found) for found in (piece.shares, piece.heights))
    return f' data-shares="{shares}" data-heights="{heights}"'


def _segments(segments: Iterable[str]) -> str:
    return "".join(f"<code>{html(segment)}</code>" for segment in segments)

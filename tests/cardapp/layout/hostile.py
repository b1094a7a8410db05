"""Cards for the emitters' tests: the shipped ones, and invented ones in which every text is hostile."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from cardapp.card import model
from cardapp.card.source import LoadedCard, load_card
from cardapp.layout.text import Block, Bullets, CodeBlock, Heading, Paragraph, Quote, Run, Table, parse

ROOT = Path(__file__).resolve().parents[3]
SHIPPED = ("arena", "calc")
IDENTITY = model.Identity("hostile", "00000000-0000-4000-8000-000000000000", "1.0.0", "0" * 64)
FILE = "main.c"


def shipped(name: str) -> LoadedCard:
    return load_card(ROOT / "etc" / "cards" / name)


SNIPPETS = (
    "<script>alert(1)</script>", "</style><script>x</script>", '" onload="alert(1)', "' onclick='x", "<!-- ", "-->",
    "<![CDATA[", "]]>", "<?php ?>", "&lt;b&gt;", "&amp;", "&#x3c;", "[a](javascript:alert(1))", "<javascript:x>",
    "[b](data:text/html,x)", '[c](https://a.b/"x "t")', "![d](e.png)", "[f](#bump)", "<https://a.b>", "</pre></code>",
    "```\n</code>\n```\n", "    code\n", "> > > quote\n", "- item\n  1. item\n", "# heading\n", "***\n", "**a *b* c**",
    "| a | <b> |\n|--:|---|\n| `x\\|y` | \\end{document} % |\n", "a | b\n-|-\n\u202e|\x07|more\n",
    "`a`", "\\input{/etc/passwd}", "\\end{document}", "%", "$x$", "#1", "_^~", "{", "}", "\u05e9\u05dc\u05d5\u05dd",
    "\u0645\u0631\u062d\u0628\u0627", "\u202eabc\u202c", "\u2066x", "👩‍👩‍👧‍👦", "🏴‍☠️", "e\u0301", "日本語のテキスト",
    "\x00", "\x07\x1b[31m", "\x85", "\u2028", "\ufeff", "\ud800", "\U0010ffff", "\u200b", "a" * 300, "word " * 60,
    "url(x)", "--x:1;}", "}*{color:red",
)  # fmt: skip
_PIECES = st.one_of(st.sampled_from(SNIPPETS), st.text(st.characters(codec=None), max_size=12))
TEXTS = st.lists(_PIECES, min_size=1, max_size=6).map("".join)
LINES = TEXTS.map(lambda text: text.replace("\n", " "))


@st.composite
def hostile_cards(draw: st.DrawFn) -> tuple[model.Card, dict[str, list[str]]]:
    """A card with all texts hostile, and the lines of its source file; ids are as the schema wants them."""
    source = draw(st.lists(LINES, min_size=3, max_size=6))
    snapshot = model.Snapshot(
        id="x1",
        title=draw(LINES),
        stop=model.Stop(FILE, 2, draw(LINES), None, draw(st.integers(1, 3))),
        expect=tuple(
            model.Expectation(*each)
            for each in (draw(st.dictionaries(LINES, LINES, max_size=3)) | {"a.used": "8"}).items()
        ),
        watch=tuple(draw(st.lists(LINES, max_size=2))),
        explanation=draw(TEXTS),
    )
    step = model.Step("s1", draw(LINES), draw(TEXTS), draw(TEXTS), model.CodeRange(FILE, 1, len(source)), (snapshot,))
    phase = model.Phase("p1", draw(LINES), draw(TEXTS), (step,))
    block = model.Block("b1", draw(LINES), draw(TEXTS), draw(TEXTS), (phase,))
    task = model.Task("t1", draw(LINES), draw(TEXTS), (block,))
    recipe = model.AllocatorRecipe(
        "a.base", "a.size", "a.used", None, model.BlockRecipe("a.n", "a.o[$i]", "a.s[$i]", None)
    )
    target = model.Target("t", "src", ("make",), "t", (FILE,))
    title, text = draw(LINES), draw(TEXTS)
    card = model.Card("hostile", IDENTITY.uuid, "1.0.0", title, text, "en", "karta-classic", target, recipe, (task,))
    return card, {FILE: source}


def squeezed(text: str) -> str:
    return "".join(text.split())


def plain(markdown: str) -> str:
    return squeezed(text_of(parse(markdown)))


def text_of(blocks: tuple[Block, ...]) -> str:
    """All characters of the blocks of a text, in their order."""
    found = []
    for block in blocks:
        match block:
            case Paragraph(spans=inner) | Heading(spans=inner):
                found += [span.text for span in inner if isinstance(span, Run)]
            case CodeBlock(text=text):
                found.append(text)
            case Quote(blocks=blocks_inside):
                found.append(text_of(blocks_inside))
            case Bullets(items=items):
                found += [text_of(item) for item in items]
            case Table(head=head, rows=rows):
                cells = (cell for row in (head, *rows) for cell in row)
                found += [span.text for cell in cells for span in cell if isinstance(span, Run)]
    return "".join(found)

"""The real lualatex on hostile cards: their texts are shown literally, stay in their parts, and read, write and run
nothing."""

from __future__ import annotations

import re
import subprocess
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import Phase as Work

from cardapp.card.model import Card, Expectation
from cardapp.errors import CardAppError, TypesettingFailed
from cardapp.layout.compose import compose
from cardapp.layout.latex.document import render
from cardapp.layout.sheets import Document
from cardapp.publish import layouts
from cardapp.publish.lualatex import TypesetPdf, typeset
from tests.cardapp.layout.hostile import FILE, IDENTITY, SNIPPETS, hostile_cards, shipped

pytestmark = pytest.mark.functional

LAYOUTS = layouts.known_ids()


STEP = "bump/anatomy/empty/fields"
TITLE = "\\input{/etc/passwd} 100 % of $x_1^2$ & #1~ שלום مرحبا 👩‍👩‍👧 \x07\u202e\ud800"


def small(
    texts: str = "Text.", title: str = "Title", value: str = "1", source: tuple[str, ...] = ("int a;",)
) -> tuple[Card, dict[str, list[str]]]:
    """The arena card's first step and its parents, with these texts, titles, values and lines."""
    card = shipped("arena").card
    task = card.tasks[0]
    block = task.blocks[0]
    phase = block.phases[0]
    step = phase.steps[0]
    assert step.code is not None
    stop = replace(step.snapshots[0].stop, file=FILE, line=1, text=value)
    snapshot = replace(step.snapshots[0], title=title, stop=stop, expect=(Expectation(value, value),), watch=(value,))
    code = replace(step.code, file=FILE, first=1, last=len(source))
    step = replace(step, title=title, text=texts, question=texts, code=code, snapshots=(snapshot,))
    phase = replace(phase, title=title, text=texts, steps=(step,))
    block = replace(block, title=title, goal=texts, text=texts, phases=(phase,))
    task = replace(task, title=title, text=texts, blocks=(block,))
    return replace(card, title=title, text=texts, tasks=(task,)), {FILE: list(source)}


def set_(card: Card, sources: dict[str, list[str]], layout: str, cache: Path) -> tuple[Document, TypesetPdf]:
    document = compose(card, IDENTITY, layouts.find(layout).arranged("latex"), sources)
    return document, typeset(render(document), cache)


def assert_sound(document: Document, typeset_pdf: TypesetPdf, folder: Path) -> str:
    """Check that every sheet is one page, that nothing is too wide or too high, and that characters without a glyph are
    listed. Returns the PDF's text."""
    wide = re.findall(r"^Overfull \\hbox \(([0-9.]+)pt.*", typeset_pdf.log, re.MULTILINE)
    assert [size for size in wide if float(size) > 2] == []
    lost = {int(code, 16) for code in re.findall(r"^Missing character: .*\(U\+([0-9A-F]+)\)", typeset_pdf.log, re.M)}
    assert {code for code in lost if unicodedata.category(chr(code)) != "Cf"} <= set(map(ord, typeset_pdf.named))
    # The colophon lists the characters without a glyph. They are known only after typesetting, so it may have been
    # scaled down.
    assert [remark for remark in typeset_pdf.remarks if not re.match("colophon .* was scaled down", remark)] == []
    (folder / "card.pdf").write_bytes(typeset_pdf.pdf)
    text = subprocess.run(
        ["pdftotext", "-raw", folder / "card.pdf", "-"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert text.count("\f") == len(document.sheets)
    assert "root:x:0" not in text
    return text


@pytest.mark.full
def test_all_hostile_texts_are_set_as_text(latex_cache: Path, tmp_path: Path) -> None:
    lines = tuple(trick for trick in SNIPPETS if "\n" not in trick)
    made_up = small("\n\n".join(SNIPPETS), TITLE, " ".join(lines), lines)
    document, typeset_pdf = set_(*made_up, "karta-5b", latex_cache)
    text = "".join(assert_sound(document, typeset_pdf, tmp_path).split())
    for trick in (r"\input{/etc/passwd}", r"\end{document}", "<script>alert(1)</script>", "$x$", "100%of$x_1^2$&#1~"):
        assert trick in text, trick


def test_every_blank_of_a_value_is_there(latex_cache: Path, tmp_path: Path) -> None:
    _, typeset_pdf = set_(*small(value='"  12+345 *6"'), "karta-classic", latex_cache)
    (tmp_path / "card.pdf").write_bytes(typeset_pdf.pdf)
    boxes = subprocess.run(
        ["pdftotext", "-bbox", tmp_path / "card.pdf", "-"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    words = re.findall(
        r'xMin="([0-9.]+)" yMin="([0-9.]+)" xMax="([0-9.]+)" .*>(&quot;|12\+345|\*6&quot;)</word>', boxes
    )
    found = [words[at : at + 3] for at in range(0, len(words), 3)]
    assert len(found) >= 2  # an expression and its value
    for quote, number, rest in found:
        (start, row, end, _), cell = quote, float(quote[2]) - float(quote[0])
        assert {row} == {number[1], rest[1]}
        assert float(number[0]) - float(end) == pytest.approx(2 * cell, abs=0.2)
        assert float(rest[0]) - float(start) == pytest.approx(10 * cell, abs=0.2)


@pytest.mark.full
def test_lines_of_ten_thousand_characters_are_set_whole(latex_cache: Path, tmp_path: Path) -> None:
    word, sentence = "".join(chr(97 + at % 26) for at in range(10_000)), "all work and no play " * 500
    made_up = small(f"{word}\n\n{sentence}", source=(word, "%" * 10_000))
    document, typeset_pdf = set_(*made_up, "karta-classic", latex_cache)
    text = "".join(assert_sound(document, typeset_pdf, tmp_path).split())
    assert text.count("%") == 10_000
    assert text.count("allworkandnoplay") >= 500


@pytest.mark.full
def test_any_card_is_set_within_its_sheets(latex_cache: Path, tmp_path: Path, loops: Callable[..., int]) -> None:
    taken = iter(LAYOUTS * 1000)

    @settings(
        max_examples=loops(quick=1, full=60),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Work.explicit, Work.reuse, Work.generate),
    )
    @given(hostile_cards())
    def check(made_up: tuple[Card, dict[str, list[str]]]) -> None:
        assert_sound(*set_(*made_up, next(taken), latex_cache), tmp_path)

    check()


@pytest.mark.full
def test_the_same_sheets_give_the_same_bytes(latex_cache: Path) -> None:
    assert set_(*small(), "karta-5a", latex_cache)[1].pdf == set_(*small(), "karta-5a", latex_cache)[1].pdf


def test_a_missing_font_family_is_reported_and_set_in_noto(
    latex_cache: Path, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    if not pytestconfig.getoption("full"):
        pytest.skip("to look for a font by its name takes half a minute: only with --full")
    card, sources = small()
    layout = layouts.find("karta-5a").arranged("latex")
    typography = replace(layout.typography, families={"text": ("No Such Family",), "code": ("Noto Sans Mono",)})
    document = compose(card, IDENTITY, replace(layout, typography=typography), sources)
    typeset_pdf = typeset(render(document), latex_cache)
    remarks = [remark.partition(";")[0] for remark in typeset_pdf.remarks]
    assert remarks == ["the font family No Such Family is not installed"]
    (tmp_path / "card.pdf").write_bytes(typeset_pdf.pdf)
    command = ["pdffonts", str(tmp_path / "card.pdf")]
    fonts = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()[2:]
    assert fonts
    assert all("+Noto" in font for font in fonts)


# -- what no card can say, said by hand: the walls behind the escapes ----------------------------------------------


@pytest.mark.parametrize(
    "attack",
    [
        r"\input{/etc/passwd}",
        pytest.param(
            r"\openin5=/etc/passwd \ifeof5 \errmessage{closed}\fi \read5 to\line \line", marks=pytest.mark.full
        ),
        pytest.param(r"\immediate\openout5={TARGET}\immediate\write5{x}", marks=pytest.mark.full),
        r"\immediate\write18{touch {TARGET}}\errmessage{closed}",
        r"\directlua{os.execute('touch {TARGET}')}\errmessage{closed}",
        pytest.param(r"\directlua{io.popen('touch {TARGET}')}\errmessage{closed}", marks=pytest.mark.full),
    ],
)
def test_even_a_command_would_reach_nothing(attack: str, latex_cache: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    said = attack.replace("{TARGET}", str(target))
    with pytest.raises(CardAppError):
        typeset(f"\\documentclass{{article}}\\begin{{document}}\nx {said}\n\\end{{document}}", latex_cache)
    assert not target.exists()


@pytest.fixture(scope="module")
def checking_cache(latex_cache: Path) -> Path:
    """The font cache for a LuaTeX that checks the file names passed to Lua's functions."""
    asks = r"\directlua{assert(kpse.in_name_ok_silent_extended)}"
    try:
        typeset(f"\\documentclass{{article}}\\begin{{document}}x {asks}\\end{{document}}", latex_cache)
    except TypesettingFailed:
        pytest.skip("not run: this LuaTeX checks no file name that Lua code opens (1.15 does not, 1.18 does)")
    return latex_cache


@pytest.mark.parametrize(
    "attack",
    [
        "io.open('/etc/passwd')",
        "io.lines('/etc/passwd')",
        "io.open('/usr/share/../../etc/passwd')",
        "io.open('/usr/share/texmf/../../../etc/passwd')",
        "lfs.dir('/root')",
        "io.open('{TARGET}')",
        "io.open('{TARGET}', 'w')",
        "io.open('/usr/share/target', 'w')",
        "lfs.link('/etc/passwd', 'here', true) and io.open('here')",
    ],
)
def test_even_lua_would_read_and_write_nothing(attack: str, checking_cache: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("kept")
    said = rf"\directlua{{assert({attack.replace('{TARGET}', str(target))})}}"
    with pytest.raises(TypesettingFailed):
        typeset(f"\\documentclass{{article}}\\begin{{document}}\nx {said}\n\\end{{document}}", checking_cache)
    assert target.read_text() == "kept"
    assert not Path("/usr/share/target").exists()


@pytest.mark.parametrize(
    ("key", "fault"),
    [
        (STEP, "{"),
        *(pytest.param(STEP, each, marks=pytest.mark.full) for each in "}$"),
        pytest.param("", r"\undefined", marks=pytest.mark.full),
    ],
)
def test_an_error_of_latex_names_the_place_in_the_card(key: str, fault: str, latex_cache: Path) -> None:
    card, sources = small()
    document = compose(card, IDENTITY, layouts.find("karta-classic").arranged("latex"), sources)
    kind = next(part.kind for sheet in document.sheets for part in sheet.parts if part.key == key)
    head, opening, rest = render(document).partition(rf"\begin{{CardPart}}{{{kind} {key}}}")
    tex = head + opening + rest.replace("\n", f"\n{fault}\n", 1)
    with pytest.raises(TypesettingFailed, match=rf"LaTeX failed in {kind} {key} ?\(line \d+\): "):
        typeset(tex, latex_cache)

"""The real lualatex on hostile cards: their texts are shown literally, stay in their parts, and read, write and run
nothing."""

from __future__ import annotations

import re
import subprocess
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cardapp.card import model
from cardapp.card.model import Card
from cardapp.errors import CardAppError, TypesettingFailed
from cardapp.layout.compose import compose
from cardapp.layout.latex.document import render
from cardapp.layout.sheets import Document
from cardapp.publish import layouts
from cardapp.publish.lualatex import TypesetPdf, typeset
from tests.capabilities import need
from tests.cardapp.layout.cards import with_steps
from tests.cardapp.layout.hostile import FILE, IDENTITY, SNIPPETS, hostile_cards

pytestmark = [pytest.mark.functional, pytest.mark.timeout(600)]

TITLE = "\\input{/etc/passwd} 100 % of $x_1^2$ & #1~ שלום مرحبا 👩‍👩‍👧 \x07\u202e\ud800"
MINIMAL = "\\documentclass{{article}}\\begin{{document}}\nx {}\n\\end{{document}}"


def set_(card: Card, sources: dict[str, list[str]], layout: str, cache: Path) -> tuple[Document, TypesetPdf]:
    document = compose(card, IDENTITY, layouts.find(layout).arranged("latex"), sources)
    return document, typeset(render(document), cache)


def assert_sound(document: Document, typeset_pdf: TypesetPdf, folder: Path) -> str:
    """Check that every sheet is one page, that nothing is too wide or too high, and that characters without a glyph are
    listed. Returns the PDF's text without white space."""
    wide = re.findall(r"^Overfull \\hbox \(([0-9.]+)pt.*", typeset_pdf.log, re.MULTILINE)
    assert [size for size in wide if float(size) > 2] == []
    lost = {int(code, 16) for code in re.findall(r"^Missing character: .*\(U\+([0-9A-F]+)\)", typeset_pdf.log, re.M)}
    assert {code for code in lost if unicodedata.category(chr(code)) != "Cf"} <= set(map(ord, typeset_pdf.named))
    # The colophon lists the characters without a glyph. They are known only after typesetting, so it may have been
    # scaled down.
    assert [remark for remark in typeset_pdf.remarks if not re.match("colophon .* was scaled down", remark)] == []
    (folder / "card.pdf").write_bytes(typeset_pdf.pdf)
    command = ["pdftotext", "-raw", folder / "card.pdf", "-"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert text.count("\f") == len(document.sheets)
    assert "root:x:0" not in text
    return "".join(text.split())


def test_hostile_and_very_long_texts_are_set_as_text(latex_cache: Path, tmp_path: Path) -> None:
    lines = tuple(trick for trick in SNIPPETS if "\n" not in trick)
    long = "".join(chr(97 + at % 26) for at in range(10_000)), "all work and no play " * 500
    short = "\n\n".join(SNIPPETS)
    source, text, value = [*lines, long[0], "%" * 10_000], "\n\n".join((short, *long)), " ".join(lines)
    stop = model.Snapshot("x", TITLE, model.Stop(FILE, 1, value, None, 1), (model.Expectation(value, value),), (value,))
    step = model.Step("s", TITLE, text, text, model.CodeRange(FILE, 1, len(source)), (stop,))
    card = replace(with_steps(step, goal=short, text=short, phase_text=short), title=TITLE, text=short)
    shown = assert_sound(*set_(card, {FILE: source}, "karta-5b", latex_cache), tmp_path)
    for trick in (r"\input{/etc/passwd}", r"\end{document}", "<script>alert(1)</script>", "$x$", "100%of$x_1^2$&#1~"):
        assert trick in shown, trick
    assert shown.count("%") >= 10_000
    assert shown.count("allworkandnoplay") >= 500


@settings(suppress_health_check=list(HealthCheck), phases=(Phase.explicit, Phase.generate))
@given(made_up=hostile_cards(), layout=st.sampled_from(layouts.known_ids()))
def test_any_card_is_set_within_its_sheets(
    latex_cache: Path, tmp_path: Path, made_up: tuple[Card, dict[str, list[str]]], layout: str
) -> None:
    document, typeset_pdf = set_(*made_up, layout, latex_cache)
    assert_sound(document, typeset_pdf, tmp_path)
    assert typeset(render(document), latex_cache).pdf == typeset_pdf.pdf, "the same sheets give the same bytes"


# -- what no card can say, said by hand: the walls behind the escapes ----------------------------------------------


def test_even_a_command_would_reach_nothing(latex_cache: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    for attack in (
        r"\input{/etc/passwd}",
        r"\openin5=/etc/passwd \ifeof5 \errmessage{closed}\fi \read5 to\line \line",
        rf"\immediate\openout5={target}\immediate\write5{{x}}",
        rf"\immediate\write18{{touch {target}}}\errmessage{{closed}}",
        rf"\directlua{{os.execute('touch {target}')}}\errmessage{{closed}}",
        rf"\directlua{{io.popen('touch {target}')}}\errmessage{{closed}}",
    ):
        with pytest.raises(CardAppError):
            typeset(MINIMAL.format(attack), latex_cache)
        assert not target.exists(), attack


def test_even_lua_would_read_and_write_nothing(latex_cache: Path, tmp_path: Path) -> None:
    try:
        typeset(MINIMAL.format(r"\directlua{assert(kpse.in_name_ok_silent_extended)}"), latex_cache)
    except TypesettingFailed:
        need(False, "a LuaTeX that checks the names of the files that Lua code opens (1.18 or newer)")
    target = tmp_path / "target"
    target.write_text("kept")
    for attack in (
        "io.open('/etc/passwd')",
        "io.lines('/etc/passwd')",
        "io.open('/usr/share/../../etc/passwd')",
        "io.open('/usr/share/texmf/../../../etc/passwd')",
        "lfs.dir('/root')",
        f"io.open('{target}')",
        f"io.open('{target}', 'w')",
        "io.open('/usr/share/target', 'w')",
        "lfs.link('/etc/passwd', 'here', true) and io.open('here')",
    ):
        with pytest.raises(TypesettingFailed):
            typeset(MINIMAL.format(rf"\directlua{{assert({attack})}}"), latex_cache)
        assert target.read_text() == "kept", attack
        assert not Path("/usr/share/target").exists()

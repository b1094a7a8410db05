"""The predictions that a stop asks for, on the sheets. An undefined value is shown as a word; hints and the explanation
are not shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cardapp.card.model import UNDEFINED, Expectation
from cardapp.layout.compose import compose
from cardapp.layout.html import document as html
from cardapp.layout.latex import document as latex
from cardapp.publish import layouts
from tests.cardapp.layout.cards import IDENTITY, SOURCES, growing


@pytest.mark.parametrize("output", ["html", "latex"])
@pytest.mark.parametrize("name", layouts.known_ids())
def test_an_undefined_value_is_the_word_and_hints_stay_out(name: str, output: str) -> None:
    card = growing(1, 1)
    block = card.tasks[0].blocks[0]
    step = block.phases[0].steps[0]
    stop = step.snapshots[0]
    asking = replace(
        stop,
        expect=(*stop.expect, Expectation("unset", UNDEFINED, undefined=True)),
        ask=("unset", "never-shown"),
        hints=("Hint-inside",),
        explanation="Explanation-inside",
    )
    changed = replace(step, snapshots=(asking,))
    phase = replace(block.phases[0], steps=(changed,))
    card = replace(card, tasks=(replace(card.tasks[0], blocks=(replace(block, phases=(phase,)),)),))
    layout = layouts.find(name).arranged(output)  # type: ignore[arg-type]
    made = "".join((html if output == "html" else latex).render(compose(card, IDENTITY, layout, SOURCES)))
    assert ("undefined" in made) is (name != "karta-blank")
    assert "unset" in made
    assert not [word for word in ("Hint-inside", "Explanation-inside", "never-shown") if word in made]

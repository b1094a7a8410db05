from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from cardapp.card.answers import ANSWER, JUDGED, PREDICTION, REVEALED, SELF, Entry, asked_stops, overview
from cardapp.card.catalog import Catalog
from cardapp.card.model import Card
from cardapp.reports import teams, teams_page
from tests.cardapp.reports.conftest import STEPS

Make = Callable[..., dict[str, Any]]


def made(parts: dict[str, Any], notes: Sequence[dict[str, Any]], entries: Sequence[Entry] = ()) -> str:
    found = overview(asked_stops(parts["catalog"]), entries)
    return "".join(teams.render(answers=found, notes=notes, **parts))


def with_first_step(card: Card, **changes: Any) -> Catalog:
    """The card with another first step."""
    task = card.tasks[0]
    block = task.blocks[0]
    phase = block.phases[0]
    phase = replace(phase, steps=(replace(phase.steps[0], **changes), *phase.steps[1:]))
    return Catalog(replace(card, tasks=(replace(task, blocks=(replace(block, phases=(phase,)),)), *card.tasks[1:])))


def judged(seq: int, step: str, right: bool | None) -> list[Entry]:
    """A prediction at a stop of the card, and its judgement."""
    at, key = "2025-03-01T10:00:00.000Z", f"{step}/end"
    verdict = {"prediction": seq, "seen": {"a.used": "4|8"}, "right": {"a.used": right}, "by": "program"}
    return [
        Entry(seq, at, PREDICTION, key, {"values": {"a.used": "64"}}),
        Entry(seq + 1, at, JUDGED, key, verdict),
    ]


def test_the_report_has_all_sections_in_order(parts: dict[str, Any], event: Make) -> None:
    notes = [event(data={"text": "It *bumps*\nup"}), event(key="t9/gone", data={"text": "lost"})]
    assert (
        made(parts, notes)
        == """\
## Ada &lt;L.&gt; · Arenas \\| &amp; &lt;more&gt;

**1 of 3 steps approved (33.3 %)** · replays: 1 ready, 1 not ready, 1 never run · [open the card](http://127.0.0.1:8080/#)

The links work on the computer where the application runs, at http://127.0.0.1:8080, and on no other.

| Task | Approved | Pending | Ready | Not ready |
|:---|---:|---:|---:|---:|
| Bump &lt;up&gt; | 1 | 1 | 1 | 0 |
| Reset | 0 | 1 | 0 | 1 |

### Notes on steps

- ✓ [First](http://127.0.0.1:8080/#t1/b1/p1/s1): bumps \\*well\\*
- ☐ [Second](http://127.0.0.1:8080/#t1/b1/p1/s2): why? really

### Latest notes

- 2025-03-01 10:00 zoë, [First](http://127.0.0.1:8080/#t1/b1/p1/s1): It \\*bumps\\* up
- 2025-03-01 10:00 zoë, t9/gone: lost

### Last replays

- ✗ [Third](http://127.0.0.1:8080/#t2/b1/p1/s1): failed (snapshot\\_drift), 2025-03-01 11:00
- ✓ [First](http://127.0.0.1:8080/#t1/b1/p1/s1): ready, 2025-03-01 10:00

arena 1.0.0 · 2025-03-02 12:30 UTC · source `abababababab`
"""
    )


def test_the_report_tells_how_many_predictions_were_right_and_names_the_wrong_ones(parts: dict[str, Any]) -> None:
    looked = Entry(5, "2025-03-01T10:00:00.000Z", REVEALED, f"{STEPS[2]}/end", {})
    entries = [*judged(1, STEPS[0], True), *judged(3, STEPS[1], False), looked]
    assert """
### Predictions

- 1 of 2 predicted stops right at the first try, 1 looked at first
- ✗ [End of Second](http://127.0.0.1:8080/#t1/b1/p1/s2/end) *Why does `Second` work?*: a.used is 4\\|8, said 64

### Notes""" in made(parts, [], entries)


def test_answers_in_words_stand_beside_their_questions(parts: dict[str, Any]) -> None:
    at = "2025-03-01T10:00:00.000Z"
    entries = [
        Entry(1, at, ANSWER, STEPS[0], {"text": "It *bumps*\nup"}),
        Entry(2, at, SELF, STEPS[0], {"self": "partly"}),
        Entry(3, at, ANSWER, f"{STEPS[1]}/end", {"text": "no idea"}),
    ]
    asked = [
        rf"http://127.0.0.1:8080/#{step}/end) *Why does `{name}` work?*"
        for step, name in ((STEPS[0], "First"), (STEPS[1], "Second"))
    ]
    assert (
        "### Answers\n\n"
        rf"- [End of First]({asked[0]}: “It \*bumps\* up” (rated by themselves: partly)"
        f"\n- [End of Second]({asked[1]}: “no idea”\n\n### Notes"
    ) in made(parts, [], entries)


def test_the_page_shows_the_report_and_is_inert(parts: dict[str, Any], event: Make) -> None:
    note = event(data={"text": "<script>alert(1)</script> `<b>` [x](javascript:y) | a"})
    page = teams_page.render(parts["learner"], parts["card"], made(parts, [note]))
    assert "<title>Ada &lt;L.&gt; · progress report · Arenas | &amp; &lt;more&gt;</title>" in page
    assert re.search(r"<main>\n<h2[^>]*>Ada &lt;L.&gt; · Arenas \| &amp; &lt;more&gt;</h2>", page)
    assert "<strong>1 of 3 steps approved (33.3 %)</strong>" in page
    assert '<td class=to-left dir="auto">Bump &lt;up&gt;</td><td class=to-right dir="auto">1</td>' in page
    assert '<a href="teams.md">' in page
    assert '<a href="http://127.0.0.1:8080/#t1/b1/p1/s1">First</a>' in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script" not in page
    assert "<b>" not in page
    assert 'href="javascript' not in page


def test_a_report_names_a_few_wrong_predictions_only(parts: dict[str, Any]) -> None:
    (stop,) = parts["card"].tasks[0].blocks[0].phases[0].steps[0].snapshots
    stops = tuple(replace(stop, id=f"n{number}") for number in range(10))
    parts["catalog"] = with_first_step(parts["card"], snapshots=stops)
    wrong = [judged(2 * number + 1, STEPS[0], False) for number in range(10)]
    moved = [each._replace(key=f"{STEPS[0]}/n{number}") for number, pair in enumerate(wrong) for each in pair]
    report = made(parts, [], moved)
    assert report.count("- ✗ [End of First]") == 8
    assert "- ✗ and 2 more\n" in report


def test_a_question_is_one_line_that_keeps_its_code(parts: dict[str, Any]) -> None:
    entries = [Entry(1, "2025-03-01T10:00:00.000Z", ANSWER, STEPS[0], {"text": "yes"})]
    for question, shown in (
        ("What is `a  |b` *now*,\nand <b>?", "What is `a  |b` now, and &lt;b&gt;?"),
        ("One.\n\nTwo `x`.", "One. Two `x`."),
        ("Is `` a`b `` code?", "Is a\\`b code?"),
        ("- [x](javascript:y)\n- b", "\\- \\[x\\](javascript:y) - b"),
    ):
        asked = {**parts, "catalog": with_first_step(parts["card"], question=question)}
        assert f"#{STEPS[0]}/end) *{shown}*: “yes”\n" in made(asked, [], entries)


def test_no_text_adds_a_line_to_the_report(parts: dict[str, Any], event: Make) -> None:
    plain = made(parts, [event(data={"text": "x"}, actor="a")])
    nasty = made(parts, [event(data={"text": "\n\n# x\n| a | b |\n- c"}, actor="\n## a")])
    assert len(nasty.splitlines()) == len(plain.splitlines())

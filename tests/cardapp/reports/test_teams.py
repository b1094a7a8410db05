from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cardapp.card import progress
from cardapp.reports import teams

Make = Callable[..., dict[str, Any]]


def made(parts: dict[str, Any], notes: Sequence[dict[str, Any]]) -> str:
    return "".join(teams.render(notes=notes, **parts))


def test_the_report_has_all_sections_in_order(parts: dict[str, Any], event: Make) -> None:
    notes = [event(data={"text": "It *bumps*\nup"}), event(key="t9/gone", data={"text": "lost"})]
    assert (
        made(parts, notes)
        == """\
## Arenas \\| &amp; &lt;more&gt;

**1 of 3 steps approved (33.3 %)** · replays: 1 ready, 1 not ready, 1 never run · [open the card](http://127.0.0.1:8080/#)

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

arena 1.0.0 · source `abababababab` · 2025-03-02 12:30 UTC
"""
    )


def test_sections_without_content_are_left_out(parts: dict[str, Any]) -> None:
    parts["progress"] = progress.overview(parts["catalog"], {}, {})
    report = made(parts, [])
    assert "###" not in report
    assert "**0 of 3 steps approved (0 %)** · replays: 0 ready, 0 not ready, 3 never run" in report


def test_the_report_is_generated_note_by_note(parts: dict[str, Any]) -> None:
    """Thousands of steps may have a long note each, so the whole report is never in memory at once."""
    for item in parts["progress"]["items"]:
        item["note"] = "x" * 10_000
    pieces = list(teams.render(notes=[], **parts))
    assert [piece.count("x" * 10_000) for piece in pieces if "xxx" in piece] == [1, 1, 1]


def test_no_text_adds_a_line_to_the_report(parts: dict[str, Any], event: Make) -> None:
    plain = made(parts, [event(data={"text": "x"}, actor="a")])
    nasty = made(parts, [event(data={"text": "\n\n# x\n| a | b |\n- c"}, actor="\n## a")])
    assert len(nasty.splitlines()) == len(plain.splitlines())

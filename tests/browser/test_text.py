"""A card's texts on the page: every blank in code and values is shown with its width."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cardapp.settings import ROOT
from tests.browser.tour import switch_teacher
from tests.functional.serving import Stage

pytestmark = [pytest.mark.functional, pytest.mark.full]

CODE = "  12+345 *6"
WIDTHS = """(code) => {
  const root = document.getElementById('sheets')?.shadowRoot ?? document;
  const found = [...root.querySelectorAll('code, text.code'), document.body.appendChild(made(code))];
  const shown = found.map((each) => [each, textOf(each)]).filter(([, text]) => text?.data.includes(code));
  return shown.map(([each, text]) => {
    const width = (from, to) => {
      const range = document.createRange();
      range.setStart(text, from);
      range.setEnd(text, to);
      return range.getBoundingClientRect().width;
    };
    const at = text.data.indexOf(code);
    return [each.closest('.part')?.dataset.kind ?? 'page', width(at, at + code.length) / width(at + 2, at + 3)];
  });
  function made(text) { const code = document.createElement('code'); code.append(text); return code; }
  function textOf(element) { return document.createTreeWalker(element, NodeFilter.SHOW_TEXT).nextNode(); }
}"""


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """The calc card, without a session: its texts have code that begins with two blanks."""
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp") as folder:
        stage = Stage(Path(folder) / "state", ROOT / "etc" / "cards" / "calc")
        yield stage
        stage.close()


def test_every_blank_of_code_is_there(tab: Any, stage: Stage) -> None:
    page = tab().page
    page.set_viewport_size({"width": 1920, "height": 1080})  # in a narrow column a value may be on two lines
    page.locator("#sheets .holder:not(.flow)").wait_for()
    switch_teacher(page, on=True)
    found: list[tuple[str, float]] = page.evaluate(WIDTHS, CODE)
    assert {kind for kind, _cells in found} >= {"page", "intro", "machine"}
    assert stage.tcp.post("/api/events", {"kind": "note", "actor": "me", "text": f"It cuts `{CODE}`."}).status == 201
    page.goto(f"http://127.0.0.1:{stage.service.listener.port}/api/report/lesson.html")
    found += page.evaluate(WIDTHS, CODE)
    for kind, cells in found:
        assert cells == pytest.approx(len(CODE), abs=0.2), f"{kind} shows {cells} columns of {len(CODE)}"

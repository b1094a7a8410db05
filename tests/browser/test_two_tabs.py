"""Two tabs on one session: how soon the second one follows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.conftest import OpenPage, becomes
from tests.functional.serving import Stage

pytestmark = [pytest.mark.functional, pytest.mark.usefixtures("fresh_place")]

SOON = 0.5  # seconds from the key to the other tab; on an idle machine it takes a tenth of it
WATCH = """() => {
  window.seen = [];
  new MutationObserver(() => seen.push([Date.now(), document.getElementById('trail').textContent]))
    .observe(document.getElementById('trail'), { childList: true, subtree: true });
}"""


def test_a_second_tab_follows_at_once(tab: Callable[..., OpenPage], stage: Stage, loops: Callable[..., int]) -> None:
    first, second = tab(), tab()
    second.page.evaluate(WATCH)
    first.page.evaluate("addEventListener('keydown', () => { window.pressed = Date.now(); }, true)")
    delays = []
    for number in range(loops(quick=10, full=60)):
        count = second.page.evaluate("seen.length")
        first.page.keyboard.press("ArrowLeft" if number % 8 > 3 else "ArrowRight")
        becomes(second.page, "(count) => seen.length > count", arg=count)
        delays.append((second.page.evaluate(f"seen[{count}][0]") - first.page.evaluate("pressed")) / 1000)
    median = sorted(delays)[len(delays) // 2]
    print(f"a second tab follows after {median * 1000:.0f} ms (median of {len(delays)})")  # noqa: T201
    assert median < SOON, delays
    assert first.page.locator("#trail").inner_text() == second.page.locator("#trail").inner_text()
    assert stage.tcp.get("/api/navigation/current")["revision"] >= len(delays)

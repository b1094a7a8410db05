"""The main path of the chart page in Debian's Firefox."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.market.conftest import SYMBOL, query
from tests.browser.market.stage import Stage, now, tick
from tests.functional.firefox import PROGRAM, firefox

pytestmark = [pytest.mark.functional, pytest.mark.full]

ENTER = "\ue007"
LEFT = "\ue012"
CLOSE = (
    "[...document.querySelectorAll('#legend-values .amount')].find((each) => each.textContent[0] === 'C')?.textContent"
)


@pytest.mark.skipif(PROGRAM is None, reason="not run: there is no firefox-esr here (Debian package firefox-esr)")
def test_the_main_path_works_in_firefox(stage: Stage, tmp_path: Path) -> None:
    stage.write(tick("DEMO:FOX-USD", now(), "42.5"))
    with firefox() as browser:
        browser.resize(1280, 720)
        address = stage.address.replace("://", f"://{stage.user}:{stage.password.replace(' ', '%20')}@")
        browser.go(address + query())
        browser.becomes("document.querySelector('#live').className.includes('live ')")
        browser.becomes(f"Boolean({CLOSE})")
        browser.press(*"fox-usd")
        browser.becomes("document.querySelectorAll('#matches [role=option]').length === 1")
        browser.press(ENTER)
        browser.becomes(f"{CLOSE}?.includes('42.5')")
        stage.write(tick("DEMO:FOX-USD", now() + 1, "43.5"))
        browser.becomes(f"{CLOSE}?.includes('43.5')")
        browser.press("t", alt=True)
        browser.becomes("document.querySelectorAll('#trade-rows tr').length === 2")
        browser.go(address + query(SYMBOL, "1m"))
        browser.becomes(f"Boolean({CLOSE})")
        browser.press("l", alt=True)
        browser.becomes("location.search.includes('scale=log')")
        browser.drag((400, 300), (900, 300))
        browser.becomes("location.search.includes('from=')")
        browser.press(LEFT)
        browser.screenshot(tmp_path / "firefox.png")
        assert (tmp_path / "firefox.png").stat().st_size > 20_000
        assert browser.faults == []

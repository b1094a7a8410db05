"""Every state of the page as a picture: ``python -m tests.browser.screenshots FOLDER``.

Real Chromium over the real application with a session on the arena card.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path
from typing import Any

from tests.browser.conftest import ARENA, stage_of
from tests.browser.market.conftest import still_picture
from tests.browser.tour import states
from tests.functional.attached_terminal import AttachedTerminal
from tests.functional.chromium import chromium

SIZES = ((1280, 720), (1920, 1080))
STOP = "alignment/padding/types/char-double"


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    schemes: tuple[Any, ...] = ("light", "dark")
    with chromium() as browser:
        for (width, height), scheme in product(SIZES, schemes):
            viewport: Any = {"width": width, "height": height}
            page = browser.new_context(viewport=viewport, color_scheme=scheme).new_page()
            with stage_of(ARENA, with_session=True) as stage:
                page.goto(f"http://127.0.0.1:{stage.service.listener.port}/#/{STOP}")
                with AttachedTerminal(stage.sessions, 80, 24):
                    page.locator("#editor .follows").wait_for()
                    (folder / f"terminal-{width}-{scheme}.png").write_bytes(still_picture(page, "html"))
                for name in states(page, stage):
                    (folder / f"{name}-{width}-{scheme}.png").write_bytes(still_picture(page, "html"))
            page.context.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.browser.screenshots FOLDER")
    main(Path(sys.argv[1]))

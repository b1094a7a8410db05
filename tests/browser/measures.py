"""The faults that ``measures.js`` finds on a page."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from tests.functional.serving import until

MEASURES = (Path(__file__).parent / "measures.js").read_text("utf-8")


def faults(page: Page, measure: str, arg: Any = None) -> list[str]:
    """The result of the function ``{measure}Faults``."""
    found: list[str] = page.evaluate(f"{MEASURES}\n{measure}Faults", arg)
    return found


def settles_without_faults(page: Page, measure: str, at: object = "") -> None:
    """After a resize or a drag the page takes its new form in a later frame, so the faults are those that stay."""
    with suppress(AssertionError):
        until(lambda: not faults(page, measure))
    assert faults(page, measure) == [], at

"""The faults that ``measures.js`` finds on a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

MEASURES = (Path(__file__).parent / "measures.js").read_text("utf-8")


def faults(page: Page, measure: str, arg: Any = None) -> list[str]:
    """The result of the function ``{measure}Faults``."""
    found: list[str] = page.evaluate(f"{MEASURES}\n{measure}Faults", arg)
    return found

"""What ``measures.js`` finds wrong on a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

MEASURES = (Path(__file__).parent / "measures.js").read_text("utf-8")


def faults(page: Page, measure: str, arg: Any = None) -> list[str]:
    """What the function ``{measure}Faults`` returns."""
    found: list[str] = page.evaluate(f"{MEASURES}\n{measure}Faults", arg)
    return found

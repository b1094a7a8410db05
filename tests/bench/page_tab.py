"""Opens browser tabs that load the probe of the benches (``page_probe.js``)."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, Page

PROBE = Path(__file__).with_name("page_probe.js")
SIZE = {"width": 1280, "height": 720}


def opened(browser: Browser, address: str) -> Page:
    """A tab at ``address``, in its own window and with its own storage."""
    page = browser.new_context(viewport=SIZE).new_page()  # type: ignore[arg-type]
    page.add_init_script(path=PROBE)
    page.goto(address, wait_until="commit")
    return page


def ready(page: Page) -> Page:
    """Wait until the page of the application shows its first sheet."""
    page.locator("#sheets .sheet").first.wait_for()
    return page

"""Tabs of one browser context that share a process."""

from __future__ import annotations

from playwright.sync_api import BrowserContext, Page


class Tabs:
    """A context whose first page opens the tabs. The tabs share its process, so a tab takes half of the processor time
    of a page in a separate context."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        """``address`` is a page without scripts, on the same origin as the pages that the tabs will show."""
        self.context = context
        self.first = context.new_page()
        self.first.goto(address)

    def new(self) -> Page:
        """A tab that shows nothing yet."""
        with self.first.expect_popup() as opened:
            self.first.evaluate("() => { window.open('about:blank'); }")
        return opened.value

    def forget(self) -> None:
        """Close the tabs, and remove what their pages stored."""
        for page in self.context.pages:
            if page is not self.first:
                page.close()
        self.context.set_offline(False)
        self.context.clear_permissions()
        self.context.clear_cookies()
        self.first.evaluate("localStorage.clear()")

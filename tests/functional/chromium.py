"""The system's Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

PROGRAM = shutil.which("chromium")
_QUIET = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
          "--disable-component-update", "--disable-sync")  # fmt: skip


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window and without anything that calls home."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=PROGRAM, args=list(_QUIET))
        try:
            yield running
        finally:
            running.close()

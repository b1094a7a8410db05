"""The system's Chromium: one a process, shared by the tests of all folders whose conftest imports ``browser`` and the
two hooks."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.capabilities import need

# The headless shell has no window, and takes two thirds of the processor time of Chromium itself.
PROGRAM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
# Without the last option the headless shell places letters on whole pixels, and texts are wider than in Chromium.
_QUIET = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
          "--disable-component-update", "--disable-sync", "--font-render-hinting=none")  # fmt: skip
_BROWSER = pytest.StashKey[Browser]()
_LOOP = pytest.StashKey[asyncio.AbstractEventLoop]()


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window and without anything that calls home."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=PROGRAM, args=list(_QUIET))
        try:
            yield running
        finally:
            running.close()


@pytest.fixture(scope="session")
def browser(pytestconfig: pytest.Config) -> Browser:
    """The browser of this process. Each conftest that imports this fixture gets the same one."""
    need(PROGRAM, "Chromium (Debian package chromium-headless-shell)")
    if _BROWSER not in pytestconfig.stash:
        running = chromium()
        pytestconfig.stash[_BROWSER] = running.__enter__()
        pytestconfig.stash[_LOOP] = loop = asyncio.get_running_loop()

        def end() -> None:
            asyncio._set_running_loop(loop)
            running.__exit__(None, None, None)

        pytestconfig.add_cleanup(end)
    return pytestconfig.stash[_BROWSER]


# Playwright's event loop counts as running as long as the browser. So that tests without the browser can run other
# loops, it counts only during tests with the browser, and while fixtures are torn down.


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    uses_browser = "browser" in getattr(item, "fixturenames", ())
    asyncio._set_running_loop(item.config.stash.get(_LOOP, None) if uses_browser else None)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    asyncio._set_running_loop(item.config.stash.get(_LOOP, None))
    try:
        return (yield)
    finally:
        asyncio._set_running_loop(None)

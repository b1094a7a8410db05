"""Keys of the page's editor, beside the same keys in xterm.js on a Neovim of its own, in the same browser.

Both show the same file in a grid of the same size, with the same font. The two take turns, a line of letters each.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, TimeoutError

from cardapp.settings import ROOT
from tests.bench.figures import Figure, per_second, percentile
from tests.bench.page_tab import opened, ready
from tests.functional.registry import AS_OF, install
from tests.functional.serving import until
from tests.functional.test_crash import Server

XTERM = "@xterm/xterm@6.0.0"
LINES, LETTERS = 15, 20
"""Lines that are typed into each of the two, and letters of each line."""
PAUSES = (0.02, 0.045)
"""Seconds between two keys, at random, so that they come at any moment of the screen's frames."""
FILE_LINES, SCROLLED = 20_000, 5000
HELD_SECONDS = 60
PLACES = ("editor panel", "xterm.js")
SETTINGS = "set notitle number signcolumn=yes scrolloff=3 cmdheight=2 background=dark laststatus=2 mouse=a nomore"


def measure(browser: Browser, server: Server, folder: Path) -> Iterator[Figure]:
    """The session's Neovim is left without its debugger's windows."""
    text = folder / "lines.c"
    text.write_text("".join(f"int line_{number} = {number};\n" for number in range(1, FILE_LINES + 1)))
    panel = ready(opened(browser, server.address))
    _take_keyboard(panel, server, text)
    grid = panel.locator("#editor .panel-head .quiet").inner_text().split(" × ")
    with _terminal(browser, folder, text, grid) as terminal:
        pages = [page for page in (panel, terminal) if page is not None]
        yield from _typing(pages)
        yield from _scrolling(pages)
    panel.context.close()


def _take_keyboard(panel: Page, server: Server, text: Path) -> None:
    panel.keyboard.press("F8")
    until(lambda: server.api.get("/api/viewer/state")["viewer"]["editor"]["control"])
    panel.keyboard.press("Escape")
    panel.keyboard.type(f":only | edit! {text}")
    panel.keyboard.press("Enter")
    panel.locator("#editor pre", has_text="int line_1 =").wait_for(state="attached")


# -- xterm.js --------------------------------------------------------------------------------------------------------


@contextmanager
def _terminal(browser: Browser, folder: Path, text: Path, grid: Sequence[str]) -> Iterator[Page | None]:
    """A tab with xterm.js; None where it cannot be installed."""
    modules = _installed(folder / "npm")
    if modules is None:
        yield None
        return
    settings = folder / "terminal.vim"
    settings.write_text(SETTINGS)
    editor = ["nvim", "-u", str(settings), "-n", "-i", "NONE", "--noplugin", str(text)]
    command = [sys.executable, "-P", "-m", "tests.bench.terminal", str(modules), *grid, *editor]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    bridge = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert bridge.stdout is not None
    try:
        page = opened(browser, bridge.stdout.readline().strip())
        page.wait_for_function(f"() => {_SCREEN}.includes('int line_1 =')")
        yield page
        page.context.close()
    finally:
        bridge.terminate()
        bridge.wait(10)
        bridge.stdout.close()


_SCREEN = """(() => {
  if (!globalThis.terminal) return '';
  const { active } = terminal.buffer;
  return Array.from({ length: terminal.rows }, (_, row) => active.getLine(row).translateToString()).join('\\n');
})()"""


def _installed(folder: Path) -> Path | None:
    npm = shutil.which("npm")
    if npm is None:
        return None
    folder.mkdir()
    quiet = ("--no-audit", "--no-fund", "--ignore-scripts", "--fetch-retries=1", f"--before={AS_OF}")
    try:
        install([npm, "install", *quiet, XTERM], folder)
    except pytest.skip.Exception:
        return None
    return folder / "node_modules"


# -- typing ----------------------------------------------------------------------------------------------------------


def _typing(pages: Sequence[Page]) -> Iterator[Figure]:
    for page in pages:
        page.keyboard.type("20Go")
    hops: list[list[dict[str, float]]] = [[] for _ in pages]
    for _ in range(LINES):
        for page, found in zip(pages, hops, strict=True):
            found.extend(_line(page))
    for page in pages:
        page.keyboard.press("Escape")
    hop_names = {"frame": "key to its frame on the WebSocket", "painted": "key to paint"}
    for hop, name in hop_names.items():
        for place, found in zip(PLACES, hops, strict=False):
            goal = "p50 and p99 of xterm.js" if (hop, place) == ("painted", PLACES[0]) else ""
            yield Figure(f"{name}, {place}", _told([each[hop] for each in found]), goal)


def _line(page: Page) -> Iterator[dict[str, float]]:
    typed = ""
    for number in range(LETTERS):
        letter = "xv"[number % 2]
        typed += letter
        page.evaluate("(key) => probe.arm(...key)", [letter, typed])
        _pause()
        page.keyboard.press(letter)
        yield page.evaluate("probe.result")
    page.keyboard.press("Control+u")


def _pause() -> None:
    threading.Event().wait(random.uniform(*PAUSES))


def _told(milliseconds: Sequence[float]) -> str:
    p50, p95, p99 = (percentile([each / 1000 for each in milliseconds], share) for share in (0.5, 0.95, 0.99))
    return f"p50 {p50:.1f} ms, p95 {p95:.1f} ms, p99 {p99:.1f} ms"


# -- scrolling -------------------------------------------------------------------------------------------------------


def _scrolling(pages: Sequence[Page]) -> Iterator[Figure]:
    screens = ("document.querySelector('#editor pre').textContent", _SCREEN)
    for page, screen, place in zip(pages, screens, PLACES, strict=False):
        goal = "≥ 50 frames/s" if place == PLACES[0] else ""
        yield Figure(f"Ctrl-E held over {SCROLLED:,} of {FILE_LINES:,} lines, {place}", _held(page, screen), goal)


def _held(page: Page, screen: str) -> str:
    page.keyboard.type("gg")
    page.evaluate("(count) => probe.hold('e', count)", SCROLLED)
    last = f"() => {screen}.includes('int line_{SCROLLED + 1} =')"
    try:
        page.wait_for_function(last, timeout=HELD_SECONDS * 1000)
    except TimeoutError:
        return f"not at the last line after {HELD_SECONDS} s"
    painted: list[float] = page.evaluate("probe.frames()")
    seconds = (painted[-1] - painted[0]) / 1000
    return (
        f"{len(painted) / seconds:.0f} frames/s, {min(per_second(painted))} in the slowest second; "
        f"{SCROLLED / seconds:.0f} lines/s"
    )

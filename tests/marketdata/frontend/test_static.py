"""The colours, preloads and size of the page. Its numbers are in tests/marketdata/test_repeated_facts.py."""

from __future__ import annotations

import re

from marketdata.frontend.pages import FOLDER, INDEX, PREFIX, Pages

CHART_LIBRARY = "vendor/lightweight-charts.mjs"


def read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def test_the_first_load_is_small() -> None:
    """The page, and all that it loads before it shows a chart, compressed as the frontend sends it."""
    names = re.findall(r'(?:src|href)="/static/([^"]+)"', read("index.html"))
    assert {"boot.js", "page.css", "page.js", CHART_LIBRARY} <= set(names)
    pages = Pages()
    bodies = [pages.reply(path, "gzip").body for path in (INDEX, *(PREFIX + name for name in names))]
    assert sum(len(body) for body in bodies if isinstance(body, bytes)) < 150 * 1024


def test_the_page_preloads_exactly_its_modules() -> None:
    """These are the modules that it imports at once. One that is imported when it is first used is not preloaded, nor
    is what only that one imports."""
    preloaded = re.findall(r'modulepreload" href="/static/([^"]+)"', read("index.html"))
    modules, found = ["page.js", "early.js"], {"page.js", "early.js"}
    for name in modules:
        imported = set(re.findall(r"from '\./([\w/.-]+)'", read(name))) if name != CHART_LIBRARY else set()
        modules += sorted(imported - found)
        found |= imported
    assert sorted(preloaded) == sorted(found - {"page.js", "early.js"})

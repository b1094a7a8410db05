"""The colours, preloads and size of the page. Its numbers are in tests/marketdata/test_repeated_facts.py."""

from __future__ import annotations

import re

from marketdata.frontend.pages import FOLDER, INDEX, PREFIX, Pages
from tests.capabilities import need

CHART_LIBRARY = "vendor/lightweight-charts.mjs"


def read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def test_the_first_load_is_small() -> None:
    """The page, and all that it loads before it shows a chart, compressed as the frontend sends it."""
    names = re.findall(r'(?:src|href)="/static/([^"]+)"', read("index.html"))
    assert {"boot.js", "page.css", "page.js", CHART_LIBRARY} <= set(names)
    need((FOLDER / CHART_LIBRARY).exists(), "the chart library, which the set-up fetches")
    pages = Pages()
    bodies = [pages.reply(path, "gzip").body for path in (INDEX, *(PREFIX + name for name in names))]
    assert sum(len(body) for body in bodies if isinstance(body, bytes)) < 150 * 1024


def test_the_page_preloads_exactly_its_modules() -> None:
    """A module that is imported when it is used first is not preloaded."""
    preloaded = re.findall(r'modulepreload" href="/static/([^"]+)"', read("index.html"))
    later = set(re.findall(r"import\('\./([\w-]+\.js)'\)", "".join(read(path.name) for path in FOLDER.glob("*.js"))))
    modules = {path.name for path in FOLDER.glob("*.js")} - {"boot.js", "early.js", "page.js"} - later
    assert sorted(preloaded) == sorted({CHART_LIBRARY, *modules})

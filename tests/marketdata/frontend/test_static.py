"""The colours and preloads of the page stand in one place; tests/marketdata/test_repeated_facts.py has its numbers."""

from __future__ import annotations

import re

from marketdata.frontend.pages import FOLDER
from marketdata.settings import ROOT


def read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def test_only_the_style_sheet_defines_colours() -> None:
    colour = r"#[0-9a-f]{6}\b"
    defined = set(re.findall(rf"light-dark\({colour}, {colour}\)", read("page.css")))
    assert defined
    assert not re.findall(colour, re.sub(r"light-dark\([^)]*\)", "", read("page.css")))
    for text in (read("message.html"), (ROOT / "marketdata" / "http" / "problems.html").read_text(encoding="utf-8")):
        assert set(re.findall(rf"light-dark\({colour}, {colour}\)", text)) <= defined
    for path in FOLDER.glob("*.js"):
        assert not re.findall(colour, path.read_text(encoding="utf-8")), path.name


def test_the_canvas_reads_colours_that_the_style_sheet_defines() -> None:
    used = set(re.findall(r"colour\('([\w-]+)'", read("palette.js")))
    assert used <= set(re.findall(r"--([\w-]+): light-dark", read("page.css")))
    painted = set(re.findall(r"colours\.(\w+)", read("chart.js") + read("backdrop.js") + read("export.js")))
    assert painted <= set(re.findall(r"(\w+): (?:colour|getComputedStyle)\(", read("palette.js")))


def test_the_page_preloads_exactly_its_modules() -> None:
    preloaded = re.findall(r'modulepreload" href="/static/([^"]+)"', read("index.html"))
    modules = {path.name for path in FOLDER.glob("*.js")} - {"boot.js", "page.js"}
    assert sorted(preloaded) == sorted({"vendor/lightweight-charts.mjs", *modules})

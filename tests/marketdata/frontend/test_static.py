"""Facts that the page's scripts and styles repeat are equal to the original."""

from __future__ import annotations

import json
import re
from pathlib import Path

from marketdata.api import schemas
from marketdata.frontend.pages import FOLDER
from marketdata.interval import WIDTHS


def read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def test_the_scripts_have_the_apis_intervals() -> None:
    table = re.search(r"WIDTHS = new Map\(Object\.entries\(\{(.*?)\}\)\)", read("intervals.js"), re.DOTALL)
    assert table is not None
    found = {name: width.replace("_", "") for name, width in re.findall(r"'(\w+)': (\w+)", table[1])}
    assert list(found.items()) == [(name, "null" if width is None else str(width)) for name, width in WIDTHS.items()]


def test_the_scripts_read_as_many_candles_as_the_api_allows() -> None:
    found = re.search(r"MAX_READ = ([0-9_]+);", read("first_view.js"))
    assert found is not None
    chart = json.loads(Path(schemas.__file__).with_name("chart.json").read_text(encoding="utf-8"))
    assert int(found[1]) == chart["$defs"]["ChartQuery"]["properties"]["limit"]["maximum"]


def test_only_the_style_sheet_defines_colours() -> None:
    colour = r"#[0-9a-f]{6}\b"
    defined = set(re.findall(rf"light-dark\({colour}, {colour}\)", read("page.css")))
    assert defined
    assert not re.findall(colour, re.sub(r"light-dark\([^)]*\)", "", read("page.css")))
    assert set(re.findall(rf"light-dark\({colour}, {colour}\)", read("message.html"))) <= defined
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

"""The resources of the page: the page itself, its files, sheets, diagrams and the search."""

from __future__ import annotations

import re
from typing import Any

from cardapp.layout.html.document import render
from cardapp.web.resources.page import POLICY, STATIC

PART = re.compile(r' data-key="[^"]*" data-kind="[^"]*" data-part="[^"]*"( data-shares="[^"]*" data-heights="[^"]*")?')


def test_a_browser_gets_the_page_and_other_clients_json(api: Any) -> None:
    for accept in ("text/html,application/xhtml+xml,*/*;q=0.8", "*/*"):
        answer = api("GET", "/", headers={"Accept": accept}, status=200)
        assert answer.content_type == "text/html"
        assert answer.headers["Content-Security-Policy"] == POLICY
    assert api("GET", "/", headers={"Accept": "application/json"}, status=200).json["name"] == "cardapp"


def test_the_page_runs_no_script_of_its_own_text_and_names_only_files_that_there_are(api: Any) -> None:
    html = api("GET", "/", status=200).text
    assert not re.findall(r"<script(?![^>]*\bsrc=)|\son[a-z]+=|javascript:", html)
    for address in re.findall(r'(?:src|href)="(/[^"]*)"', html):
        if not address.endswith(".pdf"):  # LuaLaTeX takes seconds
            api("GET", address, status=200)
    for file in STATIC.glob("*.js"):
        text = file.read_text("utf-8")
        for name in re.findall(r"from '\./([a-z_]+\.js)'", text):
            assert (STATIC / name).is_file(), file.name
        assert "innerHTML" not in text or file.name in ("worksheet.js", "map.js"), "only what the service has escaped"


def test_no_other_file_is_served(api: Any) -> None:
    for name in ("nothing.js", "index.html", "..%2Fapp.py", ".hidden"):
        api.problem("GET", f"/static/{name}", status=404, code="not_found")
    assert api("GET", "/static/NotoSans-Regular.woff2", status=200).content_type == "font/woff2"


def test_the_pages_hold_the_sheets_of_the_exported_file(api: Any, services: Any) -> None:
    catalog = services.card_loader.current().catalog
    pages = [api.get(f"/api/sheets?page={index}") for index in range(catalog.page_count)]
    assert [page["key"] for page in pages] == [item.key for item in catalog.at("block")]
    served = "".join(PART.sub("", page["html"]) for page in pages)
    whole = "".join(piece for piece in render(services.sheets.document()) if piece.startswith("<section"))
    assert served == whole
    for name in services.sheets.part_names():
        assert sum(page["html"].count(f'data-part="{name}"') for page in pages) == 1, name
    api.problem("GET", f"/api/sheets?page={catalog.page_count}", status=404, code="not_found")


def test_the_diagrams_name_their_positions(api: Any) -> None:
    assert 'data-key="t1/b1"' in api.get("/api/diagram")["html"]
    assert 'data-key="t1/b1/p1/s1"' in api.get("/api/diagram?key=t1/b1")["html"]
    api.problem("GET", "/api/diagram?key=t1", status=404, code="not_found")


def test_the_search_finds_titles_in_document_order_and_ignores_case(api: Any, services: Any) -> None:
    item = services.card_loader.current().catalog.at("step")[0]
    found = api.get(f"/api/search?text={item.title.upper()}")["matches"]
    assert {"key": item.key, "kind": "title", "excerpt": item.title, "line": None} in found
    assert api.get(f"/api/search?text={item.title.replace(' ', '%20%0A%20')}")["matches"] == found
    assert api.get("/api/search?text=%20")["matches"] == []
    assert api.get("/api/search?text=no+such+text+anywhere")["matches"] == []

"""``GET /docs``: the description as a page, with everything that the description has."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from marketdata.http import failures
from tests.marketdata.api.conftest import Api

VOID = {"meta", "link", "br"}


class Page(HTMLParser):
    """The texts, ids and targets of links. An element that is not closed as it was opened fails the test."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.elements: set[str] = set()
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [value or "" for name, value in attributes if name == "id"]
        self.links += [value or "" for name, value in attributes if name == "href"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data


@pytest.fixture
def document(api: Api) -> dict[str, Any]:
    found: dict[str, Any] = api.get("/openapi.json")
    return found


@pytest.fixture
def page(api: Api) -> Page:
    return Page(api("GET", "/docs", status=200).text)


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method.upper(), path, operation)
        for path, by_method in document["paths"].items()
        for method, operation in by_method.items()
    ]


def article(api: Api, anchor: str) -> str:
    (found,) = re.findall(rf'<article id="{anchor}">.*?</article>', api("GET", "/docs", status=200).text, re.DOTALL)
    return str(found)


def test_each_endpoint_has_its_part_with_parameters_answers_and_codes(api: Api, document: dict[str, Any]) -> None:
    for method, path, operation in operations(document):
        text = article(api, operation["operationId"])
        shown = Page(text).text
        assert f"{method} {path}" in shown
        assert operation["summary"] in shown
        assert ("It needs no token." in shown) == ("security" not in operation)
        for scheme in (name for wanted in operation.get("security", ()) for name in wanted):
            assert {"read": "scope read", "write": "scope write", "admin": "admin.json"}[scheme] in shown
        for parameter in operation.get("parameters", ()):
            assert f"<dt><code>{parameter['name']}</code>" in text
        for status, response in operation["responses"].items():
            assert f"<dt><code>{status}</code>" in text
            for code in response.get("x-problem-codes", ()):
                assert f'<a href="/problems#{code}"><code>{code}</code></a>' in text


def test_every_code_is_listed_with_a_link_to_its_explanation(page: Page, api: Api) -> None:
    codes = api("GET", "/docs", status=200).text.partition('<section id="codes">')[2]
    assert sorted(re.findall(r'<dt><a href="/problems#(\w+)">', codes)) == sorted(failures.statuses_of_codes())
    explained = re.findall(r'id="([^"]+)"', api("GET", "/problems", status=200).text)
    assert {link.removeprefix("/problems#") for link in page.links if link.startswith("/problems#")} <= set(explained)


def test_the_contents_lead_to_every_endpoint(page: Page, document: dict[str, Any]) -> None:
    anchors = [operation["operationId"] for *_, operation in operations(document)]
    assert sorted(page.ids) == sorted([*anchors, "codes"])
    assert sorted(link for link in page.links if link.startswith("#")) == sorted(f"#{anchor}" for anchor in anchors)


def test_an_example_is_a_request_that_the_service_takes(api: Api, document: dict[str, Any], tick: Any) -> None:
    api.ingest(tick(symbol="DEMO:ETH-USD"))
    for method, path, operation in operations(document):
        line = Page(article(api, operation["operationId"])).text.partition("Example\n")[2].splitlines()[0]
        if method == "GET" and "x-websocket" not in operation:
            assert line.startswith(f"GET {path}")
            api("GET", line.removeprefix("GET "), status=200)

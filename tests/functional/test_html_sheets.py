"""The sheets of cards in Chromium: every part is in its place on the screen and on paper, accessible, and inert.

Each run shows one shipped card in one layout, which its seed draws."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser

from cardapp.card.model import Card
from cardapp.layout.compose import compose
from cardapp.layout.layout_model import Layout
from cardapp.layout.sheets import Document
from cardapp.publish import layouts
from tests.cardapp.layout.hostile import IDENTITY, SHIPPED, hostile_cards, shipped
from tests.functional.sheet_page import SheetPage, assert_in_place, assert_near, sheet_page
from tests.properties import SEED

pytestmark = pytest.mark.functional

PAIRS = list(product(SHIPPED, layouts.known_ids()))
WIDTHS = (1280, 1920)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "document" in metafunc.fixturenames:
        drawn = random.Random(metafunc.config.stash[SEED]).choice(PAIRS)
        metafunc.parametrize("document", [drawn], indirect=True, ids="-".join, scope="module")


@pytest.fixture(scope="module")
def document(request: pytest.FixtureRequest) -> Document:
    card, name = request.param
    loaded = shipped(card)
    return compose(loaded.card, loaded.identity, layouts.find(name).arranged("html"), loaded.sources())


@pytest.fixture(scope="module")
def shown(document: Document, browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SheetPage]:
    with sheet_page(browser, tmp_path_factory.mktemp("sheets")) as found:
        found.show(document)
        yield found


@pytest.fixture(scope="module")
def opened(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SheetPage]:
    with sheet_page(browser, tmp_path_factory.mktemp("invented")) as found:
        yield found


def test_nothing_reaches_out_of_its_part(document: Document, shown: SheetPage) -> None:
    for media, width in (("screen", WIDTHS[0]), ("screen", WIDTHS[1]), ("print", WIDTHS[0])):
        shown.look(media, width)
        measured = shown.measured(document)
        assert_in_place(document, measured)
        for sheet in measured:
            assert sheet["left"] >= 0
            assert sheet["right"] >= 0 or media == "print"
            edges = zip(sheet["edges"], (document.layout.grid.header, document.layout.grid.footer), strict=True)
            for edge, frame in edges:
                assert edge["cut"] == []
                left, top, width_, height = edge["box"]
                assert_near([left, width_], (frame.x, frame.width))
                assert frame.y - 0.1 < top
                assert top + height < frame.y + frame.height + 0.1
    shown.look("screen", 390)
    assert shown.page.evaluate("document.documentElement.scrollWidth") == 390, "a telephone scrolls downwards only"
    assert shown.page.locator("script").count() == 0
    assert (shown.fetched, shown.events) == ([], [])


def test_every_text_can_be_read(document: Document, shown: SheetPage) -> None:
    shown.check_readable()


def test_keyboard_and_mouse_reach_the_sheets(document: Document, shown: SheetPage) -> None:
    page = shown.page
    shown.look("screen")
    page.goto(shown.file.as_uri())
    page.keyboard.press("Tab")
    focused = page.locator(":focus")
    assert focused.inner_text() == "Skip to the sheets"
    assert page.evaluate("document.activeElement.getBoundingClientRect().top") >= 0
    page.keyboard.press("Tab")
    assert focused.evaluate("one => one.closest('nav') !== null")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert focused.evaluate("one => one.closest('main') !== null")
    block = document.card.tasks[-1].blocks[-1]
    key = f"{document.card.tasks[-1].id}/{block.id}"
    page.locator(f'.overview a[href="#{key}"]').click()
    title = page.locator(f'[id="{key}"]')
    assert block.title in title.inner_text()
    assert 0 <= title.evaluate("one => one.getBoundingClientRect().top") < 1000


# -- invented cards ------------------------------------------------------------------------------------------------


LAYOUTS = [layouts.load(layouts.ANSWER_KEY), *map(layouts.find, layouts.known_ids())]


@settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
    phases=(Phase.explicit, Phase.generate),
)
@given(made_up=hostile_cards(), layout=st.sampled_from(LAYOUTS))
def test_hostile_texts_stay_in_their_parts_and_do_nothing(
    opened: SheetPage, made_up: tuple[Card, dict[str, list[str]]], layout: Layout
) -> None:
    card, sources = made_up
    document = compose(card, IDENTITY, layout.arranged("html"), sources, running_on=layout is LAYOUTS[0])
    opened.show(document)
    assert_in_place(document, opened.measured(document))
    assert (opened.fetched, opened.events) == ([], [])

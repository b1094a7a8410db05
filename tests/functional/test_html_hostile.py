"""Hostile cards in Chromium: their texts are shown literally, stay in their parts, and run nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from playwright.sync_api import Browser

from cardapp.card.model import Card
from cardapp.layout.compose import compose
from cardapp.publish import layouts
from tests.cardapp.layout.cards import SOURCES, growing
from tests.cardapp.layout.hostile import FILE, IDENTITY, hostile_cards
from tests.cardapp.layout.html.test_document import assert_all_survives, assert_nothing_injected
from tests.functional.sheet_page import SheetPage, assert_in_place, sheet_page

pytestmark = pytest.mark.functional

each_layout = pytest.mark.parametrize(
    "layout",
    [pytest.param(each, marks=[] if each == "karta-5a" else [pytest.mark.full]) for each in layouts.known_ids()],
)


@pytest.fixture(scope="module")
def opened(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SheetPage]:
    with sheet_page(browser, tmp_path_factory.mktemp("hostile")) as found:
        yield found


@each_layout
def test_hostile_texts_are_shown_in_their_parts_and_do_nothing(
    opened: SheetPage, layout: str, loops: Callable[..., int]
) -> None:
    arranged = layouts.find(layout).arranged("html")

    @settings(
        max_examples=loops(quick=2, full=200),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        phases=(Phase.explicit, Phase.reuse, Phase.generate),
    )
    @given(hostile_cards())
    def check(made_up: tuple[Card, dict[str, list[str]]]) -> None:
        card, sources = made_up
        document = compose(card, IDENTITY, arranged, sources)
        opened.show(document)
        read = opened.read()
        assert_nothing_injected(read)
        assert_all_survives(read, card, sources[FILE], tells_values=arranged.components["machine"].values)
        assert_in_place(document, opened.measured(document))
        assert opened.fetched == []
        assert opened.events == []

    check()


def test_hostile_texts_in_an_answer_key_are_inert_text(opened: SheetPage, loops: Callable[..., int]) -> None:
    arranged = layouts.load(layouts.ANSWER_KEY).arranged("html")

    @settings(max_examples=loops(quick=2, full=100), deadline=None, suppress_health_check=list(HealthCheck))
    @given(hostile_cards())
    def check(made_up: tuple[Card, dict[str, list[str]]]) -> None:
        document = compose(made_up[0], IDENTITY, arranged, made_up[1], running_on=True)
        opened.show(document)
        assert_nothing_injected(opened.read())
        assert_in_place(document, opened.measured(document))
        assert (opened.fetched, opened.events) == ([], [])

    check()


@each_layout
def test_the_mark_below_a_cut_text_stays_in_its_part(opened: SheetPage, layout: str) -> None:
    rows = "".join(f"| {n} | `code` {'words ' * (n % 9)}| {n} |\n" for n in range(60))
    table = f"| n | what it **means** | n |\n|--:|---|:-:|\n{rows}"
    text = "\n\n".join(["word " * 300, "- item\n" * 60, "> " + "quoted " * 200, "`code` " * 200, table])
    card = growing(1, 1, text)
    document = compose(card, IDENTITY, layouts.find(layout).arranged("html"), SOURCES)
    assert sum(part.continues for sheet in document.sheets for part in sheet.parts) >= 2
    opened.show(document)
    assert_in_place(document, opened.measured(document))

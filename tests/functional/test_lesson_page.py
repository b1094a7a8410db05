"""The lesson report in Chromium: readable, narrow enough, complete on paper, and without any request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from cardapp.card import progress
from cardapp.card.catalog import Catalog
from cardapp.card.progress import LastResult, Status
from cardapp.reports import lesson
from cardapp.state import events
from cardapp.state.events import Head
from tests.cardapp.layout.hostile import shipped
from tests.cardapp.reports.test_lesson import OBSERVED
from tests.functional.sheet_page import SheetPage, sheet_page

pytestmark = pytest.mark.functional

AT = "2025-03-01T10:00:00.000Z"
KEY = "bump/anatomy/empty/fields"
LONG = "a" * 300
EVENTS: list[tuple[str, dict[str, Any]]] = [
    *([(events.NAVIGATION_MOVED, {})] * 5),
    (events.NOTE, {"text": f"It bumps: `a.used`. {LONG}"}),
    (events.CHECKPOINT_READY, {"observed": OBSERVED, "duration_ms": 12, "generation": 3}),
    (events.CHECKPOINT_FAILED, {"observed": OBSERVED, "reason": LONG, "code": "snapshot_drift"}),
    (events.CHECKPOINT_TIMEOUT, {"reason": "It took 60 s."}),
    (events.PROGRESS_CHANGED, {"to": "approved", "note": "Yes."}),
    ("quiz", {"text": "own", "score": 3}),
]


def report() -> Iterator[str]:
    loaded = shipped("arena")
    catalog = Catalog(loaded.card)
    statuses = {KEY.replace("/", "."): Status("approved", "seen", "zoë", AT, 1)}
    results = {KEY: LastResult("ready", AT, f"{KEY}/end", None)}
    whose = {name: getattr(loaded.identity, name) for name in ("id", "version", "source_sha256")}
    events = [
        {"seq": seq, "at": AT, "kind": kind, "actor": "zoë", "key": KEY, "card": whose, "data": data, "evidence": [],
         "withdrawn": False, "hash": f"{seq:064x}"}
        for seq, (kind, data) in enumerate(EVENTS, 1)
    ]  # fmt: skip
    return lesson.render(
        identity=loaded.identity, card=loaded.card, catalog=catalog, at=AT, base_url="http://127.0.0.1:8080",
        progress=progress.overview(catalog, statuses, results), events=events, head=Head(len(EVENTS), "0" * 64),
        total=len(EVENTS), picture=lambda name: b"", current=KEY,
    )  # fmt: skip


@pytest.fixture(scope="module")
def shown(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SheetPage]:
    with sheet_page(browser, tmp_path_factory.mktemp("lesson")) as opened:
        opened.show_file(report())
        yield opened


def test_every_text_can_be_read_and_nothing_reaches_out_of_the_window(shown: SheetPage) -> None:
    shown.check_readable()
    for width in (390, 1280, 1920):
        shown.look("screen", width)
        assert shown.page.evaluate("document.documentElement.scrollWidth") == width
    loaded = "[...document.fonts].filter(one => one.status === 'loaded').map(one => one.family.replaceAll('\"', ''))"
    assert set(shown.page.evaluate(loaded)) >= {"Noto Sans", "Noto Sans Mono"}
    assert (shown.fetched, shown.events) == ([], [])


def test_a_screen_reader_gets_the_position_where_the_card_is_open(shown: SheetPage) -> None:
    section = shown.page.get_by_role("region", name="Current position")
    shapes = section.get_by_role("group", name="Activity: An arena allocator in C")
    (marked,) = [link for link in shapes.get_by_role("link").all() if link.get_attribute("aria-current") == "location"]
    assert marked.aria_snapshot().startswith('- link "1.1 What an arena is made of"')
    assert marked.get_attribute("href") == f"http://127.0.0.1:8080/#{KEY.rsplit('/', 2)[0]}"

"""The choice of a symbol: the search and its list, when the list is read again, and the change to another symbol."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page, Request, WebSocketRoute, expect

from tests.browser.market.conftest import SYMBOL, ChartPage, Tab, query
from tests.browser.market.stage import Stage, minutes, now, tick
from tests.browser.requests import answer, held

pytestmark = pytest.mark.functional

LIST = "**/api/v1/symbols"


def listed(*names: str) -> list[dict[str, Any]]:
    """Symbols as the API lists them, by name. The later in ``names``, the older is the newest trade."""
    found = [
        {"symbol": name, "aliases": [], "first": 0, "last": now() - at * 60_000, "finalized_block": None}
        for at, name in enumerate(names)
    ]
    return sorted(found, key=lambda each: str(each["symbol"]))


def with_symbols(opened: ChartPage, symbols: list[dict[str, Any]]) -> ChartPage:
    """The page with an open search, for which the API lists ``symbols``, also after a change of them."""
    answer(opened.page, LIST, {"symbols": symbols})
    opened.go(query()).drawn()
    open_again(opened)
    return opened


def open_again(opened: ChartPage) -> None:
    """Open the search until the list is read anew: an opening during a read starts no other one."""
    begun: list[str] = []

    def note(request: Request) -> None:
        if request.url.endswith("/v1/symbols"):
            begun.append(request.url)

    def is_read() -> bool:
        opened.keys("Escape", "/")
        opened.page.locator("#search").wait_for()
        return bool(begun)

    opened.page.on("requestfinished", note)
    opened.becomes(is_read)
    opened.page.remove_listener("requestfinished", note)


def rows(page: Page) -> list[str]:
    return page.locator("#matches [role=option] b").all_text_contents()


def highlighted(page: Page) -> str:
    """The name in the highlighted row, of which the search field names the id."""
    found: list[str] = page.evaluate("""() => {
      const row = document.querySelector('#matches [aria-selected=true]');
      return [row.id, document.querySelector('#search').getAttribute('aria-activedescendant'),
        row.querySelector('b').textContent];
    }""")
    assert found[0] == found[1]
    return found[2]


def test_of_three_thousand_symbols_fifty_are_drawn_and_keys_move_the_highlight(tab: Tab) -> None:
    names = [f"ETH:T{at:04}-USDC" for at in range(3000)]
    opened = with_symbols(tab(), listed(*names))
    page = opened.page
    opened.becomes(lambda: rows(page) == names[:50])  # the newest trade first
    assert page.get_by_role("listbox", name="Symbols").get_by_role("option").count() == 50
    rest = page.locator("#picker .rest")
    assert rest.inner_text().replace("\u202f", " ") == "2 950 more: type more letters"
    page.evaluate("document.querySelector('#matches').firstChild.isMine = true")
    keys = ["ArrowDown", "ArrowUp", "PageDown", "PageUp", "End", "PageDown", "ArrowDown", "ArrowUp", "Home", "PageUp"]
    for key, at in zip(keys, (1, 0, 10, 0, 49, 49, 0, 49, 0, 0), strict=True):
        opened.keys(key)
        assert highlighted(page) == names[at], key
    assert page.evaluate("document.querySelector('#matches').firstChild.isMine"), "no row is drawn again"
    page.locator("#search").fill("t29")
    assert rest.inner_text() == "50 more: type more letters"
    page.locator("#search").fill("t299")
    assert rows(page) == names[2990:]
    assert rest.is_hidden()
    opened.keys("ArrowDown", "Enter")
    opened.becomes(lambda: f"symbol={names[2991]}&" in opened.url)


def test_a_search_finds_parts_chains_and_tokens(tab: Tab) -> None:
    names = "ETH:WETH-USDC ETH:PEPE-ETH BASE:ETH-DAI ETH:USDC-DAI BASE:AERO-USDC-1a2b3c ZETH:X-Y SOL:ETHFI"
    symbols = listed(*names.split())
    symbols[0]["aliases"] = ["AERODROME"]
    opened = with_symbols(tab(), symbols)
    page = opened.page
    for typed, found in {
        "eth:": ["ETH:WETH-USDC", "ETH:PEPE-ETH", "ETH:USDC-DAI"],
        "ETH": ["ETH:PEPE-ETH", "BASE:ETH-DAI", "SOL:ETHFI", "ETH:WETH-USDC", "ETH:USDC-DAI", "ZETH:X-Y"],
        "usdc": ["ETH:WETH-USDC", "ETH:USDC-DAI", "BASE:AERO-USDC-1a2b3c"],
        "eth: usdc": ["ETH:WETH-USDC", "ETH:USDC-DAI"],
        "eth-dai": ["BASE:ETH-DAI"],
        "ethfi": ["SOL:ETHFI"],
        "th:we": ["ETH:WETH-USDC"],
        "drome": ["BASE:AERO-USDC-1a2b3c"],
        "y": ["ZETH:X-Y"],
        "ero usd": ["BASE:AERO-USDC-1a2b3c"],
    }.items():
        page.locator("#search").fill(typed)
        assert rows(page) == found, typed
    symbols[:] = listed("ETH:DAI-USD", "ETH:DAI")
    open_again(opened)
    page.get_by_role("option", name="ETH:DAI-USD").wait_for()
    page.locator("#search").fill("dai")
    assert rows(page) == ["ETH:DAI", "ETH:DAI-USD"], "an exact name comes first"


def test_new_symbols_are_in_the_list_at_once_and_are_read_together(tab: Tab) -> None:
    symbols = listed("ETH:A")
    opened = tab()
    page = opened.page
    sockets: list[WebSocketRoute] = []

    def through(socket: WebSocketRoute) -> None:
        socket.connect_to_server()
        sockets.append(socket)

    page.route_web_socket("**/api/v1/live", through)
    with_symbols(opened, symbols)
    page.get_by_role("option", name="ETH:A").wait_for()
    reads: list[str] = []
    page.on("request", lambda request: reads.append(request.url) if request.url.endswith("/v1/symbols") else None)
    for last in ("ETH:NEW", "ETH:NEWER"):
        symbols[:] = listed(last, "ETH:A")
        for _ in range(50):
            sockets[-1].send(json.dumps({"type": "symbol", "symbol": last}))
        page.get_by_role("option", name=last, exact=False).wait_for()
    assert len(reads) < 7, "many new symbols are read together"
    assert opened.legend(), "the chart goes on"


def test_the_first_view_is_the_symbol_with_the_newest_trade(tab: Tab, stage: Stage) -> None:
    stage.write(tick("DEMO:ZZZ-NEWEST", now() + 2000, "7"))
    opened = tab("")
    opened.becomes(lambda: "symbol=DEMO:ZZZ-NEWEST&" in opened.url)
    opened.page.keyboard.type("usdc")
    opened.page.get_by_role("option", name=SYMBOL).click()
    opened.becomes(lambda: f"symbol={SYMBOL}&" in opened.url)
    opened.go()
    opened.becomes(lambda: f"symbol={SYMBOL}&" in opened.url)


def test_candles_never_stand_under_the_name_of_another_symbol(tab: Tab, stage: Stage) -> None:
    stage.write(tick("DEMO:SLOW", now(), "7"))
    opened = tab(query()).drawn()
    page = opened.page
    reads = held(page, "**/api/v1/chart?symbol=DEMO%3ASLOW*")
    opened.choose("slow")
    page.get_by_text("Loading …").wait_for()
    assert page.locator("#legend").is_hidden()
    assert "bars=null" not in opened.url
    opened.keys("Alt+c")
    page.get_by_text("There are no candles in sight.").wait_for()
    opened.becomes(lambda: reads or page.evaluate("0"))
    for route in reads:
        route.continue_()
    opened.closes_at("7")


def test_a_dropped_symbol_leaves_the_page_and_comes_back_with_its_next_trade(tab: Tab, stage: Stage) -> None:
    """The chart is cleared, the search no longer lists the symbol, and the watchlist says that it is gone."""
    symbol = "ETH:GONE-USDC"
    stage.write(*minutes(symbol, now(), 50), tick("ETH:STAYS", now(), "1"))
    opened = tab(query(symbol=symbol)).drawn()
    page = opened.page
    stage.drop(symbol)
    expect(page.locator("#message")).to_contain_text("Unknown symbol")
    assert not page.evaluate("Boolean(document.querySelector('#legend')?.textContent.includes('101'))")
    opened.keys("/")
    expect(page.locator("#matches")).to_contain_text("ETH:STAYS")
    opened.becomes(lambda: symbol not in rows(page))
    opened.keys("Escape")
    stage.write(*minutes(symbol, now(), 5))
    expect(page.locator("#message")).to_be_hidden()
    opened.drawn()


CHANGE = """([before, after]) => import('/static/candles.js').then(({ Candles }) => {
  const candles = new Candles('1m', 'UTC');
  const state = { closed: false, finalized: false };
  const row = { t: 0, o: '2', h: '4', l: '1', c: '3', v: '9', q: '18', n: 5, vwap: '2', bv: '1', ...state };
  candles.put({ ...row, ...before });
  return candles.put({ ...row, ...before, ...after })?.isCorrection ?? null;
})"""


def test_a_correction_is_what_no_new_trade_can_do(blank: Page) -> None:
    changes: list[tuple[dict[str, object], dict[str, object], bool | None]] = [
        ({}, {"n": 6, "v": "10", "c": "2.5", "l": "0.5", "h": "5"}, False),
        ({}, {"n": 4, "v": "8"}, True),
        ({}, {"l": "1.5"}, True),
        ({"closed": True}, {"c": "2"}, True),
        ({"closed": True}, {"bv": "2"}, True),
        ({"closed": True}, {"finalized": True}, False),
        ({}, {"closed": True}, False),
        ({}, {}, None),
    ]
    for before, after, is_correction in changes:
        assert blank.evaluate(CHANGE, [before, after]) is is_correction, (before, after)

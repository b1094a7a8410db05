"""The choice of a symbol: the search, its list and its speed, and when the list is read again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import FloatRect, Page, Route, TimeoutError, WebSocketRoute, expect

from tests.browser.market.conftest import SYMBOL, ChartPage, Tab, query
from tests.browser.market.stage import Stage, minutes, now, tick

pytestmark = pytest.mark.functional

LONGEST = "ETH:" + "A" * 60

# Presses a key in the search 20 times. Returns the median of the milliseconds until the new rows have a place.
KEY_MS = """([key, typed]) => {
  const [input, list] = ['search', 'matches'].map((id) => document.getElementById(id));
  const taken = [];
  for (let count = 0; count < 20; count += 1) {
    const start = performance.now();
    if (key) input.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
    else {
      input.value = typed.slice(0, count % typed.length);
      input.dispatchEvent(new Event('input', { bubbles: true }));
    }
    list.getBoundingClientRect();
    taken.push(performance.now() - start);
  }
  return taken.sort((one, other) => one - other)[10];
}"""


def listed(*names: str) -> list[dict[str, Any]]:
    """Symbols as the API lists them, by name. The later in ``names``, the older is the newest trade."""
    found = [
        {"symbol": name, "aliases": [], "first": 0, "last": now() - at * 60_000, "finalized_block": None}
        for at, name in enumerate(names)
    ]
    return sorted(found, key=lambda each: str(each["symbol"]))


def with_symbols(opened: ChartPage, symbols: list[dict[str, Any]]) -> ChartPage:
    """The page with an open search, for which the API lists ``symbols``, also after a change of them."""
    page = opened.page

    def answer(route: Route) -> None:
        route.fulfill(body=json.dumps({"symbols": symbols}), content_type="application/json")

    page.route("**/api/v1/symbols", answer)
    opened.go(query()).drawn()
    open_again(page)
    return opened


def open_again(page: Page) -> None:
    """Open the search until the list is read anew: an opening during a read starts no other one."""
    for attempt in range(5):
        page.keyboard.press("Escape")
        try:
            with page.expect_response("**/api/v1/symbols", timeout=1_000 * (attempt + 1)):
                page.keyboard.press("/")
        except TimeoutError:
            continue
        return
    pytest.fail("the list is not read")


def rows(page: Page) -> list[str]:
    return page.locator("#matches [role=option] b").all_text_contents()


def place(page: Page, selector: str) -> FloatRect:
    """The place of the first element, read in one step: a locator may find a row that a new list replaces."""
    box: FloatRect = page.evaluate(
        "(selector) => document.querySelector(selector).getBoundingClientRect().toJSON()", selector
    )
    assert min(box["width"], box["height"]) > 0, f"{selector} is not visible"
    return box


def highlighted(page: Page) -> str:
    """The name in the highlighted row, of which the search field names the id."""
    row = page.locator("#matches [aria-selected=true]")
    assert page.locator("#search").get_attribute("aria-activedescendant") == row.get_attribute("id")
    return row.locator("b").text_content() or ""


@pytest.mark.full
def test_of_three_thousand_symbols_fifty_are_drawn_and_each_key_is_quick(tab: Tab) -> None:
    names = [f"ETH:T{at:04}-USDC" for at in range(3000)]
    opened = with_symbols(tab(), listed(*names))
    page = opened.page
    assert page.get_by_role("listbox", name="Symbols").get_by_role("option").count() == 50
    assert rows(page) == names[:50], "the newest trade first"
    assert page.locator("#picker .rest").inner_text().replace("\u202f", " ") == "2 950 more: type more letters"
    page.evaluate("document.querySelector('#matches').firstChild.isMine = true")
    for key in ("ArrowDown", "ArrowUp", "PageDown", "End"):
        assert page.evaluate(KEY_MS, [key, ""]) < 16, key
    assert page.evaluate("document.querySelector('#matches').firstChild.isMine"), "no row is drawn again"
    rounds = [page.evaluate(KEY_MS, ["", "t29 usdc"]) for _ in range(4)]
    assert min(rounds) < 16, "other programs may slow one of them"
    page.locator("#search").fill("t29")
    assert page.locator("#picker .rest").inner_text() == "50 more: type more letters"
    page.locator("#search").fill("t299")
    assert rows(page) == names[2990:]
    assert page.locator("#picker .rest").is_hidden()


def test_keys_move_the_highlight(tab: Tab) -> None:
    names = [f"ETH:T{at:04}-USDC" for at in range(60)]
    opened = with_symbols(tab(), listed(*names))
    page = opened.page
    keys = ["ArrowDown", "ArrowUp", "PageDown", "PageUp", "End", "PageDown", "ArrowDown", "ArrowUp", "Home", "PageUp"]
    for key, at in zip(keys, (1, 0, 10, 0, 49, 49, 0, 49, 0, 0), strict=True):
        page.keyboard.press(key)
        assert highlighted(page) == names[at], key
        row, box = place(page, "#matches [aria-selected=true]"), place(page, "#matches")
        assert box["y"] <= row["y"] <= box["y"] + box["height"] - row["height"], "it is in sight"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    opened.becomes(lambda: f"symbol={names[1]}&" in opened.url)


def test_a_search_finds_parts_chains_and_tokens(tab: Tab) -> None:
    names = "ETH:WETH-USDC ETH:PEPE-ETH BASE:ETH-DAI ETH:USDC-DAI BASE:AERO-USDC-1a2b3c ZETH:X-Y SOL:ETHFI"
    symbols = listed(*names.split())
    symbols[0]["aliases"] = ["AERODROME"]
    page = with_symbols(tab(), symbols).page
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
    open_again(page)
    page.get_by_role("option", name="ETH:DAI-USD").wait_for()
    page.locator("#search").fill("dai")
    assert rows(page) == ["ETH:DAI", "ETH:DAI-USD"], "an exact name comes first"


@pytest.mark.full
def test_opening_the_search_reads_the_list_again(tab: Tab) -> None:
    opened = with_symbols(tab(), listed("ETH:A", "ETH:B"))
    page = opened.page
    page.keyboard.press("Escape")
    held: list[Route] = []
    page.unroute_all()
    page.route("**/api/v1/symbols", lambda route: held.append(route))  # noqa: PLW0108 - Playwright calls no built-in
    page.keyboard.press("/")
    opened.becomes(lambda: held or page.wait_for_timeout(10))
    assert rows(page) == ["ETH:A", "ETH:B"], "the old list is shown meanwhile"
    page.keyboard.press("ArrowDown")
    held[0].fulfill(body=json.dumps({"symbols": listed("ETH:NEW", "ETH:B", "ETH:A")}), content_type="application/json")
    opened.becomes(lambda: rows(page) == ["ETH:NEW", "ETH:B", "ETH:A"])
    assert highlighted(page) == "ETH:B", "Enter still takes what was highlighted"


def test_a_failed_read_of_the_list_leaves_the_chart(tab: Tab) -> None:
    opened = with_symbols(tab(), listed("ETH:A"))
    page = opened.page
    page.unroute_all()
    page.route("**/api/v1/symbols", lambda route: route.fulfill(status=503, body="{}", content_type="application/json"))
    open_again(page)
    page.wait_for_timeout(200)
    assert rows(page) == ["ETH:A"]
    assert page.locator("#message").is_hidden()


def test_a_new_symbol_is_in_the_list_at_once(tab: Tab) -> None:
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
    symbols[:] = listed("ETH:NEW", "ETH:A")
    for _ in range(50):
        sockets[-1].send(json.dumps({"type": "symbol", "symbol": "ETH:NEW"}))
    page.get_by_role("option", name="ETH:NEW").wait_for()
    page.wait_for_timeout(1500)
    assert len(reads) < 5, "many new symbols are read together"
    assert opened.legend(), "the chart goes on"


@pytest.mark.full
def test_the_first_view_is_the_symbol_with_the_newest_trade(tab: Tab, stage: Stage) -> None:
    stage.write(tick("DEMO:ZZZ-NEWEST", now() + 2000, "7"))
    opened = tab("")
    opened.becomes(lambda: "symbol=DEMO:ZZZ-NEWEST&" in opened.url)
    opened.page.keyboard.type("usdc")
    opened.page.get_by_role("option", name=SYMBOL).click()
    opened.becomes(lambda: f"symbol={SYMBOL}&" in opened.url)
    opened.go()
    opened.becomes(lambda: f"symbol={SYMBOL}&" in opened.url)


@pytest.mark.full
@pytest.mark.parametrize("width", [390, 721, 1280])
def test_the_longest_name_fits(tab: Tab, stage: Stage, width: int) -> None:
    stage.write(tick(LONGEST, now(), "1"))
    opened = tab(query(LONGEST))
    page = opened.page
    page.set_viewport_size({"width": width, "height": 720})
    opened.drawn()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("#symbol-name").get_attribute("title") == LONGEST
    for control in ("#symbol", "#live"):
        box = place(page, control)
        assert box["x"] >= 0, control
        assert box["x"] + box["width"] <= width, control
    assert place(page, "#symbol-name")["width"] > 60, "its beginning can be read"
    if width == 1280:
        last = place(page, "#help")
        assert last["x"] + last["width"] <= place(page, "#live")["x"], "it leaves the room of the others"
    page.locator("#symbol").click()
    page.locator("#search").fill("aaaa")
    row = page.locator("#matches [role=option]")
    assert row.locator("b").get_attribute("title") == LONGEST
    assert row.evaluate("(row) => row.scrollWidth <= row.clientWidth")
    age, dialog = place(page, "#matches .age"), place(page, "#picker")
    assert age["x"] + age["width"] <= dialog["x"] + dialog["width"]


@pytest.mark.full
def test_a_dropped_symbol_leaves_the_page_and_comes_back_with_its_next_trade(tab: Tab, stage: Stage) -> None:
    """The chart is cleared, the search no longer lists the symbol, and the watchlist says that it is gone."""
    symbol = "ETH:GONE-USDC"
    stage.write(*minutes(symbol, now(), 50), tick("ETH:STAYS", now(), "1"))
    opened = tab(query(symbol=symbol)).drawn()
    page = opened.page
    stage.drop(symbol)
    expect(page.locator("#message")).to_contain_text("Unknown symbol")
    assert not page.evaluate("Boolean(document.querySelector('#legend')?.textContent.includes('101'))")
    page.keyboard.press("/")
    expect(page.locator("#matches")).to_contain_text("ETH:STAYS")
    assert symbol not in rows(page)
    page.keyboard.press("Escape")
    stage.write(*minutes(symbol, now(), 5))
    expect(page.locator("#message")).to_be_hidden()
    opened.drawn()

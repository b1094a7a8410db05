"""The chart: live candles, older candles, coverage, and the state of the connection and the login."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from playwright.sync_api import APIResponse, Response, Route

from tests.browser.market.conftest import ChartPage, Tab, query, settled
from tests.browser.market.stage import HOUR, MINUTE, Stage, minutes, now, tick

pytestmark = pytest.mark.functional


@pytest.mark.full
def test_the_crosshair_finds_the_nearest_of_narrow_candles(tab: Tab, stage: Stage, loops: Callable[..., int]) -> None:
    symbol, end = "DEMO:SPARSE", now() // MINUTE * MINUTE
    stage.write(*(tick(symbol, end - at * 5 * MINUTE, "100") for at in range(300)))
    opened = tab(query(symbol, bars=1100)).drawn()
    page = opened.page
    for x in range(100, 1100, loops(quick=111, full=37)):
        page.mouse.move(x, 300)
        opened.becomes(lambda: opened.legend().get("C") == "100")
        time = page.locator("#legend-time").text_content() or ""
        assert int(time[-2:]) % 5 == end // MINUTE % 5, "the time is that of the candle"
    opened.go(query(symbol, bars=100)).drawn()
    page.mouse.move(100, 300)
    wide = set()
    for x in range(100, 240, 14):
        page.mouse.move(x, 300)
        wide.add(page.locator("#legend-values").text_content())
    assert "no trades" in wide, "where a bar is wide, the pointer reads its own bucket"


def test_the_page_shows_candles_with_every_digit_and_the_user(tab: Tab, stage: Stage) -> None:
    symbol = "DEMO:LONG-DIGITS"
    price = "2503.123456789012345678901234567891"
    stage.write(tick(symbol, now() - HOUR, "0.000000000000000001"), tick(symbol, now(), price, "0.000000000000000007"))
    opened = tab(query(symbol, "1h")).drawn()
    last = stage.read(f"/v1/chart?symbol={quote(symbol)}&interval=1h&limit=1")["candles"][0]
    assert opened.legend() == {name.upper(): last[name] for name in "ohlcv"} | {"n": "1"}
    assert last["c"] == price
    assert opened.page.locator("#user").text_content() == stage.user
    assert opened.page.locator("#demo").is_visible()
    assert opened.page.get_by_role("link", name="Apache License 2.0").is_visible()
    assert opened.page.locator("#chart a[href*='tradingview.com']").is_visible(), "the library's own attribution"


def test_a_trade_appears_live_and_its_retraction_corrects_the_candle(tab: Tab, stage: Stage) -> None:
    symbol = "DEMO:LIVE"
    start = now()
    stage.write(tick(symbol, start - 1000, "100", block=1))
    opened = tab(query(symbol, "1d")).drawn()
    opened.page.keyboard.press("Alt+t")
    opened.page.locator("#trade-rows tr").wait_for()
    before = opened.legend()
    stage.write(tick(symbol, start, "120.5", "2", block=2))
    opened.becomes(lambda: opened.legend()["C"] == "120.5")
    assert (opened.legend()["n"], opened.legend()["V"]) == ("2", "3")
    # The trade arrives in a message of its own, which may be later than that of the candle.
    opened.page.locator("#trade-rows tr").first.filter(has_text="120.52").wait_for()
    stage.write({"retract": {"symbol": symbol, "block_hash": "0x2"}})
    opened.becomes(lambda: opened.legend() == before)
    opened.page.locator("#legend .corrected").wait_for()
    opened.page.locator("#trade-rows tr.retracted").wait_for()
    assert opened.page.locator("#trade-rows tr").count() == 2


def test_a_trade_that_arrives_during_a_revalidation_is_kept(tab: Tab, stage: Stage) -> None:
    symbol, start = "DEMO:AGAIN", now()
    stage.write(tick(symbol, start - 1000, "100"))
    opened = tab()
    page = opened.page
    frames: list[str] = []
    page.on("websocket", lambda made: made.on("framereceived", lambda frame: frames.append(str(frame))))
    opened.go(query(symbol, "1d")).drawn()
    held: list[tuple[Route, APIResponse]] = []
    page.route("**/api/v1/chart?*", lambda route: held.append((route, route.fetch())), times=1)
    page.keyboard.press("Alt+r")
    opened.becomes(lambda: held or page.evaluate("0"))
    stage.write(tick(symbol, start, "120.5"))
    opened.becomes(lambda: page.evaluate("0") or any("120.5" in each for each in frames))
    page.route("**/api/v1/chart?*", lambda route: route.abort())  # so that the trade can arrive only by a live message
    held[0][0].fulfill(response=held[0][1])
    opened.becomes(lambda: opened.legend()["C"] == "120.5")
    page.unroute("**/api/v1/chart?*")


@pytest.mark.full
def test_many_candles_are_scrolled_without_an_error_and_read_once(tab: Tab, stage: Stage) -> None:
    """There are more candles than the page keeps."""
    symbol, second, count = "DEMO:MANY", 1000, 62_000
    start = now() // second * second - count * second
    stage.write(*(tick(symbol, start + at * second, f"{100 + at % 7}") for at in range(count)))
    opened = tab(query(symbol, "1s", bars=1200)).drawn()
    kept = 0
    for _ in range(60):
        for _ in range(20):
            opened.page.keyboard.press("ArrowLeft")
        kept = max(kept, opened.page.evaluate("import('/static/feed.js').then((feed) => feed.candles().rows.length)"))
    assert kept == 50_000
    asked = requests_when_quiet(opened)
    ends = [each for each in asked if "endTime" in each]
    assert len(ends) == len(set(ends)), "the page asked again for candles that it has"


def requests_when_quiet(opened: ChartPage) -> list[str]:
    for _ in range(15):
        before = len(opened.chart_requests)
        opened.page.wait_for_timeout(2500)
        if before == len(opened.chart_requests):
            return opened.chart_requests
    pytest.fail(f"still reading after {len(opened.chart_requests)} requests")


@pytest.mark.full
def test_a_candle_that_can_still_change_is_lighter(tab: Tab, stage: Stage) -> None:
    symbol, start = "DEMO:FINALITY", now() // MINUTE * MINUTE - 200 * MINUTE
    stage.write(
        *(tick(symbol, start + at * MINUTE + part, str(100 + at % 7 + part), block=at + 1, at=part)
          for at in range(200) for part in (0, 1)),
        {"finalize": {"symbol": symbol, "block": 100}},
    )  # fmt: skip
    opened = tab(query(symbol, bars=220)).drawn()
    final, open_ones = (0.05, 0.4), (0.55, 0.9)
    assert opened.has_pixels("var(--up)", *final)
    assert opened.pixels("var(--up)", *open_ones) == 0, "nothing there is final"
    stage.write({"finalize": {"symbol": symbol, "block": 190}})
    assert opened.has_pixels("var(--up)", *open_ones), "finality arrives live"


@pytest.mark.full
def test_older_candles_are_read_once_before_they_become_visible(tab: Tab, stage: Stage) -> None:
    symbol = "DEMO:PAST"
    stage.write(*minutes(symbol, now(), 4000))
    oldest = stage.read(f"/v1/chart?symbol={quote(symbol)}&interval=1m&startTime=0&limit=1")["candles"][0]["t"]
    opened = tab(query(symbol, bars=500)).drawn()

    def drag_to_the_right() -> bool:
        opened.page.mouse.move(150, 300)
        opened.page.mouse.down()
        opened.page.mouse.move(1050, 300, steps=6)
        opened.page.mouse.up()
        assert opened.pixels("var(--up)", 0, 0.5), "a pan shows an empty screen"
        shown = opened.page.evaluate("Date.parse(new URLSearchParams(location.search).get('from'))")
        return shown is not None and shown < oldest + 700 * MINUTE

    opened.becomes(drag_to_the_right)
    asked = [parse_qs(urlsplit(each).query) for each in opened.chart_requests]
    assert len(asked) >= 4
    ends = [int(each["endTime"][0]) for each in asked if "endTime" in each]
    assert ends == sorted(set(ends), reverse=True), "each part is asked for once"
    again = [each for each in asked if "startTime" in each]
    assert len(again) <= 1, "the page asked again for candles that it has"


@pytest.mark.full
def test_times_that_were_not_indexed_are_hatched_but_times_without_trades_are_not(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:GAPS", now() // MINUTE * MINUTE
    start = end - 200 * MINUTE
    traded = [*range(40), *range(80, 120), *range(160, 200)]
    stage.write(*(tick(symbol, start + at * MINUTE, str(100 + at % 5)) for at in traded))
    stage.cover(symbol, start, start + 120 * MINUTE)
    stage.cover(symbol, start + 160 * MINUTE, end + HOUR)
    time = "(ms) => new Date(ms).toISOString()"
    opened = tab()
    page = opened.page
    opened.go(query(symbol, **{"from": page.evaluate(time, start), "to": page.evaluate(time, end)})).drawn()
    hatch = ("color-mix(in srgb, var(--ink-soft) 30%, var(--paper))", 40)
    opened.becomes(lambda: hatched(opened, 0.62, 0.78, hatch) > 500)
    assert hatched(opened, 0.24, 0.36, hatch) < hatched(opened, 0.62, 0.78, hatch) / 4
    opened.page.mouse.move(300, 300)
    x = opened.page.locator("#chart").bounding_box()
    assert x
    opened.page.mouse.move(x["width"] * 0.28, 300)
    opened.page.locator("#legend", has_text="no trades").wait_for()
    opened.page.mouse.move(x["width"] * 0.66, 300)
    opened.page.locator("#legend", has_text="not indexed").wait_for()


@pytest.mark.full
def test_the_key_of_the_hatching_is_shown_while_hatching_is_visible(tab: Tab, stage: Stage) -> None:
    symbol, end = "DEMO:COVERED", now() // MINUTE * MINUTE
    stage.write(*(tick(symbol, end - at * MINUTE, "100") for at in range(300)))
    stage.cover(symbol, end - 250 * MINUTE, end + HOUR)
    opened = tab(query(symbol)).drawn()
    key = opened.page.locator("#hatched-key")
    settled(opened)
    assert key.is_hidden()
    for _ in range(20):
        opened.page.keyboard.press("ArrowLeft")
    key.wait_for()
    opened.page.keyboard.press("End")
    key.wait_for(state="hidden")


def hatched(opened: ChartPage, start: float, end: float, colour: tuple[str, int]) -> int:
    return opened.pixels(colour[0], start, end, colour[1])


def test_loaded_candles_are_revalidated_by_their_entity_tag(tab: Tab, stage: Stage) -> None:
    symbol = "DEMO:TAGGED"
    stage.write(tick(symbol, now() - 1000, "100"))
    opened = tab()
    page = opened.page
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer) if "/api/v1/chart?" in answer.url else None)
    opened.go(query(symbol, "1d")).drawn()

    def asked() -> list[tuple[int, str | None]]:
        page.evaluate("0")
        of_symbol = [each for each in answers if quote(symbol) in each.url or symbol in each.url]
        return [(each.status, each.request.all_headers().get("if-none-match")) for each in of_symbol]

    opened.becomes(lambda: len(asked()) >= 2)
    tag = answers[0].all_headers()["etag"]
    assert asked()[:2] == [(200, None), (304, tag)]


@pytest.mark.full
def test_the_chart_recovers_when_the_api_is_back(tab: Tab, stage: Stage) -> None:
    symbol = "DEMO:RECOVERED"
    stage.write(tick(symbol, now(), "100"))
    opened = tab(query(symbol, "1d")).drawn()
    page = opened.page
    before = opened.legend()
    stage.api.stop()
    page.locator("#live.offline", has_text="offline, last").wait_for()
    assert opened.legend() == before
    page.keyboard.type("15")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="The data API does not answer").wait_for()
    stage.restart_api()
    stage.write(tick(symbol, now(), "777.25"))
    opened.becomes(lambda: opened.legend().get("C") == "777.25")
    page.locator("#live.live").wait_for()
    assert page.locator("#message").is_hidden()


@pytest.mark.full
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_after_the_logout_has_a_style_and_a_link(tab: Tab, scheme: Literal["light", "dark"]) -> None:
    opened = tab(query()).drawn()
    page = opened.page
    page.emulate_media(color_scheme=scheme)
    look = """(query) => {
      const { backgroundColor, color, fontFamily } = getComputedStyle(document.querySelector(query));
      return [backgroundColor, color, fontFamily];
    }"""
    chart = page.evaluate(look, "body")
    page.get_by_role("link", name="Log out").click()
    back = page.get_by_role("link", name="Log in again")
    back.wait_for()
    assert page.evaluate(look, "body") == chart
    assert page.evaluate("getComputedStyle(document.querySelector('h1')).fontSize") == "15px"
    back.click()
    opened.drawn()


@pytest.mark.full
def test_after_the_login_expired_a_dialog_opens_over_the_chart(tab: Tab, stage: Stage) -> None:
    symbol = "DEMO:EXPIRED"
    stage.write(tick(symbol, now(), "100"))
    opened = tab(query(symbol)).drawn()
    page = opened.page
    before = opened.legend()
    stage.change_password("another one entirely")
    page.keyboard.type("5")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Log in again")
    dialog.wait_for()
    assert opened.legend().keys() == before.keys(), "the view stays"
    dialog.get_by_label("Password").fill("a wrong one")
    page.keyboard.press("Enter")
    dialog.get_by_text("Wrong user name or password.").wait_for()
    dialog.get_by_label("Password").fill(stage.password)
    page.keyboard.press("Enter")
    dialog.wait_for(state="hidden")
    opened.drawn()
    opened.becomes(lambda: "interval=5m" in opened.url)
    stage.write(tick(symbol, now(), "555.5"))
    opened.becomes(lambda: opened.legend()["C"] == "555.5")

"""Predictions judged by meaning, on the page: how a value is read before, what was left empty, the notation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Tab, becomes
from tests.functional.program_cards import ProgramCard
from tests.functional.serving import Stage, running_stage, until

pytestmark = pytest.mark.functional

BUILD = """
prog: main.c
	$(CC) -g3 -O0 -o $@ main.c
"""
SOURCES = {
    "main.c": """
#define MASK 0x40
enum state { IDLE, BUSY };
struct item { const char *name; struct item *next; };

int main(void)
{
    int count = 8, mask = MASK, odd;
    enum state state = BUSY;
    struct item *end = 0;
    const char *text = "alice";
    int three[3] = {1, 2, 3};
    (void)&odd;
    count++; /* first */
    return count + mask + three[0] + text[0] + state + (end == 0); /* second */
}
""",
}
EXPECTED = {
    "count": 8,
    "mask": {"value": "0x40", "format": "x"},
    "state": "BUSY",
    "end": "0x0",
    "text": '"alice"',
    "three": "{1, 2, 3}",
}
STEP = "t1/b1/p1/s1"


def meaning_card(folder: Path) -> Path:
    card = ProgramCard(folder, BUILD, SOURCES)
    step = card.document["tasks"][0]["blocks"][0]["phases"][0]["steps"][0]
    first = {"id": "first", "title": "First", "stop": card.at("/* first */", "main.c"), "expect": EXPECTED}
    second = {"id": "second", "title": "Second", "stop": card.at("/* second */", "main.c"), "expect": {"count": 9}}
    step["snapshots"] = [first, second | {"ask": ["count", "mask", "state"]}]
    card.document["tasks"][0]["blocks"][0]["phases"][0]["steps"].insert(0, step | {"id": "again", "title": "Again"})
    card.write()
    return folder


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with running_stage(meaning_card) as stage:
        yield stage


def field(page: Page, name: str) -> Any:
    return page.get_by_role("textbox", name=name, exact=True)


def reading(page: Page, name: str) -> Any:
    """What stands beside the field, by which a screen reader describes it."""
    return page.locator(f"#{field(page, name).get_attribute('aria-describedby')}")


def row(page: Page, name: str) -> Any:
    return page.locator("#foot").get_by_role("row").filter(has=page.get_by_role("rowheader", name=name, exact=True))


def test_a_value_is_read_before_it_is_predicted_and_judged_by_what_it_means(tab: Tab, stage: Stage) -> None:
    opened = tab(f"#/{STEP}/first")
    page = opened.page
    place = field(page, "count").bounding_box()
    typed = {
        "count": ("8u", "reads 8"), "mask": ("64", ""), "state": ("1", "reads BUSY"), "end": ("NULL", "reads 0x0"),
        "text": ("alice", ""), "three": ("{1,0x2,3}", "reads {1, 2, 3}"),
    }  # fmt: skip
    field(page, "count").fill("sizeof(enum state) * 2")  # also before the program has run
    field(page, "mask").fill("MASK")
    expect(reading(page, "count")).to_have_text("reads 8")
    expect(reading(page, "mask")).to_have_text("reads 64")
    for name, (text, _) in typed.items():
        field(page, name).fill(text)
    for name, (_, words) in typed.items():
        expect(reading(page, name)).to_have_text(words)
    field(page, "end").fill("eight")
    expect(reading(page, "end")).to_have_text(re.compile("^this is no value"))
    assert reading(page, "end").get_attribute("aria-live") == "polite"
    assert field(page, "count").bounding_box() == place, "the readings move nothing"
    field(page, "end").fill("null")
    expect(reading(page, "end")).to_have_text("reads 0x0")
    opened.keys("Enter", "Enter")
    opened.button("Next").wait_for()
    expect(page.locator("#foot")).to_contain_text("6 of 6 right")
    assert row(page, "mask").inner_text().split() == ["mask", "0x40", "✓", "0x40"]
    assert row(page, "mask").locator("[title='64']").count() == 2
    assert row(page, "count").inner_text().split() == ["count", "8", "✓", "8"]
    (item,) = stage.tcp.get(f"/api/answers?key={STEP}/first")["items"]
    assert item["right_first"] is True


def test_an_empty_field_is_asked_for_once_and_never_right(tab: Tab, stage: Stage) -> None:
    opened = tab(f"#/{STEP}/second")
    page = opened.page
    foot = page.locator("#foot")
    field(page, "mask").fill("MASK")
    expect(reading(page, "mask")).to_have_text("reads 64")
    field(page, "count").fill("0x9")
    opened.button("Predict").click()
    foot.get_by_text("A value is empty").wait_for()
    expect(field(page, "state")).to_be_focused()
    assert stage.tcp.get(f"/api/answers?key={STEP}/second")["items"] == []
    opened.button("Predict anyway").click()
    opened.button("Run to the stop").click()
    opened.button("Next").wait_for()
    expect(foot).to_contain_text("2 of 3 right")
    assert row(page, "state").inner_text().split() == ["state", "left", "empty", "✗", "BUSY"]
    assert row(page, "count").inner_text().split() == ["count", "0x9", "✓", "0x9"]
    assert row(page, "count").locator("[title='9']").count() == 2
    (item,) = stage.tcp.get(f"/api/answers?key={STEP}/second")["items"]
    assert item["right_first"] is False
    assert [(each["right"], each["empty"]) for each in item["predictions"]] == [
        (True, False),
        (True, False),
        (False, True),
    ]
    opened.button("Next").click()
    results = page.get_by_role("region", name="Results")
    until(lambda: "state: left empty, it is BUSY" in results.inner_text())


CUT = """() => [...document.querySelectorAll('#foot .understood')].filter((each) =>
  each.scrollWidth > each.clientWidth || each.scrollHeight > each.clientHeight + 1).map((each) => each.textContent)"""
IN_SIGHT = """() => {
  const [values, table] = ['#foot-values', '#foot .rows'].map((each) => document.querySelector(each));
  const [above, top] = [values, table].map((each) => each.getBoundingClientRect().top);
  return values.scrollHeight > values.clientHeight && top >= above;
}"""


def test_predicting_again_asks_once_for_empty_fields_and_stays_at_the_stop(tab: Tab, stage: Stage) -> None:
    stop = STEP.replace("s1", "again") + "/first"
    opened = tab(f"#/{stop}")
    page = opened.page
    page.set_viewport_size({"width": 1280, "height": 480})  # the fields do not fit into the foot
    for name in EXPECTED:
        field(page, name).fill("True, or whatever it was")
    expect(reading(page, "three")).to_have_text(re.compile("^this is no value: write all parts"))
    assert page.evaluate(CUT) == []
    opened.keys("Enter", "Enter")
    opened.button("Next").wait_for()
    becomes(page, IN_SIGHT)
    opened.button("Predict again").click()
    for _ in range(2):
        assert page.evaluate("location.hash") == f"#/{stop}"
        expect(field(page, "count")).to_be_focused()
        opened.keys("Enter")
        page.get_by_text("6 values are empty").wait_for()
        opened.keys("Enter")
        opened.button("Run to the stop").click()
        opened.button("Next").wait_for()
        assert [row(page, name).inner_text().split()[1:3] for name in EXPECTED] == [["left", "empty"]] * 6
        opened.button("Predict again").click()
    for name, text in {
        "count": "8",
        "mask": "64",
        "state": "BUSY",
        "end": "0",
        "text": "alice",
        "three": "{1,2,3}",
    }.items():
        field(page, name).fill(text)
    opened.keys("Enter", "Enter")
    expect(page.locator("#foot")).to_contain_text("6 of 6 right")
    opened.button("Predict again").click()
    field(page, "count").fill("8")  # the same again is a prediction, too
    opened.keys("Enter", "Enter")
    opened.button("Run to the stop").wait_for()
    until(lambda: stage.tcp.get(f"/api/answers?key={stop}")["items"][0]["tries"] == 5)

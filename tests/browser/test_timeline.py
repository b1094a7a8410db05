"""The timeline of events over the sheets: the events that it shows, and the notes and pictures that are added."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import FIRST, Tab
from tests.functional.serving import Stage, until

pytestmark = [pytest.mark.functional, pytest.mark.usefixtures("fresh_place")]

HOSTILE = "<img src=x onerror=window.pwned=1>"
OTHER = "alignment/padding/types/char-double"
PASTE = """async (kind) => {
  const canvas = Object.assign(document.createElement('canvas'), { width: 40, height: 20 });
  canvas.getContext('2d').fillRect(5, 5, 10, 10);
  const file = new File([await new Promise((done) => { canvas.toBlob(done); })], 'x.png', { type: 'image/png' });
  const carried = new DataTransfer();
  carried.items.add(file);
  const options = { clipboardData: carried, dataTransfer: carried, bubbles: true, cancelable: true };
  document.body.dispatchEvent(kind === 'paste' ? new ClipboardEvent(kind, options) : new DragEvent(kind, options));
}"""


def opened(tab: Tab) -> Page:
    page = tab().page
    page.get_by_role("button", name="Events", exact=True).click()
    page.get_by_role("region", name="Events").wait_for()
    return page


def entries(page: Page) -> Locator:
    return page.get_by_role("list", name="Events, newest first").get_by_role("listitem")


def add(page: Page, text: str) -> None:
    page.get_by_role("textbox", name="Note, or caption of the picture").fill(text)
    page.keyboard.press("Enter")
    entries(page).filter(has_text=text).first.wait_for()


def newest(stage: Stage) -> dict[str, Any]:
    found: dict[str, Any] = stage.tcp.get("/api/events?before=9007199254740991&limit=1")["events"][0]
    return found


def noted(stage: Stage, actor: str, key: str, text: str) -> None:
    body = {"kind": "note", "actor": actor, "key": key, "text": text}
    assert stage.tcp.post("/api/events", body).status == 201


def test_a_note_is_added_and_withdrawn_with_a_reason(tab: Tab, stage: Stage) -> None:
    page = opened(tab)
    add(page, HOSTILE)
    expect(entries(page).first).to_contain_text(HOSTILE)
    event = newest(stage)
    assert (event["kind"], event["key"], event["data"]["text"]) == ("note", FIRST, HOSTILE)
    assert page.evaluate("window.pwned") is None
    add(page, "A slip of the pen")
    note = newest(stage)["seq"]
    page.get_by_role("button", name=f"Withdraw entry {note}").click()
    page.keyboard.type("wrong step")
    page.keyboard.press("Enter")
    entries(page).filter(has_text=f"Entry {note} was withdrawn").wait_for()
    assert page.get_by_role("button", name=f"Withdraw entry {note}").count() == 0
    event = newest(stage)
    assert (event["kind"], event["data"]) == ("event.withdrawn", {"event_seq": note, "reason": "wrong step"})
    assert "A slip of the pen" not in stage.tcp.request("GET", "/api/report/lesson.html").body.decode()


def test_pictures_are_pinned_with_their_captions(tab: Tab, stage: Stage) -> None:
    page = tab().page
    for way in ("paste", "drop"):
        page.evaluate(PASTE, way)
        page.get_by_role("img", name="The picture that is added").wait_for()
        add(page, f"By {way}")
        page.get_by_role("img", name=f"By {way}").wait_for()
        assert newest(stage)["evidence"][0]["width"] == 40, way
    page.get_by_role("button", name="Picture of the editor").click()
    page.get_by_role("img", name="The editor at 1.1.1.1").first.wait_for()
    assert newest(stage)["evidence"][0]["height"] > 200


def test_the_events_follow_what_happens_and_lead_to_its_place(tab: Tab, stage: Stage) -> None:
    page = tab().page
    region = page.get_by_role("region", name="Events")
    for _ in range(2):
        page.keyboard.press("Alt+9")
        region.wait_for()
        page.keyboard.press("Escape")
        region.wait_for(state="hidden")
    page.keyboard.press("Alt+9")
    region.wait_for()
    noted(stage, "api", OTHER, "over there")
    assert stage.tcp.put("/api/viewer/state", {"scale": 1.5}).status == 200  # the control state changes
    entry = entries(page).filter(has_text="over there")
    entry.get_by_role("link").click()
    region.wait_for(state="hidden")
    until(lambda: stage.tcp.get("/api/navigation/current")["key"] == OTHER)

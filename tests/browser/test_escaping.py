"""Hostile texts from every source are shown on the page as plain text; nothing in them is executed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browser.conftest import OpenPage, becomes
from tests.browser.requests import answer
from tests.functional.serving import Stage, make_card, position, running_stage, until
from tests.functional.session_neovim import Neovim

pytestmark = pytest.mark.functional

IMAGE = "<img src=x onerror=window.pwned=1>"
SCRIPT = "</style></script><script>window.pwned=2</script>"
LINK = "[go](javascript:window.pwned=3)"
HOSTILE = f"{IMAGE} {SCRIPT} {LINK}"
WATCH = """
window.violations = [];
addEventListener('securitypolicyviolation', (event) => violations.push(event.violatedDirective));
"""
SHOWN = "[document.body.textContent, sheets.shadowRoot.textContent].join('\\n')"


def hostile_card(folder: Path) -> Path:
    """A card in which all texts are hostile, and whose program has a hostile value."""
    make_card(folder)
    code = folder / "src" / "main.c"
    lines = code.read_text().splitlines()
    lines[lines.index("static int n;")] = f'static int n; char evil[] = "{HOSTILE}"; /* {HOSTILE} */'
    code.write_text("\n".join(lines) + "\n")
    path = folder / "card_source.json"
    source = json.loads(path.read_text())
    source |= {"title": f"card {HOSTILE}", "text": f"text {HOSTILE}"}
    task = source["tasks"][0]
    block = task["blocks"][0]
    phase = block["phases"][0]
    for name, part in (("task", task), ("block", block), ("phase", phase)):
        part |= {"title": f"{name} {HOSTILE}", "text": f"text of the {name} {HOSTILE}"}
    block["goal"] = f"goal {HOSTILE}"
    block.pop("text")
    for step in phase["steps"]:
        step |= {"title": f"step {HOSTILE}", "text": f"text of the step {HOSTILE}", "question": f"question {HOSTILE}?"}
        step["code"] = {"file": "main.c", "from": 1, "to": 8}
        for snapshot in step["snapshots"]:
            snapshot |= {"title": f"snapshot {HOSTILE}", "watch": ["evil"]}
            snapshot |= {"hints": [f"hint {HOSTILE}"], "explanation": f"explanation {HOSTILE}"}
    path.write_text(json.dumps(source))
    return folder


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with running_stage(hostile_card) as stage:
        yield stage


class Watched(OpenPage):
    """A page with a record of everything that a hostile text could have done."""

    def __init__(self, context: BrowserContext, stage: Stage) -> None:
        super().__init__(context.new_page())
        self.stage = stage
        self.done: list[str] = []
        self.page.add_init_script(WATCH)
        self.page.on("dialog", lambda dialog: (self.done.append(f"dialog {dialog.message}"), dialog.dismiss()))
        self.page.on("popup", lambda popup: self.done.append(f"window {popup.url}"))
        self.page.on("request", lambda request: self._asked(request.url))

    def _asked(self, url: str) -> None:
        if url.endswith("/x"):  # the picture of a hostile text
            self.done.append(f"request {url}")

    def at(self, step: str) -> OpenPage:
        assert self.stage.tcp.put("/api/navigation/current", position(step)).status == 200
        self.page.goto(f"http://127.0.0.1:{self.stage.service.listener.port}/")
        return self.ready()

    def unharmed(self) -> None:
        assert self.page.evaluate("window.pwned") is None
        assert self.page.evaluate("violations") == []
        assert self.done + self.faults == []


@pytest.fixture
def watched(context: BrowserContext, stage: Stage) -> Watched:
    return Watched(context, stage)


def test_texts_of_a_card_are_shown_as_text(watched: Watched) -> None:
    watched.at("quick")
    page = watched.page
    watched.button("Hint").click()
    becomes(page, f"(text) => {SHOWN}.includes(text)", f"hint {IMAGE} {SCRIPT}")
    watched.keys("F2")
    watched.shows("SYNC ON · at this step")
    page.get_by_role("tab", name="Map").click()
    page.locator("#map svg").wait_for()
    page.get_by_label("Search titles and code").fill("pwned")
    page.locator("#matches button").first.wait_for()
    shown = page.evaluate(SHOWN)
    for part in ("card", "task", "block", "step", "snapshot", "question", "goal", "text of the step", "explanation"):
        assert f"{part} {IMAGE} {SCRIPT}" in shown, part
    assert "static int n; char evil[]" in shown
    assert page.locator("a[href^='javascript:' i]").count() == 0
    watched.unharmed()


def test_refusals_notes_answers_and_events_are_shown_as_text(watched: Watched, stage: Stage) -> None:
    for kind in ("note", "x-answer"):
        event = {"kind": kind, "text": HOSTILE, "actor": IMAGE, "key": "t1/b1/p1/drifted"}
        assert stage.tcp.post("/api/events", event).status in {200, 201}
    watched.at("drifted")
    page = watched.page
    becomes(page, "(text) => document.querySelector('#foot textarea')?.value === text", HOSTILE)
    page.get_by_label("Note on this step").fill(HOSTILE)
    watched.button("Approve").click()
    page.get_by_role("button", name="Withdraw").wait_for()
    assert page.get_by_label("Note on this step").input_value() == HOSTILE
    page.locator("#scroller").focus()
    watched.keys("Enter")
    page.locator("#result", has_text="Expected").wait_for()
    watched.unharmed()
    page.goto(f"http://127.0.0.1:{stage.service.listener.port}/api/report/lesson.html")
    assert IMAGE in (page.locator("body").text_content() or "")
    watched.unharmed()


ARENA = {"size": 64, "used": 8, "free": 56, "high_water": 8, "base": 4096, "allocation_pointer": 4104, "occupancy": 0.1}


def test_labels_and_values_of_the_memory_are_shown_as_text(watched: Watched, stage: Stage) -> None:
    blocks = [{"label": HOSTILE, "offset": 0, "size": 8, "padding": 0}]
    difference: dict[str, Any] = {"used": None, "high_water": None, "added": blocks, "removed": blocks}
    body = {
        "available": True, "reason": HOSTILE, "key": None, "sync": "on", "difference": difference,
        "values": {HOSTILE: {"value": HOSTILE}, "other": {"error": HOSTILE}},
        "previous_values": {HOSTILE: {"value": IMAGE}},
    }  # fmt: skip
    answer(watched.page, "**/api/allocator", body)
    for figures, place in ((ARENA, "8 B at 0"), (dict.fromkeys(ARENA), "8 B at 0x0")):
        body["allocator"] = {**figures, "blocks": blocks}
        watched.at("quick")
        assert stage.tcp.put("/api/viewer/state", {"viewer": {"allocator": {"visible": True}}}).status == 200
        memory = watched.page.locator("#memory")
        memory.locator(".blocks").wait_for()
        assert memory.locator(".strip").count() == (1 if figures["size"] else 0)
        text = memory.text_content() or ""
        assert text.count(HOSTILE) >= 6
        assert place in text
        watched.unharmed()


def test_annotations_and_strategies_are_shown_as_text(watched: Watched, stage: Stage) -> None:
    step = "t1/b1/p1/quick"
    strategy = {"key": f"{step}/first", "label": HOSTILE, "commands": ["print n"], "expected_observations": [HOSTILE]}
    annotation = {
        "key": f"{step}/first", "target": {"part": f"{step}:code", "x": 0, "y": 0, "w": 1, "h": 1},
        "geometry": {"points": [[0, 0], [1, 1]]}, "style": {"kind": "box"}, "text": HOSTILE,
    }  # fmt: skip
    for path, body in (("strategies", strategy), ("annotations", annotation)):
        assert stage.tcp.post(f"/api/{path}", body).status == 201
    page = watched.at("quick").page
    page.keyboard.press("Alt+8")
    page.locator("#strategy-list").get_by_role("button", name="Run").click()
    expect(page.locator("#strategy-list .outcome")).to_contain_text(HOSTILE)
    expect(page.locator("#annotation-list")).to_contain_text(HOSTILE)
    expect(page.locator("#sheets .said")).to_have_text(HOSTILE)
    watched.unharmed()


def test_the_editor_shows_text_title_and_terminal_output_as_text(watched: Watched, neovim: Neovim) -> None:
    watched.at("quick")
    neovim.call("nvim_command", "enew!")
    neovim.call("nvim_set_option", "titlestring", HOSTILE)
    neovim.call("nvim_set_option", "title", True)
    lines = [IMAGE, "\x1b]0;own\x07\x1b[31m<b>red</b>", SCRIPT, "\x00\x9b2J"]
    neovim.call("nvim_buf_set_lines", 0, 0, -1, False, lines)
    until(lambda: IMAGE in watched.picture() and "^[]0;own^G^[[31m<b>red</b>" in watched.picture())
    neovim.call("nvim_command", "enew!")
    output = f"\\033[31m{IMAGE}\\033[0m\\033]0;own\\007\\033[?1049h\\r{IMAGE}"  # on one line of a narrow window
    neovim.call("nvim_call_function", "termopen", [["printf", output]])
    until(lambda: IMAGE in watched.picture() and "[Process exited 0]" in watched.picture())
    assert "own" not in watched.page.title()
    neovim.call("nvim_command", "bdelete! | set notitle | buffer 1")
    watched.unharmed()

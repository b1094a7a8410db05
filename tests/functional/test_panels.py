"""The editor's grid has the size of a page's panel, or of the terminal that is attached to the session."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Self

import pytest
from simple_websocket import ConnectionClosed

from tests.functional.attached_terminal import AttachedTerminal
from tests.functional.serving import Stage, until
from tests.functional.test_websockets import EDITOR, connect

pytestmark = [pytest.mark.functional]


class Panel:
    """A client of the editor's stream that acknowledges every frame, and notes whether a terminal is attached."""

    def __init__(self, stage: Stage) -> None:
        self.terminals: list[bool] = []
        self._client = connect(stage.service, EDITOR)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        try:
            while True:
                frame = json.loads(self._client.receive())
                if frame["type"] == "terminal":
                    self.terminals.append(frame["attached"])
                elif frame["type"] == "redraw":
                    self._client.send(json.dumps({"type": "ack", "seq": frame["seq"]}))
        except (ConnectionClosed, OSError):
            pass

    def has(self, cols: int, rows: int, *, focused: bool = True) -> None:
        self._client.send(json.dumps({"type": "panel", "cols": cols, "rows": rows, "focused": focused}))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ConnectionClosed):  # the service closes the stream when Neovim ends
            self._client.close()
        self._reader.join(10)


def state(stage: Stage) -> Any:
    return stage.tcp.get("/api/editor/state")


def grid_becomes(stage: Stage, cols: int, rows: int) -> None:
    until(lambda: state(stage)["grid"] == {"cols": cols, "rows": rows})


def set_fit(stage: Stage, fit: bool) -> None:
    assert stage.tcp.put("/api/viewer/state", {"viewer": {"editor": {"fit": fit}}}).status == 200


@pytest.fixture
def panel(stage: Stage) -> Iterator[Panel]:
    with Panel(stage) as found:
        until(lambda: found.terminals == [False])
        yield found


def test_without_a_terminal_the_grid_follows_the_panel_of_the_page_focused_last(stage: Stage, panel: Panel) -> None:
    last = stage.tcp.get("/api/events?limit=1000")["last_seq"]
    panel.has(90, 30)
    grid_becomes(stage, 90, 30)
    with Panel(stage) as other:
        other.has(100, 40)
        grid_becomes(stage, 100, 40)
        panel.has(90, 25, focused=False)
        other.has(100, 41, focused=False)
        grid_becomes(stage, 100, 41)
    grid_becomes(stage, 90, 25)
    set_fit(stage, False)
    panel.has(70, 20)
    set_fit(stage, True)
    panel.has(71, 21)
    grid_becomes(stage, 71, 21)
    kinds = {event["kind"] for event in stage.tcp.get(f"/api/events?after={last}")["events"]}
    assert kinds == {"viewer.changed"}, "the size of a panel is no event"


def test_a_grid_with_a_terminal_keeps_its_size(stage: Stage, panel: Panel) -> None:
    panel.has(90, 30)
    grid_becomes(stage, 90, 30)
    assert state(stage)["terminal_attached"] is False
    with AttachedTerminal(stage.sessions, 120, 40) as terminal:
        grid_becomes(stage, 120, 40)
        until(lambda: panel.terminals == [False, True] and state(stage)["terminal_attached"])
        panel.has(90, 30)
        terminal.resize(121, 41)
        grid_becomes(stage, 121, 41)
        with Panel(stage) as other:
            until(lambda: other.terminals == [True])
        # After the page has fitted the grid, the grid follows the panel until the terminal's size changes.
        assert stage.tcp.post("/api/editor/redraw", {"cols": 90, "rows": 30}).status == 200
        panel.has(91, 31)
        grid_becomes(stage, 91, 31)
        terminal.resize(122, 42)
        grid_becomes(stage, 122, 42)
    until(lambda: panel.terminals[-1] is False and state(stage)["terminal_attached"] is False)
    panel.has(90, 30)
    grid_becomes(stage, 90, 30)


def test_a_neovim_that_was_restarted_has_the_panels_size_again(stage: Stage) -> None:
    with Panel(stage) as panel:
        panel.has(90, 30)
        grid_becomes(stage, 90, 30)
        stage.sessions.session().editor("execute('qall!')")
        until(lambda: not state(stage)["available"])
    assert stage.tcp.post("/api/editor/reset").json["editor_restarted"] is True
    with Panel(stage) as panel:
        until(lambda: panel.terminals == [False])
        panel.has(90, 30)
        grid_becomes(stage, 90, 30)

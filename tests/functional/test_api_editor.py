"""The editor's endpoints and keys with the whole application, a real session and the session's Neovim."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from cardapp.neovim import NeovimConnection
from tests.functional.serving import Stage, position, until

pytestmark = [pytest.mark.functional]

PROMPT = ':echo "a\\nb\\nc\\nd"<CR>'


def state(stage: Stage) -> dict[str, Any]:
    response: dict[str, Any] = stage.tcp.get("/api/editor/state")
    return response


def keys(stage: Stage, text: str) -> None:
    answer = stage.unix.post("/api/editor/input", {"text": text})
    assert (answer.status, answer.json) == (200, {"accepted": len(text.encode())})


@pytest.fixture
def calm(stage: Stage) -> Stage:
    """Neovim in normal mode, in the window with the code, which has a few rows."""
    keys(stage, "<C-c><C-\\><C-n>")
    until(lambda: state(stage)["blocking"] is False)
    code = until(lambda: _code_window(stage))
    keys(stage, f":call win_gotoid({code})<CR>")
    until(lambda: state(stage)["mode"] == "n" and state(stage)["buffer"]["name"].endswith("/main.c"))
    return stage


def _code_window(stage: Stage) -> int:
    window: int = lua(stage, "return vim.fn.win_findbuf(vim.fn.bufnr('main.c$'))[1] or 0")
    return window


def lua(stage: Stage, code: str) -> Any:
    """The result of a Lua expression in the session's Neovim, over a separate connection."""
    connection = NeovimConnection(stage.link.editor_socket())
    try:
        return connection.call("nvim_exec_lua", code, [], timeout=10)
    finally:
        connection.close()


def test_the_cursor_walks_the_code_and_stays_in_it(calm: Stage) -> None:
    moved = calm.tcp.put("/api/editor/cursor", {"row": 6, "column": 3})
    assert moved.status == 200
    assert moved.json["cursor"] == {"row": 6, "column": 3}
    assert state(calm)["cursor"] == {"row": 6, "column": 3}
    outside = calm.unix.put("/api/editor/cursor", {"row": 9999, "column": 0})
    assert (outside.status, [error["pointer"] for error in outside.json["errors"]]) == (422, ["/row"])
    assert state(calm)["cursor"] == {"row": 6, "column": 3}


def test_a_prompt_blocks_the_cursor_alone_and_a_sync_frees_it(calm: Stage) -> None:
    calm.tcp.put("/api/navigation/current", position("quick", "first"))
    keys(calm, PROMPT)
    until(lambda: state(calm)["blocking"] is True)
    assert calm.tcp.get("/api/state")["editor"] == {"available": True, "reason": None}
    blocked = calm.tcp.put("/api/editor/cursor", {"row": 1, "column": 0})
    assert (blocked.status, blocked.json["code"]) == (409, "editor_blocked")
    done = calm.tcp.post("/api/navigation/sync")
    assert (done.status, done.json["state"]) == (200, "ready")
    assert until(lambda: state(calm)["cursor"])["row"] == done.json["observed"]["line"]


def test_redraw_resizes_a_busy_neovim_which_follows_when_it_continues(calm: Stage) -> None:
    for cols, busy in ((91, "r"), (92, ":while 1<Bar>endwhile<CR>")):  # awaits a key, runs a script
        last = calm.tcp.get("/api/events?limit=1000")["last_seq"]
        keys(calm, busy)
        until(lambda: state(calm)["blocking"] is True)
        drawn = calm.tcp.post("/api/editor/redraw", {"cols": cols, "rows": 28})
        assert drawn.status == 200, drawn.json
        assert drawn.json["host"] == drawn.json["grid"] == {"cols": cols, "rows": 28}
        assert len(calm.tcp.get(f"/api/events?after={last}&kind=editor.redraw")["events"]) == 1
        keys(calm, "<C-c>")
        until(lambda at=drawn.json["grid"]: state(calm)["grid"] == at)


def test_a_key_in_neovim_does_what_the_table_says(calm: Stage) -> None:
    until(lambda: lua(calm, "return #(require('card.keys').status())") > 0)
    calm.tcp.put("/api/navigation/current", position("quick", "first"))
    for key, kind in (
        ("<F1>", "editor.reset"),
        ("<F2>", "navigation.synced"),
        ("<C-`>", "editor.redraw"),
        ("<M-Right>", "navigation.moved"),
    ):
        last = calm.tcp.get("/api/events?limit=1000")["last_seq"]
        keys(calm, key)
        events = until(lambda at=f"after={last}&kind={kind}": calm.tcp.get(f"/api/events?{at}")["events"])
        assert [event["actor"] for event in events] == ["editor"], key
        until(lambda: state(calm)["blocking"] is False)


def test_a_killed_neovim_is_reported_and_a_reset_restarts_it(calm: Stage) -> None:
    os.kill(calm.sessions.session().pid("nvim"), signal.SIGKILL)
    until(lambda: state(calm)["available"] is False)
    assert "bin/card-session reset" in state(calm)["reason"]
    gone = calm.tcp.post("/api/editor/input", {"text": "x"})
    assert (gone.status, gone.json["code"]) == (503, "editor_unavailable")
    back = calm.tcp.post("/api/editor/reset")
    assert (back.status, back.json["editor_restarted"]) == (200, True)
    assert until(lambda: state(calm)["available"]) is True

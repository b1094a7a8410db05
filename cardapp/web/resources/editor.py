"""The session's Neovim: its state, cursor, input, reset and redraw."""

from __future__ import annotations

from typing import Any

from cardapp.state import events
from cardapp.state.database import Connection
from cardapp.web.http import Reply, Request, answer
from cardapp.web.resources.navigation import key_of_saved


def state(request: Request) -> Reply:
    """Buffer, window, cursor and mode; without an editor ``available`` is false."""
    return answer(request.services.editor.state())


def set_cursor(request: Request) -> Reply:
    """Set the cursor of a window, in a file if one is given. Returns the state of that window."""
    body = request.body
    editor = request.services.editor
    return answer(editor.set_cursor(body["row"], body["column"], body.get("window"), body.get("file")))


def keys(request: Request) -> Reply:
    """Type keys. This also works while Neovim is waiting for a key."""
    return answer(request.services.editor.input(request.body["text"]))


def reset(request: Request) -> Reply:
    """End the program and restore the debugger. The program has then left its checkpoint, so SYNC is switched off."""
    services = request.services
    with services.control.target_lock:
        published = services.control.published_operation()
        outcome = services.editor.reset()
        with services.database.write() as tx:
            actor = record(tx, request, events.EDITOR_RESET, outcome)
            services.control.switch_off(tx, published, "target_reset", actor=actor)
    return answer(outcome)


def redraw(request: Request) -> Reply:
    """Resize the editor's terminal and the browser's grid to ``cols`` x ``rows``, then redraw both."""
    sizes = request.services.editor.redraw(request.body.get("cols"), request.body.get("rows"))
    with request.services.database.write() as tx:
        record(tx, request, events.EDITOR_REDRAW, sizes)
    return answer(sizes)


def record(tx: Connection, request: Request, kind: str, data: dict[str, Any]) -> str:
    """Append an event at the saved position. Returns the request's actor."""
    loaded = request.services.card_loader.current()
    actor: str = request.body.get("actor", "api")
    key, card = key_of_saved(tx, loaded), loaded.identity
    events.append(tx, kind=kind, actor=actor, key=key, card=card, data=data, at=request.services.clock())
    return actor

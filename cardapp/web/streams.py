"""The protocols of the two WebSocket endpoints, ``/api/live`` and ``/api/editor-ui``."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from functools import partial
from typing import Any

from cardapp.card.viewer import FRESH
from cardapp.errors import CardAppError, EditorUnavailable, InvalidValue
from cardapp.session_client.editor_stream import EditorStream
from cardapp.state import card_state
from cardapp.web import schemas
from cardapp.web.http import encode
from cardapp.web.services import Services
from cardapp.web.websocket import Connection, Endpoint

_TURN_SECONDS = 1.0
"""A thread that waits for a message checks in this interval whether the other side has ended."""


DESCRIPTION = {
    "/api/live": {
        "subprotocol": "card-live.v1",
        "summary": "The object of `GET /api/control/state`, at once and whenever it changes.",
        "server": {"$ref": "#/components/schemas/Control"},
    },
    "/api/editor-ui": {
        "subprotocol": "card-editor-ui.v1",
        "summary": "The editor's external UI. The service sends `hello`, then for each flush of Neovim a `redraw` with "
        "its ext_linegrid events, and `bye` at the end. A client acknowledges each `seq`. If a client falls behind, it "
        "gets a full grid when it has caught up. `terminal` says whether a terminal is attached to the session. While "
        "none is and `viewer.editor.fit` is on, the grid has the size of the `panel` of the page focused last.",
        "client": {"$ref": "#/components/schemas/EditorUiMessage"},
        "server": {"$ref": "#/components/schemas/EditorUiFrame"},
    },
}
"""The member `x-websockets` of the API description, because OpenAPI cannot describe WebSockets. Messages are JSON
texts."""


def endpoints(services: Services) -> tuple[Endpoint, ...]:
    """The two endpoints, with handlers that use ``services``."""
    return (
        Endpoint("/api/live", "card-live.v1", partial(live, services)),
        Endpoint("/api/editor-ui", "card-editor-ui.v1", partial(editor_ui, services)),
    )


def live(services: Services, connection: Connection) -> None:
    """Send the control state at once and whenever it changes. If the first state cannot be read, close the
    connection."""
    try:
        with services.live.subscribe() as subscription:
            while True:
                state = subscription.take(_TURN_SECONDS)
                if state is not None:
                    connection.send(encode(state).decode())
                while connection.receive(0) is not None:
                    pass  # the client's messages are ignored; ``receive`` raises OSError if the client has left
    except CardAppError as error:
        connection.close(error.code)


def editor_ui(services: Services, connection: Connection) -> None:
    """Stream the editor's UI; pass keys, mouse and pasted text to Neovim while ``viewer.editor.control`` is on."""
    try:
        stream = services.editor.stream()
    except CardAppError as error:
        _bye(connection, error.code, error.detail)
        return
    sender = threading.Thread(target=_send_frames, args=(connection, stream), name="editor-ui-sender", daemon=True)
    try:
        stream.attach()
        sender.start()
        end = _take_until_end(connection, stream, services)
    except CardAppError as error:
        end = error
    finally:
        stream.close()
        services.panels.leave(stream)
        if sender.ident is not None:
            sender.join(_TURN_SECONDS)
    _bye(connection, end.code, end.detail)  # after the sender has ended: only one thread may send


def _take_until_end(connection: Connection, stream: EditorStream, services: Services) -> CardAppError:
    """Process the client's messages until Neovim has ended. Returns the error that the client is told."""
    while (reason := stream.ended) is None:
        message = connection.receive(_TURN_SECONDS)
        if message is not None:
            _take(message, stream, services)
    return EditorUnavailable(reason)


def _send_frames(connection: Connection, stream: EditorStream) -> None:
    while not stream.closed:
        frame = stream.take(_TURN_SECONDS)
        if frame is not None:
            try:
                connection.send(frame)
            except OSError:
                return


def _take(text: str, stream: EditorStream, services: Services) -> None:
    """Process one message of the client. Raises :class:`InvalidValue` if the message violates the protocol."""
    try:
        message = json.loads(text)
    except ValueError as error:
        raise InvalidValue("the message is not JSON") from error
    schemas.check("EditorUiMessage", message, "the message")
    if message["type"] == "ack":
        stream.acknowledge(message["seq"])
    elif message["type"] == "panel":
        if _flags(services)["fit"]:
            services.panels.report(stream, message["cols"], message["rows"], focused=message["focused"])
    elif _flags(services)["control"]:
        _input(message, stream)


def _flags(services: Services) -> dict[str, bool]:
    """The flags ``viewer.editor``."""
    loaded = services.card_loader.current()
    with services.database.read() as conn:
        state, _ = card_state.load_viewer(conn, loaded.identity.uuid)
    flags: dict[str, bool] = (state or FRESH)["viewer"]["editor"]
    return flags


def _input(message: Mapping[str, Any], stream: EditorStream) -> None:
    if message["type"] == "input":
        stream.type(message["text"])
    elif message["type"] == "paste":
        stream.paste(message["text"])
    else:
        stream.mouse(message["button"], message["action"], message["modifier"], message["row"], message["col"])


def _bye(connection: Connection, code: str, reason: str) -> None:
    connection.send(encode({"type": "bye", "code": code, "reason": reason}).decode())
    connection.close(code)

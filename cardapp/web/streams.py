"""The protocols of the two WebSocket endpoints, ``/api/live`` and ``/api/editor-ui``."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Mapping
from functools import partial
from time import monotonic
from typing import Any

from cardapp.card.viewer import FRESH
from cardapp.errors import CardAppError, EditorUnavailable, InvalidValue
from cardapp.schema import decode
from cardapp.session_client.editor_stream import EditorStream
from cardapp.state import card_state
from cardapp.web.http import encode
from cardapp.web.live import LOOK_SECONDS
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
        end = _take_until_end(connection, stream, EditorFlags(services), services)
    except CardAppError as error:
        end = error
    finally:
        stream.close()
        services.panels.leave(stream)
        if sender.ident is not None:
            sender.join(_TURN_SECONDS)
    _bye(connection, end.code, end.detail)  # after the sender has ended: only one thread may send


def _take_until_end(
    connection: Connection, stream: EditorStream, flags: EditorFlags, services: Services
) -> CardAppError:
    """Process the client's messages until Neovim has ended. Returns the error that the client is told."""
    while (reason := stream.ended) is None:
        message = connection.receive(_TURN_SECONDS)
        if message is not None:
            _take(message, stream, flags, services)
    return EditorUnavailable(reason)


def _send_frames(connection: Connection, stream: EditorStream) -> None:
    while not stream.closed:
        frame = stream.take(_TURN_SECONDS)
        if frame is not None:
            try:
                connection.send(frame)
            except OSError:
                return


class EditorFlags:
    """The flags ``viewer.editor``. They are read again after a write, and each ``LOOK_SECONDS``, because another card
    may have been chosen meanwhile."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._commits = -1
        self._until = 0.0
        self._flags: dict[str, bool] = {}

    def __getitem__(self, name: str) -> bool:
        commits = self._services.database.commits
        if commits != self._commits or monotonic() > self._until:
            self._flags = self._read()
            self._commits, self._until = commits, monotonic() + LOOK_SECONDS
        return self._flags[name]

    def _read(self) -> dict[str, bool]:
        loaded = self._services.card_loader.current()
        with self._services.database.read() as conn:
            state, _ = card_state.load_viewer(conn, loaded.identity.uuid)
        flags: dict[str, bool] = (state or FRESH)["viewer"]["editor"]
        return flags


def _take(text: str, stream: EditorStream, flags: EditorFlags, services: Services) -> None:
    """Process one message of the client. Raises :class:`InvalidValue` if the message violates the protocol."""
    message = parsed(text)
    if message["type"] == "ack":
        stream.acknowledge(message["seq"])
    elif message["type"] == "panel":
        if flags["fit"]:
            services.panels.report(stream, message["cols"], message["rows"], focused=message["focused"])
    elif flags["control"]:
        _input(message, stream)


def parsed(text: str) -> Mapping[str, Any]:
    """The message of a client. Each key, wheel turn and drag is one, so its few fields are checked here and not by the
    schema ``EditorUiMessage``, which describes them."""
    try:
        message = decode(text.encode("utf-8", "surrogatepass"))
    except ValueError as error:
        raise InvalidValue(f"the message {error}") from error
    checks = _CHECKS.get(str(message.get("type"))) if isinstance(message, dict) else None
    if checks is None or message.keys() != {"type", *checks}:
        raise InvalidValue("the message has not the fields of one of the messages in EditorUiMessage")
    for name, is_valid in checks.items():
        if not is_valid(message[name]):
            raise InvalidValue.of(f"/{name}", "is not what EditorUiMessage allows")
    checked: Mapping[str, Any] = message
    return checked


def _is_text(least: int, most: int) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and least <= len(value) <= most


def _is_number(least: int, most: float) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value <= most


def _is_one_of(*names: str) -> Callable[[Any], bool]:
    return lambda value: value in names


_CHECKS: dict[str, dict[str, Callable[[Any], bool]]] = {
    "input": {"text": _is_text(1, 4096)},
    "paste": {"text": _is_text(0, 1_000_000)},
    "mouse": {
        "button": _is_one_of("left", "right", "middle", "wheel"),
        "action": _is_one_of("press", "drag", "release", "up", "down", "left", "right"),
        "modifier": lambda value: isinstance(value, str) and re.fullmatch("[SCA]{0,3}", value) is not None,
        "row": _is_number(0, 10_000),
        "col": _is_number(0, 10_000),
    },
    "panel": {
        "cols": _is_number(20, 500),
        "rows": _is_number(6, 200),
        "focused": lambda value: isinstance(value, bool),
    },
    "ack": {"seq": _is_number(0, math.inf)},
}


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

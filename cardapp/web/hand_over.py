"""How the application takes over the connection of a request, as it does for a WebSocket."""

from __future__ import annotations

import socket
from collections.abc import Callable


class HandOver(BaseException):
    """Raised by the application instead of a response: the listener then calls ``take`` with the request's socket.

    It is a BaseException, so that no error handler in between turns it into a response.
    """

    def __init__(self, take: Callable[[socket.socket], None]) -> None:
        super().__init__()
        self.take = take

"""How the application takes over the connection of a request, as it does for a WebSocket."""

from __future__ import annotations

import socket
from collections.abc import Callable


class HandOver(BaseException):
    """Raised by the application instead of an answer: ``take`` is called with the connection's socket, in the loop's
    thread. Not an Exception, so that nothing in between turns it into an answer."""

    def __init__(self, take: Callable[[socket.socket], None]) -> None:
        super().__init__()
        self.take = take

"""How long the frontend waits, in seconds."""

from __future__ import annotations

from dataclasses import dataclass

from marketdata import secretfile


@dataclass(frozen=True)
class Times:
    connect: float = 5.0
    """For a connection to the API."""
    response: float = 30.0
    """The longest silence of the API during a request. The statements of the API in the database may take less time."""
    file_check: float = secretfile.CHECK_SECONDS
    """A file that was looked at more recently is not looked at again."""
    tunnel: float = 60.0
    """The lifetime of a WebSocket with BASIC_AUTH_MODE=off."""
    idle: float = 90.0
    """A tunnel without traffic for this long is closed. A live tunnel has more traffic, because the API sends pings."""
    sweep: float = 1.0
    """Between two looks at all tunnels."""
    closing: float = 2.0
    """After its lifetime, a tunnel ends within this time: the frame that has begun passes, and the client closes,
    too."""


TIMES = Times()

"""``GET /v1/live``: the handshake, after which the connection belongs to :class:`marketdata.api.live.server.Live`."""

from __future__ import annotations

from marketdata.api.live.frames import accepted
from marketdata.api.request import Request
from marketdata.http.hand_over import HandOver
from marketdata.http.reply import Reply


def live(request: Request) -> Reply:
    """Candles and ticks as they change, over a WebSocket with the subprotocol `marketdata-live.v1`. Text messages are
    JSON: the client sends `LiveRequest`, the service `LiveMessage`."""
    server, caller = request.services.live, request.caller
    response = accepted(request.environ)
    server.check_room()
    assert caller is not None
    raise HandOver(lambda sock: server.adopt(sock, caller, response))

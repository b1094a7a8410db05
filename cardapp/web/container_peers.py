"""Refuses the requests of a process in a container whose session is not the chosen one.

The API's Unix socket is mounted in every container, so that the editor there reaches it, and so does a card's program.
The API types into the editor of the chosen session, which may be one that runs commands on this machine.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
from typing import Any

from cardapp import procfs, unix_socket
from cardapp.web.failures import ForeignSession, StartResponse, WsgiApp, reporting

PEER = "cardapp.pid_space"
"""The key in WSGI's environment of what :func:`pid_space_of` returned for the connection."""
_ENDED = "ended"


def pid_space_of(accepted: socket.socket) -> str | None:
    """The pid namespace of the process that connected to a Unix socket; None for TCP and for another account's.

    Only root, who may do anything, can be another account: the socket's file is open to its owner.
    """
    if accepted.family != socket.AF_UNIX:
        return None
    pid, uid = unix_socket.peer(accepted)
    return (procfs.pid_space(pid) or _ENDED) if uid == os.geteuid() else None


def only_chosen_container(app: WsgiApp, chosen: Callable[[], str | None]) -> WsgiApp:
    """``app`` for processes outside of containers, and for those in the container of the chosen session.

    ``chosen`` returns its pid namespace. It is asked when a request is complete: one can begin before a session is
    chosen and end afterwards.
    """
    own = procfs.pid_space(os.getpid())

    def guarded(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        space = environ.get(PEER)
        if space not in (None, own) and space != chosen():
            raise ForeignSession(
                "this request comes from a container whose session is not the chosen one: choose it, outside of the "
                "container, with bin/card-session select NAME"
            )
        return app(environ, start_response)

    return reporting(guarded)

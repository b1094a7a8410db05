"""Connects standard input and output with the session's MCP socket. Bytes are copied unchanged."""

from __future__ import annotations

import os
import selectors
import socket
import sys
from pathlib import Path

from cardapp import unix_socket
from cardapp.errors import SessionUnavailable


def relay(path: Path, reader: int = 0, writer: int = 1) -> int:
    """Copy both ways until the session closes the connection; returns 0. The end of ``reader`` is passed on."""
    # epoll, the default, refuses regular files and /dev/null.
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as session, selectors.PollSelector() as selector:
        try:
            with unix_socket.pinned(path) as pinned:
                session.connect(pinned)
        except OSError as error:
            raise SessionUnavailable(
                f"no server listens on {path} ({error.strerror}); restore it with bin/card-session reset"
            ) from error
        selector.register(session, selectors.EVENT_READ)
        selector.register(reader, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is session:
                    data = session.recv(1 << 16)
                    if not data:
                        return 0
                    _write(writer, data)
                else:
                    data = os.read(reader, 1 << 16)
                    if data:
                        session.sendall(data)
                    else:
                        selector.unregister(reader)
                        session.shutdown(socket.SHUT_WR)
                        sys.stdout.flush()


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]

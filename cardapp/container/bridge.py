"""Standard input and output joined with the session's MCP socket, byte by byte: the protocol is the peers' matter."""

from __future__ import annotations

import os
import selectors
import socket
import sys
from pathlib import Path

from cardapp.errors import SessionUnavailable


def relay(path: Path, reader: int = 0, writer: int = 1) -> int:
    """Copy both ways until the session hangs up; the end of ``reader`` is passed on first. Answers 0."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as session, selectors.DefaultSelector() as selector:
        try:
            session.connect(str(path))
        except OSError as error:
            raise SessionUnavailable(
                f"nobody answers at {path} ({error.strerror}); bring it back with card-session reset"
            ) from error
        selector.register(session, selectors.EVENT_READ)
        selector.register(reader, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is session:
                    piece = session.recv(1 << 16)
                    if not piece:
                        return 0
                    _write(writer, piece)
                else:
                    piece = os.read(reader, 1 << 16)
                    if piece:
                        session.sendall(piece)
                    else:
                        selector.unregister(reader)
                        session.shutdown(socket.SHUT_WR)
                        sys.stdout.flush()


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]

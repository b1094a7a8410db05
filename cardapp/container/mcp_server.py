"""The session's MCP server as a process: ``python -m cardapp.container.mcp_server DIRECTORY``, started by the runtime.

Brings up what of the session does not run yet, then serves its tools on ``mcp.sock`` until SIGTERM.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
from pathlib import Path

from cardapp import __version__
from cardapp.container.directory import SessionDirectory
from cardapp.container.profile import load_profile
from cardapp.container.session import Session
from cardapp.container.tools import SessionTools
from cardapp.errors import CardAppError
from cardapp.mcp.server import McpServer, UnixListener

INSTRUCTIONS = """\
A C program under gdb, inside the learner's Neovim. Read session_binding first: checkpoint_replay wants its
container_id, instance, profile and target. A replay runs the program anew to a stop and reads expressions there.
debugger_state tells where the program stands; its stop_id changes whenever the program moved. target_reset brings back
what died."""

WATCH = 2.0  # seconds between two looks at the session's record


def serve(directory: SessionDirectory, ending: int) -> None:
    """Serve the session in ``directory`` until ``ending`` can be read from or its record is removed.

    Raises :class:`CardAppError` when it cannot be brought up.
    """
    record = directory.read()
    if record is None:
        raise CardAppError(f"{directory.path} holds no session; start one with bin/card-session start CARD_DIR")
    session = Session(directory, record, load_profile(record.profile))
    try:
        session.bring_up()
        session.load()
        server = McpServer("card-session", __version__, SessionTools(session).tools(), INSTRUCTIONS)
        listener = UnixListener(directory.mcp_socket, server)
        listener.start()
        try:
            while not select.select([ending], [], [], WATCH)[0]:
                if not directory.record.exists():
                    # Somebody removed the session's directory: nobody could ever find and stop us.
                    logging.getLogger(__name__).warning("%s is gone; the session ends", directory.record)
                    session.end_programs()
                    return
        finally:
            listener.stop(5.0)
    finally:
        session.close()


def _ending() -> int:
    """A descriptor that can be read from once the process is asked to end.

    The handler only writes: a lock taken in it would wait for the very thread that it interrupted.
    """
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os.write(writer, b"."))
    return reader


def main(argv: list[str]) -> int:
    path = Path(argv[0])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    log = logging.getLogger(__name__)
    ending = _ending()
    log.info("session %s starts", path.name)
    try:
        serve(SessionDirectory(path.name, path), ending)
    except CardAppError as error:
        log.error("%s", error.detail)
        return 1
    log.info("session %s ends", path.name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

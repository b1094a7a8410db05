"""The process of the session's MCP server.

The runtime starts it as ``python -m cardapp.session_host.mcp_server DIRECTORY [INSTANCE PID STARTED]``. For a container
the runtime passes the instance, and the host's pid and start time of the container's first process, because these are
not visible in the container. The server starts the parts of the session that do not run, then serves the session's
tools on ``mcp.sock`` until SIGTERM.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import sys
from pathlib import Path

from cardapp import __version__
from cardapp.errors import CardAppError
from cardapp.mcp.server import McpServer, UnixListener
from cardapp.session_host.directory import SessionDirectory
from cardapp.session_host.process import Instance, Process
from cardapp.session_host.profile import load_profile
from cardapp.session_host.program_tools import ProgramTools
from cardapp.session_host.session import Session
from cardapp.session_host.session_tools import SessionTools
from cardapp.session_host.source_tools import SourceTools

INSTRUCTIONS = """\
A C program under gdb, inside the learner's Neovim. Call session_binding first: checkpoint_replay needs its
container_id, instance, profile and target. A replay brings the program to a stop and reads expressions there.
debugger_state reports where the program is; its stop_id changes whenever the program moves. step, next, finish and
continue move a stopped program, as gdb's commands do, and interrupt stops a running one; backtrace and locals read it.
target_reset ends the program, and restarts Neovim and gdb if they have ended."""

RECORD_POLL = 2.0  # seconds between two checks that the session's record exists


def serve(directory: SessionDirectory, instance: Instance, ending: int) -> None:
    """Serve the session in ``directory`` until the descriptor ``ending`` is readable or the record is removed.

    :raises CardAppError: a part of the session cannot be started.
    """
    record = directory.read()
    if record is None:
        raise CardAppError(f"there is no session in {directory.path}; start one with bin/card-session start CARD_DIR")
    session = Session(directory, record, load_profile(record.profile), instance)
    try:
        session.bring_up()
        session.load()
        parts = (SessionTools(session), ProgramTools(session), SourceTools(session))
        tools = [tool for part in parts for tool in part.tools()]
        server = McpServer("card-session", __version__, tools, INSTRUCTIONS)
        listener = UnixListener(directory.mcp_socket, server)
        listener.start()
        if session.watch is not None:
            session.watch.start()
        try:
            while not select.select([ending], [], [], RECORD_POLL)[0]:
                if not directory.record.exists():
                    # Without the record no command could find and stop this session.
                    logging.getLogger(__name__).warning("%s was removed; the session ends", directory.record)
                    session.end_programs()
                    if instance.container is not None:
                        os.kill(1, signal.SIGTERM)  # the container's first process
                    return
        finally:
            if session.watch is not None:
                session.watch.stop(5.0)
            listener.stop(5.0)
    finally:
        session.close()


def _ending() -> int:
    """Make a descriptor that becomes readable after SIGTERM or SIGINT.

    The signal handler only writes a byte. It takes no lock, because the interrupted thread may hold that lock.
    """
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os.write(writer, b"."))
    return reader


def _instance(arguments: list[str]) -> Instance:
    if not arguments:
        return Instance.of_this_process()
    name, pid, started = arguments
    return Instance(name, Process(int(pid), int(started)))


def main(argv: list[str]) -> int:
    path, instance = Path(argv[0]), _instance(argv[1:])
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    log = logging.getLogger(__name__)
    ending = _ending()
    log.info("session %s starts", path.name)
    try:
        serve(SessionDirectory(path.name, path), instance, ending)
    except CardAppError as error:
        log.error("%s", error.detail)
        return 1
    log.info("session %s ends", path.name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

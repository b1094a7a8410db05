"""The program under gdb: its place, and the commands that move it on from its stop."""

from __future__ import annotations

from cardapp.session_client.sync import EXITED, RAN_ON
from cardapp.state import events
from cardapp.web.http import Reply, Request, answer
from cardapp.web.resources.editor import record


def state(request: Request) -> Reply:
    """Where the program is. Call stack and locals are empty unless the program is stopped."""
    return answer(request.services.program.read())


def move(request: Request) -> Reply:
    """Execute one of gdb's commands. The program has then left its checkpoint, so SYNC is switched off. A program that
    neither stops nor ends within two seconds is reported as running."""
    services, command = request.services, request.path["command"]
    with services.control.target_lock:
        published = services.control.published_operation()
        reason = EXITED if services.program.move(command) == "exited" else RAN_ON
        with services.database.write() as tx:
            actor = record(tx, request, events.PROGRAM_MOVED, {"command": command})
            services.control.switch_off(tx, published, reason, actor=actor)
    return state(request)

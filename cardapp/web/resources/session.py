"""The chosen session, and its copy of the card's sources."""

from __future__ import annotations

from cardapp.state import events
from cardapp.web.http import Reply, Request, answer
from cardapp.web.resources.editor import record


def state(request: Request) -> Reply:
    """The chosen session, its card, and in what its copy of the sources differs from the card's. The service asks it
    now. If the session does not answer, the response is an error."""
    return answer(request.services.sessions.describe())


def restore(request: Request) -> Reply:
    """Give the changed files of the session's copy the card's content again. The session's versions are kept beside
    them as backups. Unsaved changes in Neovim stay in its buffers. The next sync builds the program."""
    services = request.services
    restored = services.sessions.restore()
    found = services.sessions.describe()
    if restored:
        with services.database.write() as tx:
            record(tx, request, events.SESSION_RESTORED, {"session": found["name"], "restored": restored})
    return answer({"restored": restored, "changes": found["changes"]})

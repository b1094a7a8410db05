"""The chosen session, and its copy of the card's sources."""

from __future__ import annotations

from cardapp.state import events
from cardapp.web.http import Reply, Request, answer
from cardapp.web.resources.editor import record


def state(request: Request) -> Reply:
    """The chosen session, its card, and the differences between its copy of the sources and the card's sources. The
    service calls the session for each request. If the session does not answer, the response is an error."""
    return answer(request.services.sessions.describe())


def restore(request: Request) -> Reply:
    """Replace the changed files of the session's copy by the card's versions. The session's versions are kept beside
    them as backups. Unsaved changes in Neovim stay in its buffers. The next sync builds the program."""
    services = request.services
    restored = services.sessions.restore()
    found = services.sessions.describe()
    if restored:
        with services.database.write() as tx:
            record(tx, request, events.SESSION_RESTORED, {"session": found["name"], "restored": restored})
    return answer({"restored": restored, "changes": found["changes"]})

"""Peers in the session's place that never answer. Every request waits for its timeout, so each takes ten seconds."""

from __future__ import annotations

import pytest

from tests.functional import strange_peer as peers
from tests.functional.serving import Stage
from tests.functional.test_strange_peers import Place, ask_all, place, stage, taken

__all__ = ["place", "stage"]
pytestmark = pytest.mark.functional

SILENT: dict[str, peers.Behaviour] = {
    "a flood of notifications": peers.flooding(peers.notification("notifications/message", {"data": "x" * 500})),
    "empty lines without end": peers.flooding(b"\n" * 4096),
    "answers with other ids": peers.sending(b'{"jsonrpc":"2.0","id":"other","result":{}}\n', after=1000),
    "answers without an id": peers.sending(b'{"jsonrpc":"2.0","error":{"code":1,"message":"no"}}\n'),
    "a flood of progress": peers.flooding(
        b"".join(peers.notification("notifications/progress", {"progressToken": 1, "progress": n}) for n in range(99))
    ),
    "a flood of changed lists": peers.flooding(peers.notification("notifications/tools/list_changed", {})),
    "a flood of requests": peers.flooding(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n' * 100),
}


@pytest.mark.parametrize("name", SILENT)
def test_a_peer_that_never_answers_is_given_up_in_time(
    stage: Stage, place: Place, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with taken(stage, place, SILENT[name]):
        ask_all(stage.tcp, "GET /api/session", "PUT /api/editor/cursor", "POST /api/navigation/sync")
    assert "Traceback" not in caplog.text

"""The guard of a checkpoint: what must be the same before the replay and after it.

Source: "An activation is a guarded transaction" in the card contract. One connection is opened and held to the end;
the choice, the socket's mark, the peer process, the session's binding and the source's SHA-256 are read, and read
again after the replay. Any difference, and a lost connection, is a typed rejection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cardapp.card_loader import CardLoader
from cardapp.errors import CardAppError, CheckpointRejected, SessionUnavailable
from cardapp.mcp.client import McpClient
from cardapp.session.choice import Choice
from cardapp.session.link import SessionLink, binding_of, call_tool
from cardapp.unix_socket import SocketIdentity, identity

_LOOK_SECONDS = 3.0


@dataclass(frozen=True)
class Witness:
    """Everything that identifies the session and the card at one moment."""

    choice: Choice
    socket: SocketIdentity | None
    peer_pid: int | None
    peer_start: int | None
    binding: dict[str, str]
    card: dict[str, str]
    source_sha256: str


class Guard:
    """Holds one connection from the first look to the last; close it with ``close``."""

    def __init__(self, link: SessionLink, card_loader: CardLoader) -> None:
        self._link = link
        self._card_loader = card_loader
        choice = link.choice()
        # The mark is read before connecting: a socket rebound in between then shows up as a difference.
        before = identity(choice.socket)
        self.client: McpClient = link.connect(choice)
        try:
            self.before = self._look(choice, before, self.client)
        except BaseException:
            self.client.close()
            raise

    def close(self) -> None:
        self.client.close()

    def _look(self, choice: Choice, socket: SocketIdentity | None, client: McpClient) -> Witness:
        told = call_tool(client, "session_binding", {}, seconds=_LOOK_SECONDS)
        return Witness(
            choice=choice,
            socket=socket,
            peer_pid=client.peer_pid,
            peer_start=client.peer_start,
            binding=binding_of(told),
            card=told["card"],
            source_sha256=self._card_loader.source_sha256(),
        )

    def confirm(self) -> None:
        """Look again; :class:`CheckpointRejected` names the first difference."""
        reason = self._difference()
        if reason is not None:
            code, detail = reason
            raise CheckpointRejected(detail, code=code)

    def _difference(self) -> tuple[str, str] | None:
        before = self.before
        if self._card_loader.source_sha256() != before.source_sha256:
            return "source_changed", "the card's source changed during the replay: look at the page again, then sync"
        try:
            choice = self._link.choice()
        except SessionUnavailable as error:
            return "container_changed", f"the choice of the session was withdrawn during the replay: {error.detail}"
        if choice != before.choice:
            return "container_changed", f"session {choice.name!r} was chosen during the replay: sync again"
        now = identity(choice.socket)
        after = self._look_again(choice, now)
        if after is None:
            return "mcp_socket_changed", f"the MCP socket of session {choice.name!r} stopped answering: sync again"
        if after.binding != before.binding or after.card != before.card:
            return "container_changed", f"session {choice.name!r} was restarted during the replay: sync again"
        if now != before.socket or (after.peer_pid, after.peer_start) != (before.peer_pid, before.peer_start):
            return "mcp_socket_changed", f"the MCP socket of session {choice.name!r} was replaced: sync again"
        if self.client.closed.is_set():
            return "mcp_socket_changed", f"the connection to session {choice.name!r} was lost: sync again"
        return None

    def _look_again(self, choice: Choice, socket: SocketIdentity | None) -> Witness | None:
        """The second look: over the held connection while it lives, else over a new one that tells what changed."""
        try:
            if not self.client.closed.is_set():
                return self._look(choice, socket, self.client)
        except CardAppError:
            pass  # the held connection died under the question; a new one may still answer it
        try:
            client = self._link.connect(choice)
        except SessionUnavailable:
            return None
        try:
            return self._look(choice, socket, client)
        except CardAppError:
            return None
        finally:
            client.close()


def expect_binding(expected: dict[str, Any], actual: dict[str, str]) -> None:
    """Refuse a caller that expects another container."""
    _expect(expected, actual, "binding", "the chosen session", "GET /api/session")


def expect_identity(expected: dict[str, Any], served: dict[str, str]) -> None:
    """Refuse a caller that expects another card, or another revision of it, than the served one."""
    _expect(expected, served, "identity", "the served card", "GET /api/identity")


def _expect(expected: dict[str, Any], actual: dict[str, str], what: str, whose: str, source: str) -> None:
    wrong = [name for name, value in actual.items() if expected[name] != value]
    if wrong:
        raise CheckpointRejected(
            f"{whose}'s {', '.join(wrong)} differ from what was expected: read {source} again",
            code=f"{what}_mismatch",
            extra={what: actual},
        )


def expect_same_card(served: dict[str, str], session: Witness) -> None:
    """Refuse a session that runs another card, or another revision of it, than the served one."""
    if session.card != served:
        raise CheckpointRejected(
            f"session {session.choice.name!r} runs {_titled(session.card)}, this service serves {_titled(served)}: "
            "choose a session of it with bin/card-session select NAME, start one with bin/card-session start CARD, or "
            "serve the other card (CARD_SOURCE)",
            code="identity_mismatch",
            extra={"identity": session.card},
        )


def _titled(card: dict[str, str]) -> str:
    return f"card {card['id']} {card['version']} ({card['source_sha256'][:12]})"

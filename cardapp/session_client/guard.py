"""The guard of an activation: detects a change of the session, of its socket or of the card during the replay.

Source: "An activation is a guarded transaction" in the card contract. The guard holds one connection to the session
during the replay. Before and after the replay it reads the choice, the identity of the socket file, the peer process,
the session's binding and the card's source file: its SHA-256, identity and times. If something differs or the
connection is lost, the activation is rejected with a code for the cause.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cardapp import procfs
from cardapp.card.model import Identity
from cardapp.card_loader import CardLoader
from cardapp.errors import CardAppError, CheckpointRejected, SessionUnavailable
from cardapp.mcp.client import McpClient
from cardapp.session_client.link import Choice, SessionLink
from cardapp.session_client.session_tools import (
    Binding,
    BindingResult,
    BoundCard,
    card_difference,
    card_of,
    session_binding,
)
from cardapp.unix_socket import SocketIdentity, identity

_BINDING_SECONDS = 3.0
_END_SECONDS = 2.0
"""The longest wait for the end of a container's first process, which ends after the container's other processes."""


@dataclass(frozen=True)
class Fingerprint:
    """Everything that identifies the session at one moment, and what it says about itself and its card."""

    choice: Choice
    socket: SocketIdentity | None
    peer_pid: int | None
    peer_start: int | None
    binding: Binding
    card: Identity


class Guard:
    """Takes the first fingerprint of the chosen session, over the kept connection to it."""

    def __init__(self, link: SessionLink, card_loader: CardLoader) -> None:
        self._link = link
        self._card_loader = card_loader
        # The socket's identity is read before the connection is taken or opened. If the socket is replaced in between,
        # the fingerprints differ.
        (choice, socket), self.client = link.held()
        self.result: BindingResult = session_binding(self.client, seconds=_BINDING_SECONDS)
        self.before = _fingerprint(choice, socket, self.client, self.result)
        self._source = card_loader.source_version()

    def confirm(self, told: BoundCard) -> None:
        """Compare with the first fingerprint. ``told`` is what the replay's result says about the session and its card.
        Raises :class:`CheckpointRejected`, which names the first difference."""
        rejected = self.rejection(told)
        if rejected is not None:
            raise rejected

    def rejection(self, told: BoundCard | None = None) -> CheckpointRejected | None:
        """Compare with the first fingerprint. Returns the rejection for the first difference; None if there is none.

        The session is asked again if there is no ``told``, because the replay has failed.
        """
        before = self.before
        if self._card_loader.source_version() != self._source:
            return CheckpointRejected(
                "the card's source changed during the replay: look at the page again, then sync", code="source_changed"
            )
        try:
            choice = self._link.choice()
        except SessionUnavailable as error:
            return CheckpointRejected(
                f"during the replay the chosen session was removed: {error.detail}", code="container_changed"
            )
        if choice != before.choice:
            return CheckpointRejected(
                f"session {choice.name!r} was chosen during the replay: sync again", code="container_changed"
            )
        fault = self._container_fault()
        if fault is not None:
            return CheckpointRejected(fault, code="container_changed")
        now = identity(choice.socket)
        if told is not None:
            after: Fingerprint | None = _fingerprint(choice, now, self.client, told)
        else:
            after = self._second_fingerprint(choice, now)
        if after is None:
            fault = self._container_fault(_END_SECONDS)
            if fault is not None:
                return CheckpointRejected(fault, code="container_changed")
            return CheckpointRejected(
                f"session {choice.name!r} stopped answering on its MCP socket: sync again", code="mcp_socket_changed"
            )
        if after.binding != before.binding or after.card != before.card:
            return CheckpointRejected(
                f"session {choice.name!r} was restarted during the replay: sync again", code="container_changed"
            )
        if now != before.socket or (after.peer_pid, after.peer_start) != (before.peer_pid, before.peer_start):
            return CheckpointRejected(
                f"the MCP socket of session {choice.name!r} was replaced: sync again", code="mcp_socket_changed"
            )
        if self.client.closed.is_set():
            return CheckpointRejected(
                f"the connection to session {choice.name!r} was lost: sync again", code="mcp_socket_changed"
            )
        return None

    def _container_fault(self, seconds: float = 0.0) -> str | None:
        """Why the container no longer runs, and how to restore it; None if it runs.

        A container may be about to end, so this waits at most ``seconds`` for its end.
        """
        process = self.result["container_process"]
        if process is None:
            return None
        name, pid, started = self.before.choice.name, process["pid"], process["started"]
        if procfs.is_frozen(pid):
            return (
                f"the container of session {name!r} was paused during the replay: continue it with bin/card-session "
                f"reset {name}"
            )
        if procfs.has_ended(pid, started, seconds):
            return (
                f"the container of session {name!r} was stopped, restarted or removed during the replay: restore it "
                f"with bin/card-session reset {name}"
            )
        return None

    def container_rejection(self) -> CheckpointRejected | None:
        """The rejection if the container was paused or has ended; else None. Does not call the session."""
        fault = self._container_fault()
        return None if fault is None else CheckpointRejected(fault, code="container_changed")

    def _second_fingerprint(self, choice: Choice, socket: SocketIdentity | None) -> Fingerprint | None:
        """Take the fingerprint again over the held connection. If that fails, take it over a new connection. Returns
        None if both fail."""
        try:
            if not self.client.closed.is_set():
                return _asked(choice, socket, self.client)
        except CardAppError:
            pass  # the held connection was just lost; the session may still answer over a new one
        try:
            client = self._link.connect(choice)
        except SessionUnavailable:
            return None
        try:
            return _asked(choice, socket, client)
        except CardAppError:
            return None
        finally:
            client.close()


def _asked(choice: Choice, socket: SocketIdentity | None, client: McpClient) -> Fingerprint:
    return _fingerprint(choice, socket, client, session_binding(client, seconds=_BINDING_SECONDS))


def _fingerprint(choice: Choice, socket: SocketIdentity | None, client: McpClient, told: BoundCard) -> Fingerprint:
    return Fingerprint(choice, socket, client.peer_pid, client.peer_start, Binding.of(told), card_of(told))


def expect_binding(expected: dict[str, Any], actual: Binding) -> None:
    """Reject a request if the binding that it expects is not the binding of the chosen session."""
    _expect(expected, actual.as_json(), "binding", "the chosen session", "GET /api/session")


def expect_identity(expected: dict[str, Any], served: Identity) -> None:
    """Reject a request if the card that it expects is not the served card, or is another revision of it."""
    _expect(expected, served.as_json(), "identity", "the served card", "GET /api/identity")


def _expect(expected: dict[str, Any], actual: dict[str, str], what: str, whose: str, source: str) -> None:
    wrong = [name for name, value in actual.items() if expected[name] != value]
    if wrong:
        raise CheckpointRejected(
            f"{whose} has another {', '.join(wrong)} than the request expects: read {source} again",
            code=f"{what}_mismatch",
            extra={what: actual},
        )


def expect_same_card(served: Identity, guard: Guard) -> None:
    """Reject a session if its card is not the served card, or is another revision of it."""
    difference = card_difference(guard.before.choice.name, guard.result, served)
    if difference is not None:
        extra = {"identity": guard.before.card.as_json()}
        raise CheckpointRejected(difference, code="identity_mismatch", extra=extra)

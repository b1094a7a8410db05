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
from cardapp.card_loader import CardLoader, FileStatus
from cardapp.errors import CardAppError, CheckpointRejected, SessionUnavailable
from cardapp.mcp.client import McpClient
from cardapp.session_client.link import Choice, SessionLink
from cardapp.session_client.session_tools import (
    Binding,
    BindingResult,
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
    """Everything that identifies the session and the card at one moment."""

    choice: Choice
    socket: SocketIdentity | None
    peer_pid: int | None
    peer_start: int | None
    result: BindingResult
    source: tuple[FileStatus | None, str]
    """The status and the SHA-256 of the card's source file."""

    @property
    def container(self) -> tuple[int, int] | None:
        """The pid of a container's first process and its start time; None if the session is in no container."""
        process = self.result["container_process"]
        return (process["pid"], process["started"]) if process is not None else None

    @property
    def binding(self) -> Binding:
        return Binding.of(self.result)

    @property
    def card(self) -> Identity:
        return card_of(self.result)

    @property
    def build_timeout(self) -> float:
        """The session's time limit for a build, in seconds. It is not compared."""
        return self.result["build_timeout_s"]


class Guard:
    """Takes the first fingerprint of the chosen session, over the kept connection to it."""

    def __init__(self, link: SessionLink, card_loader: CardLoader) -> None:
        self._link = link
        self._card_loader = card_loader
        # The socket's identity is read before a connection is opened. If the socket is replaced in between, the
        # fingerprints differ.
        (choice, socket), self.client = link.held()
        self.before = self._fingerprint(choice, socket, self.client)

    def _fingerprint(self, choice: Choice, socket: SocketIdentity | None, client: McpClient) -> Fingerprint:
        return Fingerprint(
            choice=choice,
            socket=socket,
            peer_pid=client.peer_pid,
            peer_start=client.peer_start,
            result=session_binding(client, seconds=_BINDING_SECONDS),
            source=self._card_loader.source_version(),
        )

    def confirm(self) -> None:
        """Compare with the first fingerprint. Raises :class:`CheckpointRejected`, which names the first difference."""
        rejected = self.rejection()
        if rejected is not None:
            raise rejected

    def rejection(self) -> CheckpointRejected | None:
        """Compare with the first fingerprint. Returns the rejection for the first difference; None if there is none."""
        before = self.before
        if self._card_loader.source_version() != before.source:
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
        if self.before.container is None:
            return None
        name = self.before.choice.name
        pid, started = self.before.container
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
                return self._fingerprint(choice, socket, self.client)
        except CardAppError:
            pass  # the held connection was just lost; the session may still answer over a new one
        try:
            client = self._link.connect(choice)
        except SessionUnavailable:
            return None
        try:
            return self._fingerprint(choice, socket, client)
        except CardAppError:
            return None
        finally:
            client.close()


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


def expect_same_card(served: Identity, session: Fingerprint) -> None:
    """Reject a session if its card is not the served card, or is another revision of it."""
    difference = card_difference(session.choice.name, session.result, served)
    if difference is not None:
        identity_of_session = card_of(session.result).as_json()
        raise CheckpointRejected(difference, code="identity_mismatch", extra={"identity": identity_of_session})

"""The HTTP listener: loopback TCP and the Unix socket, served by one loop and one set of workers.

It limits how long a request may take to arrive and how long a connection may idle, makes room for new connections,
admits only the owner over TCP, and lets running requests end when it stops.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import socket
import threading
from collections.abc import Callable, Mapping
from heapq import nsmallest
from time import monotonic

from cardapp import unix_socket
from cardapp.settings import Settings
from cardapp.web import sockets
from cardapp.web.app import intakes
from cardapp.web.connections import BODIES_BYTES, UNREAD_BYTES, BodyBudget, Rules, Timeouts
from cardapp.web.failures import WsgiApp
from cardapp.web.gate import JSON_LIMIT, Gate, Intake, Tcp, Transport, Unix
from cardapp.web.peer import OwnerOnly
from cardapp.web.waitress_adapter import Loop

MakeGate = Callable[[Transport, Mapping[str, Intake]], Gate]

WORKERS = 32
"""Requests that run at once: those of sixteen clients, and sixteen that wait for a replay, each for up to
``CARD_REPLAY_TIMEOUT``."""

CONNECTIONS = 4096
"""Maximum number of connections, if the process may have as many descriptors. For each further one the connection that
was idle longest is closed."""
BEGIN_SECONDS = 1.0
"""A connection that is idle for less than this is not closed for another one."""
_SPARED_CONNECTIONS = 64
"""Exception to ``BEGIN_SECONDS``: with so many connections above the maximum, any idle one is closed."""
_OTHER_DESCRIPTORS = 256
"""Descriptors that connections leave to files, the database and the rest."""

HEADER_BYTES = 32 * 1024
_TURN_SECONDS = 5.0
_SWEEP_SECONDS = 1.0
_DRAIN_SECONDS = 0.02

_log = logging.getLogger(__name__)


class Listener:
    """Serves ``app`` behind a gate on both transports. ``start`` once; ``stop`` any number of times."""

    def __init__(
        self,
        settings: Settings,
        app: WsgiApp,
        *,
        make_gate: MakeGate = Gate,
        timeouts: Timeouts | None = None,
        connections: int = CONNECTIONS,
        unread_bytes: int = UNREAD_BYTES,
        bodies_bytes: int = BODIES_BYTES,
    ) -> None:
        self._settings = settings
        self._app = app
        self._make_gate = make_gate
        self._timeouts = timeouts or Timeouts()
        self._room = min(connections, max(_descriptors() - _OTHER_DESCRIPTORS, 2 * WORKERS))
        self._unread_bytes = unread_bytes
        # The largest picture must fit in when nothing else arrives.
        self._bodies = BodyBudget(max(bodies_bytes, settings.evidence_max_bytes + JSON_LIMIT))
        self._lifecycle = threading.Lock()
        self._stopping = threading.Event()
        self._resources = contextlib.ExitStack()
        self._loop: Loop | None = None
        self._thread: threading.Thread | None = None
        self._sweep_at = 0.0
        self._flush_until = 0.0
        self.port = 0
        """The bound TCP port; 0 before ``start``."""
        self.addresses: tuple[str, ...] = ()
        """The URLs of the bound TCP sockets, the configured one first; empty before ``start``."""

    def start(self) -> None:
        """Take the lock, bind, serve. A StateError or MissingRequirement says why that fails; nothing is left then."""
        settings = self._settings
        with self._lifecycle, contextlib.ExitStack() as undo:
            undo.callback(os.close, sockets.take_lock(settings.state_dir / "api.lock"))
            # TCP first: of two instances that would share the path of the Unix socket only one gets past it.
            tcp = [undo.enter_context(bound) for bound in sockets.bind_tcp(settings.api_host, settings.api_port)]
            self.port = tcp[0].getsockname()[1]
            others = [bound.getsockname()[0] for bound in tcp[1:]]
            self.addresses = tuple(Tcp(host, self.port).address for host in (settings.api_host, *others))
            unix = undo.enter_context(unix_socket.bind(settings.api_socket, "CARD_API_SOCKET"))
            undo.callback(unix_socket.remove, settings.api_socket, unix_socket.identity(settings.api_socket))
            owner_only = OwnerOnly() if settings.api_peers == "owner" else None
            if owner_only is not None:
                undo.callback(owner_only.close)
            with contextlib.ExitStack() as unserved:
                self._serve(tcp, unix, owner_only, unserved)
                unserved.pop_all()
            self._resources = undo.pop_all()

    def stop(self, timeout: float = 5.0) -> None:
        """Accept nothing more, let running requests end for at most ``timeout`` seconds, then close everything."""
        deadline = monotonic() + timeout
        with self._lifecycle:
            if self._thread is None or self._loop is None:
                return
            self._in_loop(self._loop.stop_accepting)
            self._loop.end_workers(max(deadline - monotonic(), 0.0))
            self._flush_until = max(deadline, monotonic() + _DRAIN_SECONDS)
            # Set in the loop's thread: the loop ends by it, and cannot be woken afterwards.
            self._in_loop(self._stopping.set)
            self._thread.join(timeout + _TURN_SECONDS)
            self._thread = None
            self._resources.close()

    def _serve(
        self, tcp: list[socket.socket], unix: socket.socket, owner_only: OwnerOnly | None, undo: contextlib.ExitStack
    ) -> None:
        self._loop = Loop(WORKERS)
        undo.callback(self._loop.close)
        undo.callback(self._loop.end_workers, 0.0)
        allowed = intakes(self._settings.evidence_max_bytes)
        loopback = Tcp(self._settings.api_host, self.port)
        for bound in (*tcp, unix):
            gate = self._make_gate(Unix(loopback.address) if bound is unix else loopback, allowed)
            admit = owner_only.refusal if owner_only is not None and bound is not unix else None
            self._loop.listen(
                bound,
                gate.guard(self._app),
                Rules(gate, self._bodies, self._unread_bytes, admit),
                ident=None,
                connection_limit=self._room + _OTHER_DESCRIPTORS,  # reached if no connection is idle: see _make_room
                max_request_header_size=HEADER_BYTES,
                log_socket_errors=False,
            )
        self._thread = threading.Thread(target=self._run, args=(self._loop,), name="api-listener", daemon=True)
        self._thread.start()

    # -- in the thread of the loop -----------------------------------------------------------------------------------

    def _run(self, loop: Loop) -> None:
        try:
            while not self._stopping.is_set():
                self._turn(loop, min(_TURN_SECONDS, *self._timeouts))
            while loop.unsent() and monotonic() < self._flush_until:
                self._turn(loop, _DRAIN_SECONDS)
        finally:
            loop.close()

    def _turn(self, loop: Loop, seconds: float) -> None:
        try:
            loop.turn(seconds)
            if len(loop) > self._room:
                self._make_room(loop)
            if monotonic() >= self._sweep_at:
                self._sweep_at = monotonic() + min(_SWEEP_SECONDS, *self._timeouts)
                self._close_overdue(loop)
        except Exception:
            # One broken connection must not end the service for all.
            _log.exception("internal error in the loop of the HTTP listener")
            self._stopping.wait(_DRAIN_SECONDS)

    def _make_room(self, loop: Loop) -> None:
        """Close idle connections, those that were idle longest first, so that held connections keep no client out."""
        for more, seconds in ((0, BEGIN_SECONDS), (_SPARED_CONNECTIONS, 0.0)):
            surplus = len(loop) - self._room - more
            if surplus > 0:
                unused = [channel for channel in loop.connections() if channel.is_unused(seconds)]
                for channel in nsmallest(surplus, unused, key=lambda channel: channel.activity.moved):
                    channel.handle_close()

    def _close_overdue(self, loop: Loop) -> None:
        crowded = loop.backlog() > 0
        for channel in loop.connections():
            if channel.is_overdue(self._timeouts, crowded=crowded):
                channel.handle_close()

    # -- from other threads ------------------------------------------------------------------------------------------

    def _in_loop(self, action: Callable[[], object]) -> None:
        """Run ``action`` in the thread of the loop and wait for its end."""
        done = threading.Event()

        def act() -> None:
            try:
                action()
            finally:
                done.set()

        assert self._loop is not None
        self._loop.call(act)
        done.wait(_TURN_SECONDS)


def _descriptors() -> int:
    """How many descriptors this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft

"""A connection to one Neovim. Any thread may use it, and every call has a timeout.

pynvim is not thread-safe: the thread that attaches must also run the event loop and make all requests. So each
connection starts a thread. Callers pass their requests to this thread and wait on a future. The main thread cannot be
used, because pynvim would replace the process's signal handlers.

The kind of a request decides when Neovim handles it (measured on 0.7.2, see ``:help api-fast``):

- ``nvim_input`` is handled at once, even while Neovim waits for a key or runs a loop in Vimscript. Only a loop in Lua
  or an external call delays it.
- ``nvim_get_mode`` is handled while Neovim waits for a key, but not while a script runs.
- All other requests are handled when Neovim neither waits for a key nor runs a script.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from typing import Any, NamedTuple

from pynvim import Nvim, NvimError, socket_session

from cardapp import unix_socket
from cardapp.errors import CardAppError, Conflict, EditorUnavailable, TooSlow

_SETTLE_SECONDS = 5.0
"""How long ``send`` waits until the connection is established."""

REMEDY = "restore it with `bin/card-session reset`"


class Mode(NamedTuple):
    """The result of ``nvim_get_mode``: the short mode name of ``:help mode()``, and whether Neovim waits for a key."""

    name: str
    blocking: bool


class NeovimConnection:
    """Owns the thread, the event loop and the socket of a connection to the Neovim that listens on ``socket_path``.

    The constructor returns at once. The first calls wait for the connection, at most for their timeouts. When Neovim
    ends, or if it does not listen, ``ended`` is set, and all pending and later calls fail with ``EditorUnavailable``.
    """

    def __init__(self, socket_path: str, on_notification: Callable[[str, list[Any]], None] | None = None) -> None:
        """Start to connect. ``on_notification(name, arguments)`` is called for each notification of Neovim, in the
        connection's thread.

        :raises CardAppError: the system has no thread left (code ``busy``).
        """
        self.socket_path = socket_path
        self._on_notification = on_notification or _ignore
        self.ended = threading.Event()
        self._settled = threading.Event()  # set when the connection is established, or has failed
        self._lock = threading.Lock()
        self._session: Any = None
        self._nvim: Any = None
        self._closing = False
        self._reason = ""
        self._open: set[Future[Any]] = set()
        self._late_mode_request: Future[Any] | None = None
        self._thread = threading.Thread(target=self._serve, name="neovim-rpc", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            message = "the system has no thread left for a connection to Neovim; try again later"
            raise CardAppError(message, code="busy") from error

    # -- callers' threads ------------------------------------------------------------------------------------------

    def call(self, method: str, *arguments: Any, timeout: float) -> Any:
        """Call an API method (``:help api``) and return its result.

        :raises TooSlow: ``timeout`` seconds have passed. Neovim still handles the request; its result is dropped.
        :raises EditorUnavailable: Neovim has ended.
        :raises Conflict: Neovim reported an error (code ``editor_refused``).
        """
        deadline = monotonic() + timeout
        return self._await(self._submit(method, arguments, deadline), method, deadline)

    def send(self, method: str, *arguments: Any) -> None:
        """Call an API method without waiting; its result and its errors are dropped. Raises ``EditorUnavailable``."""
        self._submit(method, arguments, monotonic() + _SETTLE_SECONDS)

    @property
    def reason(self) -> str:
        """Why the connection ended; "" if it has not ended."""
        with self._lock:
            return self._reason

    @property
    def pending(self) -> int:
        """The number of requests that Neovim has not answered yet."""
        return len(self._open)

    def mode(self, timeout: float) -> Mode:
        """Neovim's mode. Unlike other calls, this one works while Neovim waits for a key. It raises the errors of
        ``call``.

        If a request times out, later callers wait for the same request. So a Neovim that is busy for an hour has one
        request in its queue, not one for each poll.
        """
        deadline = monotonic() + timeout
        request = self._late_mode_request
        if request is None or request.done():
            request = self._submit("nvim_get_mode", (), deadline)
        try:
            answer = self._await(request, "nvim_get_mode", deadline)
        except TooSlow:
            self._late_mode_request = request
            raise
        return Mode(str(answer["mode"]), bool(answer["blocking"]))

    def close(self, timeout: float = 2.0) -> None:
        """Close the connection, even if it is not established yet, and join its thread. Any thread may call this any
        number of times."""
        with self._lock:
            self._closing = True
            if self._session is not None:
                self._session.threadsafe_call(self._session.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _submit(self, method: str, arguments: tuple[Any, ...], deadline: float) -> Future[Any]:
        if not self._settled.wait(max(0.0, deadline - monotonic())):
            raise TooSlow(f"Neovim at {self.socket_path} does not answer, because it is busy; {REMEDY}")
        answer: Future[Any] = Future()
        answer.add_done_callback(self._forget)
        with self._lock:
            if self._session is None:
                raise EditorUnavailable(self._reason)
            self._open.add(answer)
            self._session.threadsafe_call(self._request, answer, method, arguments)
        return answer

    def _await(self, answer: Future[Any], method: str, deadline: float) -> Any:
        try:
            return answer.result(max(0.0, deadline - monotonic()))
        except TimeoutError:
            raise TooSlow(
                f"Neovim did not answer {method} in time: it runs a command or waits for a key; try again, or "
                "interrupt it with the input <C-c>, or as the last resort use `bin/card-session reset`"
            ) from None

    def _forget(self, answer: Future[Any]) -> None:
        with self._lock:
            self._open.discard(answer)

    # -- the connection's own thread -------------------------------------------------------------------------------

    def _serve(self) -> None:
        session = None
        reason = f"Neovim ended; {REMEDY}"
        try:
            with unix_socket.pinned(self.socket_path) as path:
                session = socket_session(path)
            if self._adopt(session):
                self._nvim = Nvim.from_session(session)
                self._settled.set()
                # from_session() runs the event loop too, so a stop() that close() called meanwhile may be lost.
                if not self._closing:
                    self._nvim.run_loop(self._refuse, self._on_notification)
        except (EOFError, OSError) as error:
            if not self._settled.is_set():
                reason = f"no Neovim listens at {self.socket_path} ({error}); {REMEDY}"
        except Exception as error:
            # msgpack's errors have no common base class, and invalid data can make any part of pynvim fail.
            reason = f"the program that listens at {self.socket_path} is not Neovim ({error!r}); {REMEDY}"
        finally:
            self._end(reason)
            if session is not None:
                _release(session)

    def _adopt(self, session: Any) -> bool:
        """Store the session, so that close() can stop it. Returns False if close() was called before."""
        with self._lock:
            if not self._closing:
                self._session = session
            return not self._closing

    def _request(self, answer: Future[Any], method: str, arguments: tuple[Any, ...]) -> None:
        """Runs in a greenlet of the event loop, which handles other events until the reply arrives."""
        try:
            result = self._nvim.request(method, *arguments)
        except NvimError as error:
            answer.set_exception(Conflict(f"Neovim refused {method}: {error}", code="editor_refused"))
        except Exception as error:  # msgpack cannot encode the caller's arguments
            answer.set_exception(error)
        else:
            answer.set_result(result)

    def _end(self, reason: str) -> None:
        with self._lock:
            self._session = None
            self._reason = f"the connection to Neovim was closed; {REMEDY}" if self._closing else reason
            orphans = tuple(self._open)
        self.ended.set()
        self._settled.set()
        for answer in orphans:
            answer.set_exception(EditorUnavailable(self._reason))

    @staticmethod
    def _refuse(method: str, arguments: list[Any]) -> None:
        raise NotImplementedError(f"this connection takes no requests: {method}")


def _ignore(_name: str, _arguments: list[Any]) -> None:
    """Called for notifications by default. Neovim sends only notifications to which a call has subscribed."""


def _release(session: Any) -> None:
    """Close the socket and the event loop. pynvim alone would close the event loop too early, before the transport has
    closed the socket."""
    transport, loop = session.loop._transport, session.loop._loop
    if transport is not None:
        transport.abort()
        loop.call_soon(loop.stop)
        loop.run_forever()
    session.close()

"""One connection to one Neovim, safe to call from any thread and bounded in time.

pynvim is not thread-safe: whoever attaches has to run its loop and make every request. So a connection owns one named
thread that attaches and runs the loop, and callers hand it their requests and wait on a future for as long as they
like. It must never be the main thread, where pynvim replaces the process's signal handlers.

What Neovim does with a request depends on its kind (measured on 0.7.2, written in ``:help api-fast``):

- ``nvim_input`` is taken at once, even while a key is awaited or a Vimscript loop runs (breakchecks poll the socket);
  only a loop in Lua or a foreign call keeps it waiting.
- ``nvim_get_mode`` answers while a key is awaited, but not while a script runs: it waits for the script's end.
- Everything else is queued behind both.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from time import monotonic
from typing import Any, NamedTuple

from pynvim import Nvim, NvimError, socket_session

from cardapp.errors import Conflict, EditorUnavailable, TooSlow

WAY_BACK = "Bring it back with `bin/card-session reset`."


class Mode(NamedTuple):
    """Neovim's answer to ``nvim_get_mode``: the short mode name of ``:help mode()``; whether it waits for a key."""

    name: str
    blocking: bool


class NeovimConnection:
    """Owns the thread, the loop and the socket of one conversation with the Neovim that listens on ``socket_path``.

    The constructor returns at once; calls wait for the attachment within their own bound. When Neovim ends, or never
    was there, ``ended`` is set and every open and later call fails with ``EditorUnavailable``. A connection that ended
    stays so: make another.
    """

    def __init__(self, socket_path: str) -> None:
        self.socket_path = socket_path
        self.ended = threading.Event()
        self._settled = threading.Event()  # attached, or ended without ever being so
        self._lock = threading.Lock()
        self._session: Any = None
        self._nvim: Any = None
        self._closing = False
        self._reason = ""
        self._open: set[Future[Any]] = set()
        self._overdue: Future[Any] | None = None
        self._thread = threading.Thread(target=self._serve, name="neovim-rpc", daemon=True)
        self._thread.start()

    # -- callers' threads ------------------------------------------------------------------------------------------

    def call(self, method: str, *arguments: Any, timeout: float) -> Any:
        """The result of an API method (``:help api``) within ``timeout`` seconds.

        Raises ``TooSlow`` (the request stays with Neovim; its late result is dropped), ``EditorUnavailable`` when
        Neovim ended, and ``Conflict`` with code ``editor_refused`` for an error that Neovim itself reports.
        """
        deadline = monotonic() + timeout
        return self._await(self._submit(method, arguments, deadline), method, deadline)

    def mode(self, timeout: float) -> Mode:
        """Neovim's mode; unlike other calls it is answered while a key is awaited. Raises as ``call`` does.

        A question that was not answered in time stays open and later callers wait on it: a Neovim that is busy for an
        hour holds one question, not one for every poll.
        """
        deadline = monotonic() + timeout
        question = self._overdue
        if question is None or question.done():
            question = self._submit("nvim_get_mode", (), deadline)
        try:
            answer = self._await(question, "nvim_get_mode", deadline)
        except TooSlow:
            self._overdue = question
            raise
        return Mode(str(answer["mode"]), bool(answer["blocking"]))

    def close(self, timeout: float = 2.0) -> None:
        """End the conversation, whatever state it is in, and join the thread. Any number of times, from any thread."""
        with self._lock:
            self._closing = True
            if self._session is not None:
                self._session.threadsafe_call(self._session.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _submit(self, method: str, arguments: tuple[Any, ...], deadline: float) -> Future[Any]:
        if not self._settled.wait(max(0.0, deadline - monotonic())):
            raise TooSlow(f"Neovim at {self.socket_path} does not answer: it is busy. {WAY_BACK}")
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
                f"Neovim did not answer {method} in time: it runs a command or waits for a key. Try again; if it stays "
                "so, interrupt it with the input <C-c>; only then end it with `bin/card-session reset`."
            ) from None

    def _forget(self, answer: Future[Any]) -> None:
        with self._lock:
            self._open.discard(answer)

    # -- the connection's own thread -------------------------------------------------------------------------------

    def _serve(self) -> None:
        session = None
        reason = f"Neovim ended. {WAY_BACK}"
        try:
            session = socket_session(self.socket_path)
            if self._adopt(session):
                self._nvim = Nvim.from_session(session)
                self._settled.set()
                # A close() that came while attaching may have spent its stop on the attachment's own loop run.
                if not self._closing:
                    self._nvim.run_loop(self._refuse, self._ignore)
        except (EOFError, OSError) as error:
            if not self._settled.is_set():
                reason = f"No Neovim answers at {self.socket_path} ({error}). {WAY_BACK}"
        except Exception as error:
            # msgpack's errors share no base, and a stranger's answers break pynvim in ways of their own.
            reason = f"What listens at {self.socket_path} does not speak as Neovim does ({error!r}). {WAY_BACK}"
        finally:
            self._end(reason)
            if session is not None:
                _release(session)

    def _adopt(self, session: Any) -> bool:
        """Publish the session, so that close() can stop it from now on; False when close() was faster."""
        with self._lock:
            if not self._closing:
                self._session = session
            return not self._closing

    def _request(self, answer: Future[Any], method: str, arguments: tuple[Any, ...]) -> None:
        """In a greenlet of the loop: the request yields to the loop until its answer is there."""
        try:
            result = self._nvim.request(method, *arguments)
        except NvimError as error:
            answer.set_exception(Conflict(f"Neovim refused {method}: {error}", code="editor_refused"))
        except Exception as error:  # arguments that msgpack cannot write: the caller's mistake, told to the caller
            answer.set_exception(error)
        else:
            answer.set_result(result)

    def _end(self, reason: str) -> None:
        with self._lock:
            self._session = None
            self._reason = f"The connection to Neovim was closed. {WAY_BACK}" if self._closing else reason
            orphans = tuple(self._open)
        self.ended.set()
        self._settled.set()
        for answer in orphans:
            answer.set_exception(EditorUnavailable(self._reason))

    @staticmethod
    def _refuse(method: str, arguments: list[Any]) -> None:
        raise NotImplementedError(f"this connection takes no requests: {method}")

    @staticmethod
    def _ignore(event: str, arguments: list[Any]) -> None:
        """Events reach a connection only through what its own calls subscribed to; none of them is awaited here."""


def _release(session: Any) -> None:
    """Close the socket now. pynvim closes its loop before the transport had its turn to close the socket."""
    transport, loop = session.loop._transport, session.loop._loop
    if transport is not None:
        transport.abort()
        loop.call_soon(loop.stop)
        loop.run_forever()
    session.close()

"""The session's Neovim, seen from its MCP server: bounded calls, and freeing it from whatever it waits for.

pynvim belongs to one thread: a connection owns one that attaches and runs the loop; callers hand it their requests.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from pynvim import Nvim, NvimError, socket_session

from cardapp.errors import CardAppError, EditorUnavailable, TooSlow

DEBUGGER = "return require('card.debugger').{name}(...)"


class EditorRefused(CardAppError):
    """Neovim answered a request with an error of its own."""

    code = "editor_refused"


class Editor:
    """The Neovim that listens at ``socket_path``; connects when first needed, and again after it was restarted."""

    def __init__(self, socket_path: Path) -> None:
        self._path = str(socket_path)
        self._lock = threading.Lock()
        self._connection: _Connection | None = None

    def alive(self, timeout: float = 1.0) -> bool:
        """Whether it answers; one that waits for a key does."""
        try:
            self.mode(timeout)
        except (EditorUnavailable, TooSlow):
            return False
        return True

    def condition(self) -> str | None:
        """Why it cannot be used, None when it can; one that waits for a key can."""
        try:
            self.mode()
        except (EditorUnavailable, TooSlow) as error:
            return error.detail
        return None

    def mode(self, timeout: float = 1.0) -> tuple[str, bool]:
        """Neovim's mode, and whether it waits for a key."""
        found = self._request("nvim_get_mode", timeout=timeout)
        return str(found["mode"]), bool(found["blocking"])

    def call(self, name: str, *arguments: Any, timeout: float = 2.0) -> Any:
        """What ``card.debugger``'s function ``name`` (Lua) answers."""
        return self._request("nvim_exec_lua", DEBUGGER.format(name=name), list(arguments), timeout=timeout)

    def lua(self, code: str, *arguments: Any, timeout: float = 2.0) -> Any:
        """What the Lua chunk ``code`` returns."""
        return self._request("nvim_exec_lua", code, list(arguments), timeout=timeout)

    def input(self, keys: str, timeout: float = 1.0) -> None:
        """Type ``keys`` (Neovim's key notation); taken at once, whatever Neovim does."""
        self._request("nvim_input", keys, timeout=timeout)

    def free(self, timeout: float = 1.0) -> bool:
        """Bring it to normal mode: out of a prompt, a pending key, a command line, a terminal. False if it stays."""
        deadline = time.monotonic() + timeout
        pause = threading.Event()
        while time.monotonic() < deadline:
            mode, blocking = self.mode(max(0.1, deadline - time.monotonic()))
            if mode in ("n", "nt") and not blocking:
                if not self.lua("return vim.fn.getcmdwintype()"):
                    return True
                self.input(":quit<CR>")
            else:
                self.input("<CR>" if mode.startswith("r") else r"<C-\><C-n>")
            pause.wait(0.002)
        return False

    def close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _request(self, method: str, *arguments: Any, timeout: float) -> Any:
        return self._connected().request(method, arguments, timeout)

    def _connected(self) -> _Connection:
        with self._lock:
            if self._connection is not None and self._connection.ended.is_set():
                self._connection.close()
                self._connection = None
            if self._connection is None:
                self._connection = _Connection(self._path)
            return self._connection


class _Connection:
    """One conversation, in one thread, from attaching to the end."""

    def __init__(self, path: str) -> None:
        self.ended = threading.Event()
        self._path = path
        self._ready = threading.Event()
        self._lock = threading.Lock()
        self._open: set[Future[Any]] = set()
        self._nvim: Nvim | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="session-editor", daemon=True)
        self._thread.start()

    def request(self, method: str, arguments: tuple[Any, ...], timeout: float) -> Any:
        deadline = time.monotonic() + timeout
        if not self._ready.wait(timeout):
            raise TooSlow("Neovim does not answer")
        answer: Future[Any] = Future()
        with self._lock:
            if self._nvim is None or self.ended.is_set():
                raise EditorUnavailable("Neovim does not run")
            self._open.add(answer)
            self._nvim.async_call(self._send, answer, method, arguments)
        try:
            return answer.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            raise TooSlow(f"Neovim did not answer {method} in time") from None
        finally:
            with self._lock:
                self._open.discard(answer)

    def close(self) -> None:
        with self._lock:
            self._closing = True
            if self._nvim is not None and not self.ended.is_set():
                self._nvim.async_call(self._nvim.stop_loop)
        self._thread.join(2.0)

    def _send(self, answer: Future[Any], method: str, arguments: tuple[Any, ...]) -> None:
        assert self._nvim is not None
        try:
            result = self._nvim.request(method, *arguments)
        except NvimError as error:
            self._fail(answer, EditorRefused(f"Neovim refused {method}: {error}"))
        except Exception as error:
            self._fail(answer, EditorUnavailable(f"Neovim ended during {method} ({error!r})"))
        else:
            if not answer.done():
                answer.set_result(result)

    @staticmethod
    def _fail(answer: Future[Any], error: Exception) -> None:
        if not answer.done():
            answer.set_exception(error)

    def _run(self) -> None:
        session = None
        try:
            session = socket_session(self._path)
            nvim = Nvim.from_session(session)
            with self._lock:
                if not self._closing:
                    self._nvim = nvim
            self._ready.set()
            if self._nvim is not None:
                nvim.run_loop(lambda *_: None, lambda *_: None)
        except (EOFError, OSError):
            pass  # it ended, or never ran: what `ended` says
        finally:
            self._end(session)

    def _end(self, session: Any) -> None:
        with self._lock:
            self.ended.set()
            self._ready.set()
            orphans = tuple(self._open)
        for answer in orphans:
            self._fail(answer, EditorUnavailable("Neovim ended"))
        if session is not None:
            _release(session)


def _release(session: Any) -> None:
    """pynvim closes its loop before the transport had its turn to close the socket: give it that turn."""
    transport, loop = session.loop._transport, session.loop._loop
    if transport is not None:
        transport.abort()
        loop.call_soon(loop.stop)
        loop.run_forever()
    session.close()

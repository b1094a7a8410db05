"""The editor's plugin on a real Neovim, against a small server on a Unix socket that records its requests."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from cardapp.card import keyboard
from cardapp.neovim import NeovimConnection
from tests.functional.neovim_process import neovim_with_ui
from tests.functional.session_process import eventually

pytestmark = pytest.mark.functional

RUNTIME = Path(__file__).resolve().parents[2] / "cardapp" / "session_host" / "nvim"
SET_UP = "lua require('card.user_commands').setup() require('card.keys').setup()"
LOAD = ("--cmd", f"set rtp^={RUNTIME} cmdheight=2", "-c", SET_UP)
TABLE = ("GET", "/api/keyboard")
SYNC = ("POST", "/api/navigation/sync")
PATIENCE = 20.0
READY = {"state": "ready", "observed": {"file": "arena.c", "line": 31}}


def response(status: int, body: Any, kind: str = "application/json") -> bytes:
    text = json.dumps(body).encode()
    return f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text


def unmeasured(body: Any) -> bytes:
    """A response without a length: the end of the connection ends it."""
    return b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + json.dumps(body).encode()


class Application(socketserver.ThreadingUnixStreamServer):
    """Answers with the bytes of ``answers``."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        self.answers = {
            TABLE: response(200, keyboard.as_json()),
            SYNC: response(200, READY),
            ("POST", "/api/editor/reset"): response(200, {"debugger_restarted": False, "editor_restarted": False}),
            ("POST", "/api/editor/redraw"): unmeasured(
                {"host": {"cols": 1, "rows": 2}, "grid": {"cols": 80, "rows": 24}}
            ),
            ("POST", "/api/navigation/move"): response(200, {"key": "t1/b1", "moved": 1, "at_end": "last"}),
        }
        self.requests: list[tuple[str, str, Any]] = []
        super().__init__(str(path), Exchange)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), name="application")
        self._thread.start()

    def asked(self, method: str, path: str) -> list[Any]:
        """The bodies of the requests to ``path``."""
        return [body for each, at, body in self.requests if (each, at) == (method, path)]

    def stop(self) -> None:
        self.shutdown()
        self._thread.join(10)
        self.server_close()
        Path(str(self.server_address)).unlink()


class Exchange(BaseHTTPRequestHandler):
    server: Application

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline()
        self.close_connection = True
        if not self.raw_requestline or not self.parse_request():
            return
        # With HTTP/1.0 the service answers without chunks, and closes the connection.
        assert (self.request_version, self.headers["Connection"]) == ("HTTP/1.0", None)
        length = int(self.headers.get("Content-Length", "0"))
        body = json.loads(self.rfile.read(length)) if length else None
        self.server.requests.append((self.command, self.path, body))
        self.wfile.write(self.server.answers[(self.command, self.path)])


@pytest.fixture
def api(state_dir: Path) -> Iterator[Application]:
    application = Application(state_dir / "api.sock")
    yield application
    application.stop()


@contextmanager
def loaded(folder: Path, socket: str | None = "api.sock") -> Iterator[NeovimConnection]:
    """A Neovim with the plugin, which asks the application at ``socket``."""
    environment = {"CARD_API_SOCKET": str(folder / socket)} if socket else {}
    with (
        neovim_with_ui(folder / "n", *LOAD, environment=environment) as neovim,
        closing(NeovimConnection(neovim.path)) as connection,
    ):
        yield connection


@pytest.fixture
def nvim(state_dir: Path) -> Iterator[NeovimConnection]:
    with loaded(state_dir) as connection:
        yield connection


def ask(nvim: NeovimConnection, expression: str) -> Any:
    return nvim.call("nvim_eval", expression, timeout=PATIENCE)


def lua(nvim: NeovimConnection, code: str, *arguments: Any) -> Any:
    return nvim.call("nvim_exec_lua", code, list(arguments), timeout=PATIENCE)


def press(nvim: NeovimConnection, keys: str) -> None:
    nvim.call("nvim_input", keys, timeout=PATIENCE)


def bound(nvim: NeovimConnection) -> list[str]:
    return [key["lhs"] for key in lua(nvim, "return (require('card.keys').status())")]


def when_bound(nvim: NeovimConnection) -> None:
    eventually(lambda: bound(nvim))


def screen(nvim: NeovimConnection) -> str:
    """The visible message area: the last two rows, joined. The call also fails if Neovim awaits a key."""
    assert nvim.mode(PATIENCE).blocking is False
    rows = 'map([&lines - 1, &lines], \'join(map(range(1, &columns), "screenstring(" . v:val . ", v:val)"), "")\')'
    return "".join(ask(nvim, rows)).strip()


def shows(nvim: NeovimConnection, text: str) -> None:
    eventually(lambda: text in screen(nvim))


def test_the_mappings_are_the_tables_editor_entries(api: Application, nvim: NeovimConnection) -> None:
    when_bound(nvim)
    assert bound(nvim) == ["<F1>", "<F2>", "<C-`>", "<C-Space>", "<M-Left>", "<M-Right>"]
    assert lua(nvim, "return select(2, require('card.keys').status())") is None
    assert len(api.requests) == 1
    for mode in "nxit":
        assert ask(nvim, f"maparg('<F2>', '{mode}', 0, 1).desc") == "card: Run the program to the stop of the position"


def test_a_key_sends_a_request_and_shows_the_result(api: Application, nvim: NeovimConnection) -> None:
    when_bound(nvim)
    for keys, path, body, message in (
        ("<F1>", "/api/editor/reset", {}, "reset: done"),
        ("<F2>", "/api/navigation/sync", {}, "sync: ready at arena.c:31"),
        ("<C-`>", "/api/editor/redraw", {}, "redraw: 80 x 24"),
        ("<M-Left>", "/api/navigation/move", {"delta": -1}, "previous: t1/b1 (the last)"),
        ("<M-Right>", "/api/navigation/move", {"delta": 1}, "next: t1/b1 (the last)"),
    ):
        press(nvim, keys)
        shows(nvim, f"card: {message}")
        assert api.asked("POST", path)[-1] == {"actor": "editor", **body}, keys
        assert ask(nvim, "execute('messages')").strip() == "", keys
    assert len(api.requests) == 6


def test_keys_work_in_the_other_modes_and_leave_them_alone(api: Application, nvim: NeovimConnection) -> None:
    when_bound(nvim)
    for enter, mode in (("i", "i"), ("<Esc>v", "v"), ("<Esc>:terminal cat<CR>i", "t")):
        press(nvim, enter)
        eventually(lambda mode=mode: nvim.mode(PATIENCE).name == mode)
        press(nvim, "<F2>")
        shows(nvim, "card: sync: ready")
        assert nvim.mode(PATIENCE).name == mode
        lua(nvim, "vim.cmd('echo')")


LONG = "the program ended before the stop: " + "größer 漢字 " * 60


def test_every_outcome_is_one_line_that_awaits_no_key(api: Application, nvim: NeovimConnection) -> None:
    when_bound(nvim)
    for answer, message in (
        (response(409, {"title": "t", "detail": "the level is not\nsyncable"}), "sync: the level is not syncable"),
        (response(503, {"title": "No session"}), "sync: No session"),
        (response(500, ["?"]), "sync: the application responded with status 500"),
        (response(502, {"detail": LONG}), "sync: the program ended before the stop"),
        (response(200, {}), "sync: done"),
        (response(200, {"state": "ready", "observed": None}), "sync: ready"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "incomplete response"),
        (b"", "closed without a response"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "the response is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "the response is chunked"),
        (b"HTTP/1.0 200 OK\r\n\r\n" + json.dumps(READY).encode(), "sync: ready at arena.c:31"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (8 << 20), "larger than 8 MiB"),
    ):
        api.answers[SYNC] = answer
        press(nvim, "<F2>")
        shows(nvim, message)
        assert nvim.mode(PATIENCE) == ("n", False), message


def test_nothing_is_bound_until_the_application_answers_and_then_all(state_dir: Path, nvim: NeovimConnection) -> None:
    assert bound(nvim) == []
    nvim.call("nvim_command", "CardKeys", timeout=PATIENCE)
    shows(nvim, "card: no keys are mapped: request failed (ENOENT")
    assert ask(nvim, "maparg('<F2>', 'n')") == ""
    api = Application(state_dir / "api.sock")
    try:
        api.answers[TABLE] = response(503, {"detail": "not yet"})
        eventually(lambda: api.requests)
        assert eventually(lambda: lua(nvim, "return select(2, require('card.keys').status())") == "not yet")
        api.answers[TABLE] = response(200, {"shortcuts": None})
        eventually(lambda: "has no shortcuts" in lua(nvim, "return select(2, require('card.keys').status())"))
        api.answers[TABLE] = response(200, keyboard.as_json())
        when_bound(nvim)
        nvim.call("nvim_command", "CardKeys", timeout=PATIENCE)
        shows(nvim, "card: <F1> reset, <F2> sync, <C-`> redraw")
        known = len(api.requests)
    finally:
        api.stop()
    press(nvim, "<F2>")
    shows(nvim, "sync: request failed (ENOENT): start bin/cardapp serve")
    assert len(api.requests) == known


def test_without_the_variable_the_reason_is_shown(state_dir: Path) -> None:
    with loaded(state_dir, None) as nvim:
        nvim.call("nvim_command", "CardKeys", timeout=PATIENCE)
        shows(nvim, "CARD_API_SOCKET is not set")

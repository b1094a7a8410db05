"""Clients of the editor's stream on a real Neovim: slow clients, clients that read nothing, and many clients in
turn."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from simple_websocket import ConnectionClosed

from cardapp.serve import Times
from cardapp.session_client.editor_stream import MAX_FRAMES_AHEAD, MAX_PENDING_REQUESTS
from tests.functional.serving import Stage, make_card, running_stage, until
from tests.functional.session_neovim import Neovim
from tests.functional.test_websockets import EDITOR, HANDSHAKE, connect, received

pytestmark = [pytest.mark.functional]

FLOOD = """
local pages = ...
vim.cmd("enew!")
local lines = {}
for number = 1, 5000 do lines[number] = ("%05d "):format(number * 7919 % 99991):rep(28) end
vim.api.nvim_buf_set_lines(0, 0, -1, false, lines)
for page = 1, pages do
  vim.cmd("normal! " .. (page % 100 == 0 and "gg" or "\\6"))
  vim.cmd("redraw")
end
vim.api.nvim_buf_set_lines(0, 0, -1, false, { "the last of it" })
"""
"""Fill a buffer and page through it, and redraw at each page. Neovim 0.10 sends only the cells that change; here nearly
all do."""


BUSY = """
local begun, done = ...
vim.fn.writefile({}, begun)
for _ = 1, 6000 do
  if vim.loop.fs_stat(done) then break end
  vim.loop.sleep(10)
end
"""


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """The service closes a WebSocket whose client receives nothing for a second."""
    with running_stage(make_card, options={"times": Times(send=1)}) as stage:
        yield stage


@pytest.fixture
def neovim(stage: Stage) -> Iterator[Neovim]:
    found = Neovim(stage)
    yield found
    found.close()


def test_a_client_that_acknowledges_nothing_gets_64_frames_and_a_full_grid_later(stage: Stage, neovim: Neovim) -> None:
    deaf = connect(stage.service, EDITOR)
    until(lambda: neovim.lua("return #vim.api.nvim_list_uis()") >= 2)
    neovim.send("nvim_exec_lua", FLOOD, [120])
    waiting = [received(deaf) for _ in range(2 + MAX_FRAMES_AHEAD)]
    assert [frame["type"] for frame in waiting] == ["hello", "terminal"] + ["redraw"] * MAX_FRAMES_AHEAD
    until(lambda: neovim.lines() == ["the last of it"])
    neovim.send("nvim_exec_lua", FLOOD, [2])  # one frame more, if Neovim has put all of the flood into the 64
    assert deaf.receive(timeout=0.5) is None
    for number in (1, MAX_FRAMES_AHEAD):
        deaf.send(json.dumps({"type": "ack", "seq": waiting[1 + number]["seq"]}))
    assert received(deaf)["type"] == "hello", "only when everything is acknowledged"
    until(lambda: "grid_resize" in [event[0] for event in received(deaf).get("events", [])])
    deaf.close()


def test_a_client_that_reads_nothing_is_closed(stage: Stage, neovim: Neovim) -> None:
    fields = {**HANDSHAKE, "Sec-WebSocket-Protocol": EDITOR[1]}
    head = "\r\n".join([f"GET {EDITOR[0]} HTTP/1.1", "Host: card", *(f"{k}: {v}" for k, v in fields.items())])
    uis = 1  # the terminal's UI only; those of the earlier clients are detached
    until(lambda: neovim.lua("return #vim.api.nvim_list_uis()") == uis)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(stage.service.settings.api_socket))
        client.sendall(f"{head}\r\n\r\n".encode())
        until(lambda: neovim.lua("return #vim.api.nvim_list_uis()") == uis + 1)
        neovim.send("nvim_exec_lua", FLOOD, [200])
        until(lambda: len(stage.service.websockets) == 0)
        until(lambda: neovim.lua("return #vim.api.nvim_list_uis()") == uis)


@contextlib.contextmanager
def busy(neovim: Neovim, folder: Path) -> Iterator[None]:
    """While the block runs, Neovim processes nothing. An input that came before Neovim is busy would not wait."""
    begun, done = folder / "begun", folder / "done"
    neovim.send("nvim_exec_lua", BUSY, [str(begun), str(done)])
    try:
        until(begun.exists)
        yield
    finally:
        done.touch()


def test_input_that_a_busy_neovim_does_not_process_is_bounded(stage: Stage, neovim: Neovim, tmp_path: Path) -> None:
    view = {"viewer": {"editor": {"sync": True, "control": True}}}
    assert stage.tcp.put("/api/viewer/state", view).status == 200
    client = connect(stage.service, EDITOR)
    assert received(client)["type"] == "hello"
    with busy(neovim, tmp_path):
        with contextlib.suppress(ConnectionClosed):
            for _ in range(MAX_PENDING_REQUESTS + 10):
                client.send(json.dumps({"type": "paste", "text": ""}))
        while (frame := received(client))["type"] != "bye":
            pass
    assert (frame["code"], "is busy" in frame["reason"]) == ("timeout", True)
    until(lambda: len(stage.service.websockets) == 0)
    assert stage.tcp.put("/api/viewer/state", {"viewer": {"editor": {"control": False}}}).status == 200


def test_opening_and_closing_leaves_nothing_here_and_in_neovim(stage: Stage, neovim: Neovim) -> None:
    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))

    def uis() -> int:
        found: int = neovim.lua("return #vim.api.nvim_list_uis()")
        return found

    # Neovim notices the end of a connection later than this process.
    attached = 1  # the terminal's UI
    until(lambda: uis() == attached)
    first = connect(stage.service, EDITOR)
    received(first)
    first.close()
    until(lambda: len(stage.service.websockets) == 0 and uis() == attached)
    threads, files = threading.active_count(), open_files()
    for number in range(10):
        client = connect(stage.service, EDITOR)
        if number % 3:
            received(client)
        if number % 2:
            client.close()
        else:
            with contextlib.suppress(OSError):
                client.sock.shutdown(socket.SHUT_RDWR)
    until(lambda: len(stage.service.websockets) == 0)
    until(lambda: uis() == attached)
    until(lambda: threading.active_count() <= threads and open_files() <= files)

"""The connection to a real Neovim: answers, an end by a kill, and what remains."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cardapp.errors import Conflict, EditorUnavailable
from cardapp.neovim import NeovimConnection
from tests.functional.neovim_process import NeovimProcess, neovim_with_ui
from tests.functional.session_process import eventually

pytestmark = pytest.mark.functional

LONG = 30.0  # seconds; for calls that are expected to be answered


@pytest.fixture
def neovim(state_dir: Path) -> Iterator[NeovimProcess]:
    with neovim_with_ui(state_dir / "n.sock") as process:
        yield process


@pytest.fixture
def connection(neovim: NeovimProcess) -> Iterator[NeovimConnection]:
    connection = NeovimConnection(neovim.path)
    yield connection
    connection.close()


def rpc_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "neovim-rpc"]


def test_a_call_returns_its_result_and_an_error_of_neovim_is_translated(connection: NeovimConnection) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    assert connection.call("nvim_eval", "6 * 7", timeout=LONG) == 42
    with pytest.raises(Conflict) as refused:
        connection.call("nvim_eval", "nonsense(", timeout=LONG)
    assert refused.value.code == "editor_refused"
    assert connection.mode(LONG) == ("n", False)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_kill_fails_the_open_call_and_all_later_ones(neovim: NeovimProcess, connection: NeovimConnection) -> None:
    connection.call("nvim_input", "r", timeout=LONG)
    assert eventually(lambda: connection.mode(LONG).blocking)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(connection.call, "nvim_eval", "1", timeout=60)
        assert not waiting.done()
        neovim.kill()
        with pytest.raises(EditorUnavailable, match="Neovim ended"):
            waiting.result(LONG)
    assert connection.ended.wait(LONG)
    with pytest.raises(EditorUnavailable, match="bin/card-session reset"):
        connection.call("nvim_eval", "1", timeout=LONG)


def test_open_and_close_leak_no_descriptor_and_no_thread(neovim: NeovimProcess) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    NeovimConnection(neovim.path).close()
    before, threads = descriptors(), len(rpc_threads())
    for round_ in range(30):
        connection = NeovimConnection(neovim.path)
        if round_ % 3:  # every third is closed while it attaches
            connection.call("nvim_eval", "1", timeout=LONG)
        connection.close(LONG)
        assert connection.ended.is_set()
    assert (descriptors(), len(rpc_threads())) == (before, threads)

"""The choice file, and a session that hangs, which delays one caller and not all of them."""

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cardapp.errors import SessionUnavailable
from cardapp.session_client.link import Choice, SessionLink, SessionStatus, read_choice


def test_a_choice_is_read(tmp_path: Path) -> None:
    path = tmp_path / "choice.json"
    path.write_text(json.dumps({"name": "s", "socket": "/tmp/s/mcp.sock"}))
    assert read_choice(path) == Choice("s", "/tmp/s/mcp.sock")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"name": "s"}',
        '{"name": 1, "socket": "x"}',
        "\x00",
        r'{"name": "s", "socket": "a\u0000b"}',
        r'{"name": "s", "socket": "\udc80"}',
        "[" * 2000,
    ],
)
def test_an_invalid_choice_is_refused_with_the_remedy(tmp_path: Path, text: str) -> None:
    path = tmp_path / "choice.json"
    path.write_text(text)
    with pytest.raises(SessionUnavailable, match="card-session start") as caught:
        read_choice(path)
    assert caught.value.code == "bad_choice"


def test_without_a_choice_file_no_session_is_chosen(tmp_path: Path) -> None:
    with pytest.raises(SessionUnavailable, match="card-session start") as caught:
        read_choice(tmp_path / "none")
    assert caught.value.code == "no_session"


TOLD = {"container_id": "c", "instance": "i", "profile": "p", "target": "t"}


class Slow:
    """A link whose session answers only when the test allows it."""

    def __init__(self) -> None:
        self.let = threading.Event()
        self.asked = threading.Semaphore(0)

    def choice(self) -> Choice:
        return Choice("s", "/nonexistent")

    def binding(self, *, seconds: float) -> dict[str, Any]:
        self.asked.release()
        self.let.wait(10)
        return TOLD


def test_concurrent_readers_get_the_last_status_while_one_queries_the_session() -> None:
    link, now = Slow(), [0.0]
    view = SessionStatus(link, lambda: now[0], max_age=1.0)  # type: ignore[arg-type]
    link.let.set()
    first = view.brief()
    assert (first["available"], first["binding"]) == (True, TOLD)
    assert link.asked.acquire(timeout=1)
    link.let.clear()
    now[0] = 5.0
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(view.brief)
        assert link.asked.acquire(timeout=5)
        assert view.brief() == first
        link.let.set()
        assert slow.result(5) == first
    assert not link.asked.acquire(blocking=False)


def test_a_failed_connection_answers_the_next_callers_too(state_dir: Path) -> None:
    """The listener accepts and never speaks, as a stopped server does."""
    choice = state_dir / "choice.json"
    choice.write_text(f'{{"name": "s", "socket": "{state_dir / "s"}"}}')
    link = SessionLink(choice)
    accepted = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(state_dir / "s"))
        listener.listen()
        listener.settimeout(0.5)
        for _ in range(5):
            with pytest.raises(SessionUnavailable):
                link.binding(seconds=0.2)
        while True:
            try:
                accepted.append(listener.accept()[0])
            except TimeoutError:
                break
        for each in accepted:
            each.close()
    # One attempt may open a connection to each era of the protocol; five callers would open many more.
    assert 1 <= len(accepted) <= 2
    link.close()

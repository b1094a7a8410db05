"""The choice file, and a session that hangs, which delays one caller and not all of them."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from cardapp.errors import SessionUnavailable
from cardapp.session_client.link import Choice, SessionLink, read_choice


def test_a_choice_is_read(tmp_path: Path) -> None:
    path = tmp_path / "choice.json"
    path.write_text(json.dumps({"name": "s", "socket": "/tmp/s/mcp.sock"}))
    assert read_choice(path) == Choice("s", "/tmp/s/mcp.sock")


def test_an_invalid_choice_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "choice.json"
    for text in (
        "", "[]", '{"name": "s"}', '{"name": 1, "socket": "x"}', "\x00", r'{"name": "s", "socket": "a\u0000b"}',
        r'{"name": "s", "socket": "\udc80"}', "[" * 2000,
    ):  # fmt: skip
        path.write_text(text)
        with pytest.raises(SessionUnavailable, match="card-session start") as caught:
            read_choice(path)
        assert caught.value.code == "bad_choice", text


def test_without_a_choice_file_no_session_is_chosen(tmp_path: Path) -> None:
    with pytest.raises(SessionUnavailable, match="card-session start") as caught:
        read_choice(tmp_path / "none")
    assert caught.value.code == "no_session"


def test_a_failed_connection_answers_the_next_callers_too(state_dir: Path) -> None:
    """The listener accepts connections and never answers, like a stopped server."""
    choice = state_dir / "choice.json"
    choice.write_text(f'{{"name": "s", "socket": "{state_dir / "s"}"}}')
    link = SessionLink(choice)
    accepted = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(state_dir / "s"))
        listener.listen()
        listener.setblocking(False)
        for _ in range(5):
            with pytest.raises(SessionUnavailable):
                link.binding(seconds=0.2)
        with suppress(BlockingIOError):
            while True:
                accepted.append(listener.accept()[0])
        for each in accepted:
            each.close()
    # One attempt may open a connection to each era of the protocol; five callers would open many more.
    assert 1 <= len(accepted) <= 2
    link.close()

"""``cardapp record`` on a real program: what it fills in, what it asks for, and what it leaves unchanged."""

from __future__ import annotations

import os
import pty
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import pytest

from cardapp.authoring import record_cli
from cardapp.card.anchors import digest
from cardapp.card.source import load_card
from cardapp.cli import main
from tests.functional.command_line import cardapp
from tests.functional.session_process import TestCard, line_of

pytestmark = pytest.mark.functional

KEY = "t1/b1/p1/s1/x1"
SOURCE = """{
  "schema": "card-source.v1", "id": "probe", "uuid": "22eaec13-8764-4aa4-8dd9-8c3dc2d626bd",
  "version": "1.0.0", "title": "Probe", "language": "en",   "layout": "karta-classic",
  "target": {"name": "probe", "directory": "src", "build": ["make", "-s"], "program": "build/target",
             "args": ["run"], "sources": ["target.c"]},
  "tasks": [{"id": "t1", "title": "t", "blocks": [{"id": "b1", "title": "b", "phases": [
    {"id": "p1", "title": "p", "steps": [
      {"id": "s1", "title": "s",
       "code": {"file": "target.c",
                "function": "mark"},
       "snapshots": [{"id": "x1", "title": "x", "stop": {"function": "mark", "hits": 2},
                      "expect": { "n":"?", "n + 1" : "?"} }]}
    ]}]}]}]
}
"""


@pytest.fixture
def draft(tmp_path: Path) -> Path:
    """The source file of a card without values and without the lines of its excerpt."""
    path = TestCard(tmp_path / "card").folder / "card_source.json"
    path.write_text(SOURCE)
    return path


def answered(answer: str, draft: Path) -> tuple[int, str]:
    """The exit code and the output of ``record``, whose question is answered on a terminal."""
    master, slave = pty.openpty()
    with open(slave) as typed, open(os.dup(slave), "w") as shown:
        os.write(master, f"{answer}\n".encode())
        with patch("sys.stdin", typed), patch("sys.stdout", shown):
            code = main(["record", str(draft)])
    output = b""
    with suppress(OSError):  # the other end of the terminal is closed
        while True:
            output += os.read(master, 4096)
    os.close(master)
    return code, output.decode()


def test_record_makes_a_draft_green_and_keeps_its_formatting(draft: Path) -> None:
    first = line_of("mark(int n)")
    lines = (draft.parent / "src" / "target.c").read_text().split("\n")
    last = first + lines[first - 1 :].index("}")
    done = cardapp("record", draft)
    assert done.returncode == 0, done.stdout + done.stderr
    added = f',\n                "from": {first},\n                "to": {last},\n                "text": '
    anchor = f'"{lines[first - 1]}",\n                "digest": "{digest(lines[first - 1 : last])}"'
    expected = SOURCE.replace('"function": "mark"}', f'"function": "mark"{added}{anchor}}}')
    assert draft.read_text() == expected.replace('"n":"?", "n + 1" : "?"', '"n":"10", "n + 1" : "11"')
    again = cardapp("record", draft)
    assert again.returncode == 0
    assert again.stdout.endswith("nothing is missing, and all recorded values hold\n")


def test_what_was_there_is_replaced_on_request_only(draft: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draft.write_text(SOURCE.replace('"n":"?"', '"n":"7"'))
    without_terminal = cardapp("record", draft)
    assert without_terminal.returncode == 1
    assert f"! {KEY}  n            7    10" in without_terminal.stdout
    assert "1 value was kept; --yes replaces it" in without_terminal.stdout
    assert '"n":"7", "n + 1" : "11"' in draft.read_text()
    kept = draft.read_text()
    recording = record_cli.find(load_card(draft), {KEY}, None)
    monkeypatch.setattr(record_cli, "find", lambda *_: recording)  # the other answers need no further replay
    code, output = answered("n", draft)
    assert (code, draft.read_text()) == (1, kept)
    assert "Replace the value marked with '!'? [y/N]" in output
    replaced = kept.replace('"n":"7"', '"n":"10"')
    code, output = answered("y", draft)
    assert (code, draft.read_text()) == (0, replaced), output
    draft.write_text(kept)
    assert (cardapp("record", "--yes", draft).returncode, draft.read_text()) == (0, replaced)

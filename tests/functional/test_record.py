"""``cardapp record`` on a real program: what it fills in, what it asks for, and what it leaves unchanged."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from cardapp.card.anchors import digest
from tests.functional.session_process import TestCard, line_of

pytestmark = pytest.mark.functional

CARDAPP = [sys.executable, "-P", "-m", "cardapp"]
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


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CARDAPP, *map(str, arguments)], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )


def run_on_a_terminal(answer: str, *arguments: str | Path) -> tuple[int, str]:
    """The exit code and the output of a command whose questions are answered on a terminal."""
    master, slave = pty.openpty()
    with subprocess.Popen([*CARDAPP, *map(str, arguments)], stdin=slave, stdout=slave, stderr=slave) as process:
        os.close(slave)
        os.write(master, f"{answer}\n".encode())
        output = b""
        while True:
            try:
                output += os.read(master, 4096)
            except OSError:  # the command closed the terminal
                break
    os.close(master)
    return process.returncode, output.decode()


def test_record_makes_a_draft_green_and_keeps_its_formatting(draft: Path) -> None:
    first = line_of("mark(int n)")
    lines = (draft.parent / "src" / "target.c").read_text().split("\n")
    last = first + lines[first - 1 :].index("}")
    done = run("record", draft)
    assert done.returncode == 0, done.stdout + done.stderr
    added = f',\n                "from": {first},\n                "to": {last},\n                "text": '
    anchor = f'"{lines[first - 1]}",\n                "digest": "{digest(lines[first - 1 : last])}"'
    expected = SOURCE.replace('"function": "mark"}', f'"function": "mark"{added}{anchor}}}')
    assert draft.read_text() == expected.replace('"n":"?", "n + 1" : "?"', '"n":"10", "n + 1" : "11"')
    assert run("check", "--replay", draft).returncode == 0
    again = run("record", draft)
    assert again.returncode == 0
    assert again.stdout.endswith("nothing is missing, and all recorded values hold\n")


def test_what_was_there_is_replaced_on_request_only(draft: Path) -> None:
    draft.write_text(SOURCE.replace('"n":"?"', '"n":"7"'))
    without_terminal = run("record", draft)
    assert without_terminal.returncode == 1
    assert "! t1/b1/p1/s1/x1  n            7    10" in without_terminal.stdout
    assert "1 value was kept; --yes replaces it" in without_terminal.stdout
    assert '"n":"7", "n + 1" : "11"' in draft.read_text()
    kept = draft.read_text()
    code, output = run_on_a_terminal("n", "record", draft)
    assert (code, draft.read_text()) == (1, kept)
    assert "Replace the value marked with '!'? [y/N]" in output
    replaced = kept.replace('"n":"7"', '"n":"10"')
    code, output = run_on_a_terminal("y", "record", draft)
    assert (code, draft.read_text()) == (0, replaced), output
    draft.write_text(kept)
    assert (run("record", "--yes", draft).returncode, draft.read_text()) == (0, replaced)

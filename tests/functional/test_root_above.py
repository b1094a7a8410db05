"""A card in a folder of a user's repository: its session copies the repository, and rebuilds only what changed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.capabilities import need_program
from tests.cardapp.card.conftest import small_source
from tests.functional.session_process import SessionTool


class Repository:
    """A program in ``src`` with its card in ``docs/card``. Each build adds a line to the file ``builds``."""

    def __init__(self, folder: Path) -> None:
        need_program("git")
        self.folder, self.builds = folder / "repository", folder / "builds"
        (self.folder / "src").mkdir(parents=True)
        (self.folder / "src" / "main.c").write_text("int main(void)\n{\n    int n = 0;\n    return n;\n}\n")
        self.write_card(["sh", "-c", f"echo built >> {self.builds} && cc -g -O0 -o prog main.c"])
        subprocess.run(["git", "init", "-q", self.folder], check=True)

    def write_card(self, build: list[str]) -> None:
        document = small_source()
        stop = {"file": "main.c", "line": 4, "text": "return n;"}
        snapshot = {"id": "m", "title": "main", "stop": stop, "expect": {"n": "0"}}
        steps = [{"id": "s", "title": "A step", "snapshots": [snapshot]}]
        document["tasks"][0]["blocks"][0]["phases"] = [{"id": "p", "title": "A phase", "steps": steps}]
        del document["tasks"][0]["blocks"][1:], document["tasks"][1:]
        target = {"root": "../..", "directory": "../../src", "program": "prog", "sources": ["main.c"], "build": build}
        document["target"] |= target
        self.card.mkdir(parents=True, exist_ok=True)
        (self.card / "card_source.json").write_text(json.dumps(document))

    @property
    def card(self) -> Path:
        return self.folder / "docs" / "card"

    @property
    def built(self) -> int:
        return len(self.builds.read_text().splitlines())


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.fixture
def tool(tmp_path: Path) -> Iterator[SessionTool]:
    tool = SessionTool(tmp_path / "state")
    yield tool
    tool.stop_all()


def test_a_session_copies_the_root_and_builds_only_a_change(repository: Repository, tool: SessionTool) -> None:
    tool.must("start", "--name", "s", str(repository.card))
    copy = tool.state / "sessions" / "s" / "work" / "small"
    assert (copy / "docs" / "card" / "card_source.json").exists()
    for command in ("refresh", "reset", "refresh"):
        tool.must(command, "s")
    tool.must("stop", "s")
    tool.must("start", "--name", "s", str(repository.card))
    assert repository.built == 1
    (repository.folder / "src" / "new.h").write_text("")
    tool.must("refresh", "s")
    assert (copy / "src" / "new.h").exists()
    assert repository.built == 2

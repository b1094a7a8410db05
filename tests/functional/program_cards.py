"""Cards on small programs that a test writes, and stops at lines that contain a given text."""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.functional.session_process import SessionTool, TestCard, line_of


class ProgramCard(TestCard):
    """The folder of a card on the program ``prog`` that ``build``, a Makefile, makes of ``sources`` (text by name)."""

    __test__ = False

    def __init__(self, folder: Path, build: str, sources: dict[str, str]) -> None:
        self.folder = folder
        self.sources = folder / "src"
        for name, text in {"Makefile": build, **sources}.items():
            file = self.sources / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        target = {"name": "prog", "directory": "src", "build": ["make", "-s"], "program": "prog", "args": []}
        snapshot = {"id": "x1", "title": "x", "stop": {"function": "main"}, "expect": {}}
        step = {"id": "s1", "title": "s", "text": "t", "question": "q", "snapshots": [snapshot]}
        phase = {"id": "p1", "title": "p", "steps": [step]}
        block = {"id": "b1", "title": "b", "goal": "g", "phases": [phase]}
        self.document: dict[str, Any] = {
            "schema": "card-source.v1",
            "id": "prog",
            "uuid": str(uuid.uuid4()),
            "version": "1.0.0",
            "title": "A program",
            "language": "en",
            "layout": "karta-classic",
            "target": {**target, "sources": list(sources)},
            "tasks": [{"id": "t1", "title": "t", "blocks": [block]}],
        }
        self.write()

    def write(self) -> None:
        (self.folder / "card_source.json").write_text(json.dumps(self.document))

    def at(self, text: str, file: str, **more: Any) -> dict[str, Any]:
        """The stop at the only line of ``file`` that contains ``text``."""
        return {"file": file, "line": line_of(text, self.sources / file), "text": text, **more}


def session_tool() -> Iterator[SessionTool]:
    """The session tool with a separate state directory, for a fixture. At the end its sessions are stopped."""
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp", ignore_cleanup_errors=True) as state:
        made = SessionTool(Path(state))
        yield made
        made.stop_all()

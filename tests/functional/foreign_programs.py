"""A git repository with somebody's program, and a card of that program."""

from __future__ import annotations

import json
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cardapp.card.anchors import anchored
from cardapp.card.model import CodeRange
from cardapp.card.source import source_lines


@dataclass(frozen=True)
class Repository:
    """A git repository with somebody's program, and a card in its folder ``card``."""

    folder: Path

    @property
    def card(self) -> Path:
        return self.folder / "card"

    @property
    def source(self) -> Path:
        return self.card / "card_source.json"

    def write_card(self, target: dict[str, Any], steps: list[dict[str, Any]], **further: Any) -> None:
        """Write a card of one block with these steps, and commit everything."""
        phase = {"id": "p", "title": "A phase", "steps": steps}
        block = {"id": "b", "title": "A block", "phases": [phase]}
        document = {
            "schema": "card-source.v1",
            "id": target["name"],
            "uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, target["name"])),
            "version": "1.0.0",
            "title": f"How {target['name']} works",
            "language": "en",
            "layout": "karta-classic",
            "target": {"root": "..", "directory": "..", **target},
            **further,
            "tasks": [{"id": "t", "title": "A task", "blocks": [block]}],
        }
        self.card.mkdir(exist_ok=True)
        self.source.write_text(json.dumps(document, indent=1))
        self.commit()

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace the first ``old`` in a file, which must contain it."""
        file = self.folder / name
        content = file.read_bytes()
        assert old.encode() in content, (name, old)
        file.write_bytes(content.replace(old.encode(), new.encode(), 1))

    def line(self, name: str, text: str, *, after: str = "") -> int:
        """The number of the first line that contains ``text``, after the first line that contains ``after``."""
        lines = self._lines(name)
        start = next(number for number, line in enumerate(lines) if after in line)
        return next(number for number, line in enumerate(lines[start:], start + 1) if text in line)

    def excerpt(self, name: str, first: str, last: str) -> dict[str, Any]:
        """The anchored excerpt from the line that contains ``first`` to the next line that begins with ``last``."""
        lines = self._lines(name)
        start = self.line(name, first)
        end = next(number for number in range(start + 1, len(lines) + 1) if lines[number - 1].startswith(last))
        code = anchored(CodeRange(name, start, end), lines)
        return {"file": name, "from": start, "to": end, "text": code.text, "digest": code.digest}

    def _lines(self, name: str) -> list[str]:
        return source_lines(self.folder, [name])[name]

    def commit(self) -> None:
        if not (self.folder / ".git").exists():
            _run(["git", "init", "-q"], self.folder)
        _run(["git", "add", "-A"], self.folder)
        who = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        _run(["git", *who, "commit", "-q", "--allow-empty", "-m", "State"], self.folder)

    def restore(self) -> None:
        """Undo all edits since the last commit."""
        _run(["git", "checkout", "-q", "--", "."], self.folder)


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

"""Third-party programs from Debian's source packages. Each becomes a git repository with a card in it.

The sources are fetched for one run of the tests, from the deb-src counterparts of this machine's deb lines. They are
not part of this repository.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cardapp.card.anchors import anchored
from cardapp.card.model import CodeRange
from cardapp.card.source import source_lines

FETCHING = 300.0  # seconds
OFFLINE = re.compile("Could not resolve|Failed to fetch|Unable to connect|Unable to find a source package")


class DebianSources:
    """Fetches source packages with separate package lists, so that the machine's apt does not change."""

    def __init__(self, folder: Path) -> None:
        for program in ("apt-get", "dpkg-source", "git"):
            if shutil.which(program) is None:
                pytest.skip(f"not run: there is no {program} here")
        self._folder = folder
        (folder / "lists" / "partial").mkdir(parents=True)
        (folder / "sources.sources").write_text(_source_entries())
        self._apt("update")

    def unpacked(self, package: str) -> Path:
        """The unpacked and patched source of ``package``."""
        self._apt("source", "--download-only", package)
        description = next(self._folder.glob(f"{package}_*.dsc"))
        target = self._folder / f"{package}-source"
        _run(["dpkg-source", "--no-check", "-q", "-x", str(description), str(target)], self._folder)
        return target

    def _apt(self, *arguments: str) -> None:
        options = {
            "Dir::Etc::sourcelist": str(self._folder / "sources.sources"),
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::State::lists": str(self._folder / "lists"),
            "APT::Sandbox::User": "root",
        }
        settings = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
        done = subprocess.run(
            ["apt-get", "-qq", *settings, *arguments],
            cwd=self._folder, capture_output=True, text=True, timeout=FETCHING, check=False,
        )  # fmt: skip
        if done.returncode and (sign := OFFLINE.search(done.stderr)):
            pytest.skip(f"not run: Debian's sources cannot be fetched ({sign[0]})")
        assert done.returncode == 0, done.stderr


def _source_entries() -> str:
    """The machine's apt entries with deb-src in place of deb."""
    found = [file.read_text() for file in sorted(Path("/etc/apt/sources.list.d").glob("*.sources"))]
    entries = [re.sub("(?m)^Types: deb$", "Types: deb-src", text) for text in found]
    listed = Path("/etc/apt/sources.list")
    lines = listed.read_text().splitlines() if listed.exists() else []
    for line in lines:
        if (parts := line.split()) and parts[0] == "deb" and not parts[1].startswith("["):
            entries.append(
                f"Types: deb-src\nURIs: {parts[1]}\nSuites: {parts[2]}\nComponents: {' '.join(parts[3:])}\n"
                "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
            )
    return "\n".join(entries)


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
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=FETCHING, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

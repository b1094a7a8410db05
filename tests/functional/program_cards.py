"""Cards on small programs that a test writes, and stops at lines that contain a given text."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.functional.session_process import RunningSession, SessionTool, TestCard, document, line_of


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
        target = {"name": "prog", "build": ["make", "-s"], "program": "prog", "sources": list(sources)}
        self.document = document("prog", target, {"function": "main"}, {})
        self.write()

    @property
    def snapshot(self) -> dict[str, Any]:
        """The card's only snapshot."""
        found: dict[str, Any] = self.document["tasks"][0]["blocks"][0]["phases"][0]["steps"][0]["snapshots"][0]
        return found

    def at(self, text: str, file: str, **more: Any) -> dict[str, Any]:
        """The stop at the only line of ``file`` that contains ``text``."""
        return {"file": file, "line": line_of(text, self.sources / file), "text": text, **more}


def session_tool() -> Iterator[SessionTool]:
    """The session tool with a separate state directory, for a fixture. At the end its sessions are stopped."""
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp", ignore_cleanup_errors=True) as state:
        made = SessionTool(Path(state))
        yield made
        made.stop_all()


class ProgramSession(RunningSession):
    """A running session on a card of :class:`ProgramCard`."""

    card: ProgramCard


@contextmanager
def program_session(build: str, sources: dict[str, str]) -> Iterator[ProgramSession]:
    """A session on a card of this program, in separate folders."""
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        card = ProgramCard(Path(folder) / "card", build, sources)
        started = ProgramSession(SessionTool(Path(folder) / "state"), card)
        try:
            yield started
        finally:
            started.stop()

"""The tools that read and restore the session's copy of the files that people edit.

The session may not be able to read the card's own files, because a container does not see all of them. So a client that
can read them compares the copies with them, and sends their contents to restore the copies.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cardapp.errors import CardAppError
from cardapp.mcp.tool import CallContext, Tool, ToolFailure
from cardapp.session_host.copied_tree import CopiedTree, Stamp
from cardapp.session_host.session import Session
from cardapp.session_host.session_tools import BOOLEAN, NOTHING, TEXT, TEXT_OR_NULL, closed_object, tool_schema
from cardapp.session_host.sources import back_up
from cardapp.source_tree import edited_files

MAX_BYTES = 1 << 20
"""The maximum size of a file's content. A message of the protocol has at most 4 MiB."""
CONTENT = {"type": ["string", "null"], "contentEncoding": "base64", "maxLength": 2 * MAX_BYTES}
MAX_LINKS = 8
RELOAD_SECONDS = 0.5

# Name, title, description, input schema, output schema.
DESCRIBED = (
    (
        "list_sources",
        "List the sources",
        "The card's source files and makefiles in the session's copy, each with the SHA-256 of its content, null if it "
        "is missing. copied is false if the session uses the card's own files; then the list is empty.",
        NOTHING,
        tool_schema(
            {
                "copied": BOOLEAN,
                "files": {"type": "array", "items": closed_object({"file": TEXT, "sha256": TEXT_OR_NULL})},
            }
        ),
    ),
    (
        "read_source",
        "Read a source file",
        f"The content of a file of list_sources; null if it is missing or has more than {MAX_BYTES} bytes.",
        tool_schema({"file": TEXT}),
        tool_schema({"content": CONTENT}),
    ),
    (
        "restore_source",
        "Restore a source file",
        "Give a file of list_sources its original content again; null removes it. An existing file is kept as backup, "
        "beside it. The next replay builds the program.",
        tool_schema({"file": TEXT, "content": CONTENT}),
        tool_schema({"backup": TEXT_OR_NULL}),
    ),
)


class SourceTools:
    """The tools of one session. Every handler may be called from any thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._digests: dict[str, tuple[Stamp, str]] = {}
        """The SHA-256 of a file that had this stamp."""

    def tools(self) -> list[Tool]:
        handlers = (self.list, self.read, self.restore)
        return [Tool(*described, handler) for described, handler in zip(DESCRIBED, handlers, strict=True)]

    def list(self, _arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
        if self._session.profile.in_place:
            return {"copied": False, "files": []}
        with self._copy() as (copy, places):
            files = [{"file": file, "sha256": self._digest(copy, _place(copy, places, file))} for file in places]
        return {"copied": True, "files": files}

    def read(self, arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
        with self._copy() as (copy, places):
            name = _place(copy, places, arguments["file"])
            content = _content(copy, name) if copy.stamp(name) is not None else None
        return {"content": None if content is None else base64.b64encode(content).decode()}

    def restore(self, arguments: dict[str, Any], _context: CallContext) -> dict[str, Any]:
        if self._session.profile.in_place:
            raise ToolFailure("not_copied", "the session uses the card's own files, not a copy of them")
        try:
            content = None if arguments["content"] is None else base64.b64decode(arguments["content"], validate=True)
        except binascii.Error as error:
            raise ToolFailure("bad_content", f"content is not base64: {error}") from error
        with self._copy() as (copy, places):
            name = _place(copy, places, arguments["file"])
            backup = back_up(copy, name) if copy.stamp(name) is not None else None
            if content is not None:
                copy.write(name, content)
        with contextlib.suppress(CardAppError):  # a busy Neovim reads the file again later
            self._session.editor.call("reload", timeout=RELOAD_SECONDS)
        return {"backup": backup}

    @contextmanager
    def _copy(self) -> Iterator[tuple[CopiedTree, dict[str, str]]]:
        """The copy, and the path in it of each file that people edit."""
        try:
            workspace = self._session.workspace()
            below = os.path.relpath(workspace.directory, workspace.root)
            places = {file: os.path.normpath(os.path.join(below, file)) for file in edited_files(workspace.target)}
            with self._lock, contextlib.closing(CopiedTree(workspace.root)) as copy:
                yield copy, places
        except (OSError, ValueError, CardAppError) as error:
            raise ToolFailure("sources_unusable", f"the session's copy cannot be used: {error}") from error

    def _digest(self, copy: CopiedTree, name: str) -> str | None:
        stamp = copy.stamp(name)
        if stamp is None:
            return None
        known = self._digests.get(name)
        if known is None or known[0] != stamp:
            digest = hashlib.sha256()
            for piece in copy.read(name):
                digest.update(piece)
            known = self._digests[name] = stamp, digest.hexdigest()
        return known[1]


def _place(copy: CopiedTree, places: dict[str, str], file: str) -> str:
    """The path of ``file``, also if it is a link to another file of the copy."""
    if file not in places:
        raise ToolFailure("unknown_source", f"{file!r} is not a file of list_sources")
    name = places[file]
    for _ in range(MAX_LINKS):
        stamp = None if name.startswith("..") else copy.stamp(name)
        if stamp is None or len(stamp) > 1:
            break
        name = os.path.normpath(os.path.join(os.path.dirname(name), stamp[0]))
    else:
        raise ToolFailure("sources_unusable", f"{file} is a link to a link, more than {MAX_LINKS} times")
    if name.startswith(".."):
        raise ToolFailure("sources_unusable", f"{file} leads out of the session's copy")
    return name


def _content(copy: CopiedTree, name: str) -> bytes | None:
    content = bytearray()
    for piece in copy.read(name):
        content += piece
        if len(content) > MAX_BYTES:
            return None
    return bytes(content)

"""Compares the session's copy of the card's sources with the card's own files, and restores the copy.

The session names the files of its copy and their digests. Only the served card decides which files may be read here,
because a session is not trusted.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import io
import threading
from typing import Any

from cardapp.card.source import LoadedCard, read_regular
from cardapp.card_loader import CardLoader, ServedCard
from cardapp.errors import CardAppError, Conflict
from cardapp.session_client.link import SessionLink
from cardapp.session_client.session_tools import card_difference
from cardapp.source_tree import edited_files

MAX_DIFF = 20_000
"""The maximum number of characters of a difference."""
MAX_LINES = 5000
"""A longer file is not compared line by line, because that could take seconds."""
MAX_BYTES = 1 << 20
"""The maximum size of a file that is restored. A message of the protocol has at most 4 MiB."""
CALL_SECONDS = 2.0

Change = dict[str, Any]
"""``{file, kind, diff, truncated}``. ``kind`` is changed, added (in the copy) or removed (from it). ``diff`` is None if
a version is not text or is too long."""


class SessionSources:
    """Reads and restores the copy of the chosen session. For use by any thread."""

    def __init__(self, link: SessionLink, card_loader: CardLoader) -> None:
        self._link = link
        self._card_loader = card_loader
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str, str], Change] = {}
        """The changes that were found last, by file and by the digests of both versions."""

    def changes(self, card_uuid: str) -> list[Change] | None:
        """The files of the copy that differ from the card's. None if the session works on another card than
        ``card_uuid``, has no copy, or does not answer."""
        served = self._card_loader.current()
        if served.identity.uuid != card_uuid:
            return None
        try:
            found = self._differing(served)
            return None if found is None else [self._change(served, *each) for each in found]
        except CardAppError:
            return None

    def restore(self) -> list[dict[str, Any]]:
        """Replace the content of every changed file of the copy by the card's content. Returns ``{file, backup}`` of
        each; ``backup`` is the name of the session's version, beside the file.

        Raises the errors of :meth:`SessionLink.call`, and :class:`Conflict` if the session works on another card.
        """
        served = self._card_loader.current()
        found = self._link.binding()
        if found["card"]["uuid"] != served.identity.uuid:
            difference = card_difference(self._link.choice().name, found, served.identity)
            raise Conflict(difference or "", code="identity_mismatch")
        restored = []
        for file, original, _ in self._differing(served) or ():
            content = _encoded(_original(served, file), file) if original else None
            arguments = {"file": file, "content": content}
            backup = self._link.call("restore_source", arguments, seconds=CALL_SECONDS)["backup"]
            restored.append({"file": file, "backup": backup})
        return restored

    def _differing(self, served: ServedCard) -> list[tuple[str, str, str]] | None:
        """The files that differ, each with the SHA-256 of the card's version and of the copy; "" for a missing version.
        None if there is no copy."""
        found = self._link.call("list_sources", {}, seconds=CALL_SECONDS)
        if not found["copied"]:
            return None
        copies = {each["file"]: each["sha256"] or "" for each in found["files"]}
        loaded = LoadedCard(served.card, served.identity, served.path)
        names = [name for name in edited_files(served.card.target) if name in copies and loaded.has_inside(name)]
        digests = [(name, self._card_loader.digest(loaded.target_directory / name), copies[name]) for name in names]
        return [each for each in digests if each[1] != each[2]]

    def _change(self, served: ServedCard, file: str, original: str, copy: str) -> Change:
        key = (file, original, copy)
        with self._lock:
            known = self._known.get(key)
        if known is None:
            versions = _original(served, file) if original else b"", self._copy(file) if copy else b""
            known = _described(file, "changed" if original and copy else "removed" if original else "added", *versions)
            with self._lock:
                self._known = {found: change for found, change in self._known.items() if found[0] != file}
                self._known[key] = known
        return known

    def _copy(self, file: str) -> bytes | None:
        content = self._link.call("read_source", {"file": file}, seconds=CALL_SECONDS)["content"]
        try:
            return None if content is None else base64.b64decode(content, validate=True)
        except binascii.Error:
            return None


def _original(served: ServedCard, file: str) -> bytes | None:
    loaded = LoadedCard(served.card, served.identity, served.path)
    return read_regular(loaded.target_directory / file)


def _encoded(content: bytes | None, file: str) -> str:
    if content is None or len(content) > MAX_BYTES:
        fault = "cannot be read" if content is None else f"has more than {MAX_BYTES} bytes"
        raise Conflict(f"the card's {file} {fault}: restore it with bin/card-session refresh", code="not_restored")
    return base64.b64encode(content).decode()


def _described(file: str, kind: str, original: bytes | None, copy: bytes | None) -> Change:
    diff = None if original is None or copy is None else _difference(file, original, copy)
    return {
        "file": file,
        "kind": kind,
        "diff": None if diff is None else diff[:MAX_DIFF],
        "truncated": diff is not None and len(diff) > MAX_DIFF,
    }


def _difference(file: str, original: bytes, copy: bytes) -> str | None:
    """The unified difference from the card's version to the copy; None if one of them is not text or is too long."""
    try:
        versions = [list(io.StringIO(text.decode())) for text in (original, copy)]
    except UnicodeDecodeError:
        return None
    if max(map(len, versions)) > MAX_LINES:
        return None
    found = difflib.unified_diff(versions[0], versions[1], f"card/{file}", f"session/{file}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in found)

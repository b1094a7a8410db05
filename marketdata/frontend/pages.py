"""Serves the page and its files: ``static/index.html`` at ``/``, the other files under ``/static/``. Files of text are
compressed for clients that accept gzip."""

from __future__ import annotations

import gzip
import hashlib
import html
import re
import threading
from pathlib import Path
from string import Template
from typing import NamedTuple

from marketdata.errors import NotFound
from marketdata.http.reply import HTML, VARY, Headers, Reply, accepts_gzip

FOLDER = Path(__file__).resolve().parent / "static"
INDEX = "/"
PREFIX = "/static/"

_MESSAGE = Template((FOLDER / "message.html").read_text(encoding="utf-8"))

_MAX_NAME_CHARACTERS = 200
"""The file system refuses longer names with an error."""
_SEGMENT = re.compile(r"[A-Za-z0-9_@-][A-Za-z0-9._@-]*")
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": HTML,
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".mjs": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
"""Files of other types are not served."""
_COMPRESSED = frozenset({".ico", ".png", ".woff2"})
"""These types gain nothing by compression."""


def message(title: str, text: str, action: str) -> bytes:
    """A page with a message and a link to the chart. ``action`` is the text of the link."""
    shown = {"title": title, "text": text, "action": action}
    return _MESSAGE.substitute({name: html.escape(content) for name, content in shown.items()}).encode()


class _Variants(NamedTuple):
    """A file as it is, and compressed. Each has a tag of its own, because their bytes differ."""

    plain: Reply
    gzipped: Reply


class Pages:
    """Keeps the files in memory, also compressed, and reads a file again after it has changed."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._held: dict[Path, tuple[tuple[int, int], _Variants]] = {}

    def reply(self, path: str, accept_encoding: str = "") -> Reply:
        """The file at a URL path, with its entity tag. Raises :class:`NotFound` if there is no such file."""
        name = "index.html" if path == INDEX else path.removeprefix(PREFIX)
        file = self._folder / name
        is_name = len(name) <= _MAX_NAME_CHARACTERS and all(_SEGMENT.fullmatch(segment) for segment in name.split("/"))
        if not is_name or file.suffix not in _TYPES or not file.is_file():
            raise NotFound("there is nothing at this path")
        status = file.stat()
        seen = (status.st_mtime_ns, status.st_size)
        with self._lock:
            held = self._held.get(file)
            if held is None or held[0] != seen:
                held = self._held[file] = seen, _read(file)
        return held[1].gzipped if accepts_gzip(accept_encoding) else held[1].plain


def _read(file: Path) -> _Variants:
    content = file.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:32]

    def reply(body: bytes, tag: str, *more: tuple[str, str]) -> Reply:
        headers: Headers = (("ETag", f'"{tag}"'), *more)
        return Reply(body, media_type=_TYPES[file.suffix], headers=headers)

    if file.suffix in _COMPRESSED:
        return _Variants(*[reply(content, digest)] * 2)
    return _Variants(
        reply(content, digest, VARY),
        reply(gzip.compress(content, mtime=0), f"{digest}-gzip", VARY, ("Content-Encoding", "gzip")),
    )

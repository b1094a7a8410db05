"""The session's copy of a card's sources: fetched and updated; an edited file is never overwritten without a backup."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from cardapp.card.model import Target
from cardapp.errors import CardAppError
from cardapp.session_host.directory import write_json

MANIFEST = ".fetched.json"
BUILT = {".o", ".d", ".a"}
MAX_FILES = 2000


class SourcesUnusable(CardAppError):
    """The card's sources cannot be copied."""

    code = "sources_unusable"


@dataclass
class Fetched:
    """The result of a fetch, as paths in the copy: updated files, edited files that were kept, and backups."""

    updated: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    backups: dict[str, str] = field(default_factory=dict)


def fetch(origin: Path, copy: Path, target: Target, *, replace_edits: bool) -> Fetched:
    """Bring ``copy`` up to date with ``origin``.

    A file that the learner has not edited is updated. An edited file stays as it is; with ``replace_edits`` it is
    renamed to ``NAME.orig`` (``NAME.orig2``, …) and fetched.
    """
    manifest = _manifest(copy)
    report = Fetched()
    digests: dict[str, str] = {}
    for name in _files(origin, target):
        source, copied = origin / name, copy / name
        wanted = _digest(source)
        digests[name] = wanted
        have = _digest(copied) if copied.is_file() else None
        if have == wanted:
            continue
        if have is not None and have != manifest.get(name):
            if not replace_edits:
                report.kept.append(name)
                digests[name] = manifest.get(name, wanted)
                continue
            report.backups[name] = _back_up(copied).name
        copied.parent.mkdir(parents=True, exist_ok=True)
        # Do not preserve the modification time: for make the copy must be newer than files built from the old version.
        shutil.copyfile(source, copied)
        copied.chmod(source.stat().st_mode & 0o755 | 0o600)
        report.updated.append(name)
    write_json(copy / MANIFEST, digests)
    return report


def _manifest(copy: Path) -> dict[str, str]:
    """The digest of each file when it was last fetched."""
    copy.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        found = json.loads((copy / MANIFEST).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _files(origin: Path, target: Target) -> Iterator[str]:
    """The card's files below ``origin``, without hidden files and build products."""
    program = PurePosixPath(target.program)
    built = origin / program.parts[0]
    if not origin.is_dir():
        raise SourcesUnusable(
            f"the card's directory {origin} does not exist; target.directory in the card's source names it"
        )
    found = 0
    for path in sorted(origin.rglob("*")):
        relative = path.relative_to(origin)
        hidden = any(part.startswith(".") for part in relative.parts)
        if hidden or not path.is_file() or path.suffix in BUILT or path == built or built in path.parents:
            continue
        found += 1
        if found > MAX_FILES:
            raise SourcesUnusable(
                f"{origin} holds more than {MAX_FILES} files; check target.directory in the card's source"
            )
        yield relative.as_posix()


def _back_up(path: Path) -> Path:
    backup, number = path.with_name(path.name + ".orig"), 1
    while backup.exists():
        number += 1
        backup = path.with_name(f"{path.name}.orig{number}")
    path.replace(backup)
    return backup


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()

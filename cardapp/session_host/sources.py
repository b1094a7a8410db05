"""The session's copy of a card's sources. An edited file is never overwritten without a backup."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cardapp.card.source import LoadedCard
from cardapp.errors import CardAppError
from cardapp.session_host.copied_tree import CopiedTree, Stamp, stamp_of
from cardapp.session_host.manifest import Manifest, read_manifest, write_manifest
from cardapp.session_host.workspace import Workspace
from cardapp.source_tree import copied_files, root_fault


class SourcesUnusable(CardAppError):
    """The card's sources cannot be copied."""

    code = "sources_unusable"


@dataclass
class Fetched:
    """The result of a fetch, as paths in the copy: updated files, kept edited files, and edited file -> its backup."""

    updated: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    backups: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Original:
    """A file or link among the card's sources. ``stamp`` is the stamp of the file, or has the text of the link."""

    path: str
    status: os.stat_result
    stamp: Stamp

    @property
    def is_link(self) -> bool:
        return len(self.stamp) == 1


def fetch(
    loaded: LoadedCard, workspace: Workspace, *, replace_edits: bool, max_bytes: int, without: Sequence[Path] = ()
) -> Fetched:
    """Update the session's copy of the card's root, which is the root of ``workspace``.

    A file that the learner has not edited is updated, or removed if the card's sources no longer have it. An edited
    file stays unchanged; with ``replace_edits`` it is renamed to ``NAME.orig`` (``NAME.orig2``, …) and fetched again.
    Before the first change the workspace is marked as changed. The folders ``without`` are not copied.

    :raises SourcesUnusable: there is no such folder, its files have more than ``max_bytes`` or a file cannot be
        copied.
    """
    originals = _originals(loaded, max_bytes, without)
    try:
        if not workspace.root.exists():
            return _fetch_all(originals, workspace)
        with contextlib.closing(CopiedTree(workspace.root)) as copy:
            own = os.path.relpath(loaded.path, loaded.root)
            return _Update(copy, workspace, read_manifest(copy), replace_edits, own).run(originals)
    except OSError as error:
        detail = f"the session's copy {workspace.root} cannot be made: {error.strerror}"
        raise SourcesUnusable(detail) from error


def _fetch_all(originals: dict[str, _Original], workspace: Workspace) -> Fetched:
    """Make the whole copy. The folder gets its name when it is complete, so single files need not be written
    atomically."""
    workspace.mark_changed()
    partial = workspace.root.with_name(f"{workspace.root.name}.fetching")
    shutil.rmtree(partial, ignore_errors=True)
    present: Manifest = {}
    with contextlib.closing(CopiedTree(partial)) as copy:
        for name, original in originals.items():
            present[name] = (original.stamp, _copy(original, copy, name, new=True))
        write_manifest(copy, present)
    partial.rename(workspace.root)
    return Fetched(updated=list(originals))


class _Update:
    """Updates a copy. ``known`` is the manifest of the last fetch.

    ``card`` is the card's own file in the copy. No build uses this file.
    """

    def __init__(self, copy: CopiedTree, workspace: Workspace, known: Manifest, replace_edits: bool, card: str) -> None:
        self._copy, self._workspace, self._known = copy, workspace, known
        self._replace_edits, self._card = replace_edits, card
        self._report = Fetched()

    def run(self, originals: dict[str, _Original]) -> Fetched:
        self._remove(self._known.keys() - originals.keys())
        present = {name: self._updated(name, original) for name, original in originals.items()}
        if present != self._known:
            write_manifest(self._copy, present)
        return self._report

    def _remove(self, names: set[str]) -> None:
        for name in sorted(names):
            have = self._copy.stamp(name)
            if have is not None and have == self._known[name][1]:
                self._workspace.mark_changed()
                self._copy.remove(name)

    def _updated(self, name: str, original: _Original) -> tuple[Stamp | None, Stamp | None]:
        """Update one file. Returns its entry of the manifest."""
        before = self._known.get(name, (None, None))
        have = self._copy.stamp(name)
        if (original.stamp, have) == before:  # ``have`` is None if the build removed the file
            return before
        if have is not None and _same(original, self._copy, name, have):
            if not original.is_link:
                self._copy.set_mode(name, original.status.st_mode)
            return original.stamp, self._copy.stamp(name)
        if have is not None and have != before[1]:
            half_built = self._workspace.is_half_built(name, have)
            if not self._replace_edits and not half_built:
                self._report.kept.append(name)
                self._workspace.mark_edited(have)
                return before
            self._report.backups[name] = back_up(self._copy, name)
        if name != self._card:
            self._workspace.mark_changed()
        self._report.updated.append(name)
        return original.stamp, _copy(original, self._copy, name, keep_time=name not in self._known)


def back_up(copy: CopiedTree, name: str) -> str:
    """Rename a file to ``NAME.orig`` (``NAME.orig2``, …). Returns the new name, without its folder."""
    base, number = os.path.basename(name), 1
    backup = f"{base}.orig"
    while copy.stamp(os.path.join(os.path.dirname(name), backup)) is not None:
        number += 1
        backup = f"{base}.orig{number}"
    copy.rename(name, backup)
    return backup


def _copy(original: _Original, copy: CopiedTree, name: str, *, new: bool = False, keep_time: bool = True) -> Stamp:
    """Copy a file or a link. Returns the stamp of the copy.

    A new file keeps its time, because make compares the times of files that were copied together. A file that replaces
    an older version gets the present time, because it must be newer than the files that were built from the older
    version.
    """
    try:
        if original.is_link:
            copy.link(original.stamp[0], name)
            return original.stamp
        return copy.copy(original.path, name, original.status, new=new, keep_time=keep_time)
    except OSError as error:
        raise SourcesUnusable(f"{original.path} cannot be copied: {error.strerror}") from error


def _same(original: _Original, copy: CopiedTree, name: str, have: Stamp) -> bool:
    if original.is_link or len(have) == 1:
        return original.stamp == have
    if original.stamp[0] != have[0]:
        return False
    with open(original.path, "rb") as file:
        return all(file.read(len(piece)) == piece for piece in copy.read(name)) and not file.read(1)


def _originals(loaded: LoadedCard, max_bytes: int, without: Sequence[Path]) -> dict[str, _Original]:
    """The files and links to copy, by their paths."""
    fault = root_fault(loaded)
    if fault is not None:
        raise SourcesUnusable(fault)
    found, total, top = {}, 0, f"{loaded.root}{os.sep}"
    for name, status in copied_files(loaded, without).items():
        path = top + name
        if stat.S_ISLNK(status.st_mode):
            text = _text_of_inner_link(loaded.root, name)
            if text is not None:
                found[name] = _Original(path, status, stamp_of(status, text))
                continue
            path = os.path.realpath(path)
            try:
                status = os.stat(path)
            except OSError:  # the target of the link does not exist here
                continue
        if stat.S_ISREG(status.st_mode):
            found[name] = _Original(path, status, stamp_of(status))
            total += status.st_size
    if total > max_bytes:
        raise SourcesUnusable(
            f"the files in {loaded.root} have {total} bytes, more than CARD_SOURCES_MAX_BYTES={max_bytes}; list files "
            "that are no sources in .gitignore, choose a smaller target.root, or raise the limit"
        )
    return found


def _text_of_inner_link(root: Path, name: str) -> str | None:
    """The text of a link whose target is in ``root``. None if the target is outside: then the target's content is
    copied."""
    link = root / name
    text = os.readlink(link)
    inside = Path(os.path.normpath(link.parent / text)).is_relative_to(root)
    if os.path.isabs(text) or not inside or not link.resolve().is_relative_to(root.resolve()):
        return None
    return text

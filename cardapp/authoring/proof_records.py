"""The records of proofs: which state of a card and its sources was proved, when, and at which revision."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from cardapp.card.source import LoadedCard
from cardapp.source_tree import copied_files, git
from cardapp.state import proofs
from cardapp.state.database import Database, read_only
from cardapp.state.proofs import CardProof

NOT_PROVED = "Not proved"
_SHOWN_DIGITS = 12


@dataclass(frozen=True)
class CardState:
    """A card and its sources at one moment. ``digest`` is the SHA-256 of all of them in hex.

    ``revision`` is the short hash of the commit, with ``+`` if the work tree differs from it: a tracked file changed,
    or the session copies a file that is not tracked. Without a commit it is the beginning of the digest.
    """

    digest: str
    revision: str


def present(loaded: LoadedCard) -> CardState:
    """The state of the loaded card and of its sources as they are now."""
    digest = _digest(loaded)
    return CardState(digest, _commit(loaded) or digest[:_SHOWN_DIGITS])


def last(loaded: LoadedCard, database: Path) -> CardProof | None:
    """The last proof of the card with its sources as they are now; None if they were never proved.

    :raises StateError: the database cannot be read.
    """
    if not os.path.exists(database):  # unlike Path.exists, it is False below a directory that this account cannot enter
        return None
    with read_only(database) as conn:
        return proofs.last(conn, _digest(loaded))


def save(state: CardState, proof: CardProof, database: Path) -> None:
    """Record the proof of the card in this state.

    :raises StateError: the database cannot be written.
    """
    with closing(Database.open(database)) as opened, opened.write() as conn:
        proofs.save(conn, state.digest, proof)


def phrase(proof: CardProof | None) -> str:
    """The phrase for the sheets, like "Proved 2026-11-25 at 3f2a1c4+, 9 values, 2 partly"."""
    if proof is None:
        return NOT_PROVED
    return f"Proved {proof.at[:10]} at {proof.revision}, {proof.compared.phrase()}"


def _digest(loaded: LoadedCard) -> str:
    digests = [(name, _file_digest(loaded.root / name)) for name in copied_files(loaded)]
    document = [loaded.identity.source_sha256, digests]
    return hashlib.sha256(json.dumps(document).encode()).hexdigest()


def _file_digest(path: Path) -> str | None:
    """The SHA-256 of a file, or the target of a link; None for any other path."""
    if path.is_symlink():
        return f"-> {os.readlink(path)}"
    if not os.path.isfile(path):  # a pipe or a device, which may never end
        return None
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _commit(loaded: LoadedCard) -> str | None:
    """The revision of the work tree that has the card; None if there is none, or no git."""
    folder = loaded.path.parent
    commit = git(folder, "rev-parse", "--short", "HEAD")
    if commit is None:
        return None
    # A file that git ignores has no status, although no commit has it. An untracked file counts if a session copies it.
    sources = (loaded.target_directory / name for name in loaded.card.target.sources)
    is_tracked = git(folder, "ls-files", "--error-unmatch", "--", *_paths((loaded.path, *sources))) is not None
    changed = git(folder, "status", "--porcelain", "--untracked-files=no")
    added = git(folder, "ls-files", "--others", "--exclude-standard", "--", *_paths((loaded.root,)))
    return commit.decode().strip() + ("" if is_tracked and changed == added == b"" else "+")


def _paths(paths: Iterable[Path]) -> list[str]:
    """The paths as literal pathspecs."""
    return [f":(literal){path}" for path in paths]

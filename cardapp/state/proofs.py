"""Stores proofs of cards. A proof says that every snapshot of a card was replayed and matched.

A digest identifies the content of the card and its sources. The last proof for each digest is stored.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from cardapp.card.compared import Compared


@dataclass(frozen=True)
class CardProof:
    """At the time ``at``, every snapshot of a card was replayed and the program matched it. ``revision`` identifies the
    proved state: the commit of the sources, or the beginning of the digest if there is no commit. ``compared`` is None
    if an earlier release made the proof, which did not count."""

    at: str
    revision: str
    compared: Compared | None = None


def last(conn: sqlite3.Connection, digest: str) -> CardProof | None:
    """The last proof of the card and the sources with this digest; None if they were never proved.

    The database may have an older schema, without the table of proofs or without counts.
    """
    if conn.execute("SELECT 1 FROM sqlite_master WHERE name = 'proof'").fetchone() is None:
        return None
    row = conn.execute("SELECT * FROM proof WHERE digest = ?", (digest,)).fetchone()
    if row is None:
        return None
    counted = "compared" in row.keys() and row["compared"] is not None  # noqa: SIM118 - a row is no mapping
    return CardProof(row["at"], row["revision"], Compared(row["compared"], row["partly"]) if counted else None)


def save(conn: sqlite3.Connection, digest: str, proof: CardProof) -> None:
    """Replace the proof of the card and the sources with this digest."""
    counts = (proof.compared.values, proof.compared.partly) if proof.compared is not None else (None, None)
    conn.execute(
        "INSERT OR REPLACE INTO proof (digest, at, revision, compared, partly) VALUES (?, ?, ?, ?, ?)",
        (digest, proof.at, proof.revision, *counts),
    )

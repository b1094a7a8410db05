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
    proved state: the commit of the sources, or the beginning of the digest if there is no commit."""

    at: str
    revision: str
    compared: Compared


def last(conn: sqlite3.Connection, digest: str) -> CardProof | None:
    """The last proof of the card and the sources with this digest; None if they were never proved."""
    row = conn.execute("SELECT * FROM proof WHERE digest = ?", (digest,)).fetchone()
    if row is None:
        return None
    return CardProof(row["at"], row["revision"], Compared(row["compared"], row["partly"]))


def save(conn: sqlite3.Connection, digest: str, proof: CardProof) -> None:
    """Replace the proof of the card and the sources with this digest."""
    conn.execute(
        "INSERT OR REPLACE INTO proof (digest, at, revision, compared, partly) VALUES (?, ?, ?, ?, ?)",
        (digest, proof.at, proof.revision, proof.compared.values, proof.compared.partly),
    )

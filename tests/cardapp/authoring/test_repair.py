"""The search for the stop at which a card's values hold again after its program changed."""

from __future__ import annotations

import json
from pathlib import Path

from cardapp.authoring.fault import Fault
from cardapp.authoring.proving import Proof, TemporarySession
from cardapp.authoring.repair import search_again
from cardapp.card.catalog import Catalog
from cardapp.card.model import Snapshot
from cardapp.card.source import load_card
from tests.cardapp.card.conftest import small_source

KEY = "t1/b1/p1/s1/one"
OTHER_LINES = [(7, 1), (9, 1), (11, 1)]


class Searched(TemporarySession):
    """A session that finds the card's values at one place ``(line, hits)``, and stops at no more than ``most`` hits."""

    def __init__(self, folder: Path, place: tuple[int, int] = (0, 0), most: int = 99) -> None:
        (folder / "src").mkdir(exist_ok=True)
        (folder / "src" / "a.c").write_text("\n\nint x;\n\n\n\nint x;\n\nint x;\n\nint x;\n\nint x;\n")
        (folder / "card_source.json").write_text(json.dumps(small_source()))
        self.loaded = load_card(folder)
        self.catalog = Catalog(self.loaded.card)
        self.place, self.most = place, most
        self.tried: list[tuple[int | None, int]] = []

    def prove(self, key: str, snapshot: Snapshot | None = None) -> Proof:
        assert snapshot is not None
        stop = snapshot.stop
        self.tried.append((stop.line, stop.hits))
        if self.tried[-1] == self.place:
            return Proof(key, "ready", 1, ())
        return failed("snapshot_drift" if stop.hits <= self.most else "replay_timeout")


def failed(*codes: str) -> Proof:
    return Proof(KEY, "failed", 1, tuple(Fault(KEY, "/p", None, code, "wrong") for code in codes))


def test_the_nearest_other_lines_are_tried_and_then_further_hits(tmp_path: Path) -> None:
    for place, fix, tried in (
        ((9, 1), {"line": 9}, OTHER_LINES[:2]),
        ((3, 5), {"hits": 5}, [*OTHER_LINES, *((3, hits) for hits in range(2, 6))]),
    ):
        session = Searched(tmp_path, place)
        (fault,) = search_again(session, failed("snapshot_drift")).faults
        assert (fault.code, fault.fix, session.tried) == ("snapshot_drift", fix, tried)
        assert fault.pointer == "/tasks/0/blocks/0/phases/0/steps/0/snapshots/0/stop"


def test_without_such_a_place_the_proof_stays_failed(tmp_path: Path) -> None:
    hits = [(3, hits) for hits in range(2, 7)]
    for codes, most, tried in (
        (("snapshot_drift",), 99, [*OTHER_LINES, *hits]),
        (("snapshot_drift",), 2, [*OTHER_LINES, *hits[:2]]),  # there are no further hits
        (("target_exited",), 99, OTHER_LINES),
        (("unreadable_value", "snapshot_drift"), 99, []),
    ):
        session = Searched(tmp_path, most=most)
        proof = failed(*codes)
        assert search_again(session, proof) is proof
        assert session.tried == tried, codes

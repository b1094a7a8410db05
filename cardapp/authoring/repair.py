"""Repairs a card after its program's lines moved: writes new lines of stops and excerpts, and new numbers of hits.

No repair accepts a changed value, nor a changed text except for the new name of a function, on request. A stop is moved
only to a line that contains its text, an excerpt only to lines with the same content. Another line or number of hits is
accepted only if all values hold in a replay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from cardapp.authoring.code_faults import stop_places
from cardapp.authoring.fault import Fault, pointers
from cardapp.authoring.proving import Proof, TemporarySession
from cardapp.authoring.renames import RENAMED
from cardapp.authoring.source_text import SourceText, read_source, write_source
from cardapp.card.model import NOT_RECORDED, Stop

MORE_HITS = 5
"""How many further hits of a stop are tried."""
OTHER_LINES = 3
"""How many other lines with the text of a stop are tried."""

_DEFAULTS = {"hits": 1}


@dataclass(frozen=True)
class Repair:
    """The members of a stop or an excerpt that were changed. If the source does not name the number of hits, the old
    number is 1; a line that was not looked up is None or "?"."""

    key: str
    pointer: str
    old: dict[str, Any]
    new: dict[str, Any]

    def __str__(self) -> str:
        changes = ", ".join(
            f"{name} {new}" if self.old[name] in (None, NOT_RECORDED) else f"{name} {self.old[name]} -> {new}"
            for name, new in self.new.items()
        )
        return f"{self.key}: {self.pointer.rpartition('/')[2]}: {changes}"

    def as_json(self) -> dict[str, Any]:
        return {"key": self.key, "pointer": self.pointer, "old": self.old, "new": self.new}


def repair(path: Path, faults: Iterable[Fault], *, accept_rename: bool = False) -> list[Repair]:
    """Write the fix of each fault that has one into the source file at ``path``, which keeps its formatting. The new
    name of a function is written if ``accept_rename`` is true.

    Raises ``OSError`` if the file cannot be written.
    """
    fixed = [(fault, dict(fault.fix)) for fault in faults if fault.fix and (accept_rename or fault.code != RENAMED)]
    if not fixed:
        return []
    text = SourceText(read_source(path))
    repairs = []
    for fault, fix in fixed:
        old = {name: text.value(f"{fault.pointer}/{name}", _DEFAULTS.get(name)) for name in fix}
        repairs.append(Repair(fault.key, fault.pointer, old, fix))
    values = {f"{each.pointer}/{name}": number for each in repairs for name, number in each.new.items()}
    write_source(path, text.with_values(values))
    return repairs


def merged(repairs: Iterable[Repair]) -> list[Repair]:
    """Join the repairs of the same place into one repair, from the first old to the last new number."""
    found: dict[str, Repair] = {}
    for each in repairs:
        first = found.get(each.pointer, each)
        found[each.pointer] = replace(first, old={**each.old, **first.old}, new={**first.new, **each.new})
    return list(found.values())


def search_again(session: TemporarySession, failed: Proof) -> Proof:
    """Search for a stop at which the card's values hold after the program changed; ``failed`` if there is none.

    First come the other lines that contain the stop's text, the nearest first, then later hits of its own line.
    """
    snapshot = session.catalog.snapshots[failed.key]
    codes = {fault.code for fault in failed.faults}
    if not snapshot.expect or not codes <= {"snapshot_drift", "target_exited"}:
        return failed
    candidates = list(_other_lines(session, snapshot.stop))
    if codes == {"snapshot_drift"}:
        hits = [snapshot.stop.hits + more for more in range(1, MORE_HITS + 1)]
        candidates += [({"hits": number}, replace(snapshot.stop, hits=number)) for number in hits]
    for members, stop in candidates:
        again = session.prove(failed.key, replace(snapshot, stop=stop))
        if not again.faults:
            return replace(failed, faults=(_found(session, failed.key, members),))
        if "hits" in members and again.faults[0].code != "snapshot_drift":
            break  # there are no further hits, and each search for one may take the whole time limit
    return failed


def _other_lines(session: TemporarySession, stop: Stop) -> Iterator[tuple[dict[str, int], Stop]]:
    places = stop_places(stop, session.loaded.sources().get(stop.file or "", []))
    for number in islice((each for each in places if each != stop.line), OTHER_LINES):
        yield {"line": number}, replace(stop, line=number)


def _found(session: TemporarySession, key: str, members: dict[str, int]) -> Fault:
    (name, number), = members.items()  # fmt: skip
    detail = f"the values of the card hold at {name} {number}"
    return Fault(key, f"{pointers(session.catalog)[key]}/stop", None, "snapshot_drift", detail, fix=members)

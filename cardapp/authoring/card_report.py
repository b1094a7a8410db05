"""Checks a whole card, on request with its replays and repairs, and reports everything that is wrong with it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cardapp.authoring import check, proof_records, proving
from cardapp.authoring.fault import Fault
from cardapp.authoring.program_functions import function_faults
from cardapp.authoring.proof_records import CardState
from cardapp.authoring.proving import Proof
from cardapp.authoring.repair import Repair, merged, repair, search_again
from cardapp.card.catalog import Catalog
from cardapp.card.compared import Compared, total
from cardapp.card.source import LoadedCard, load_card, source_path
from cardapp.errors import CardAppError, InvalidCard, MissingRequirement, NoCard, UsageError
from cardapp.state.database import now
from cardapp.state.proofs import CardProof

Progress = Callable[[Proof, int], None]
"""Called after each snapshot with its proof and the number of all snapshots to replay."""


@dataclass(frozen=True)
class Replays:
    """How snapshots are replayed: in a session of ``profile`` (None: the default one), each ``repeat`` times."""

    profile: str | None = None
    repeat: int = 1
    fail_fast: bool = False


@dataclass(frozen=True)
class CardReport:
    """The result of a check. ``card`` is the card as it was named, ``path`` its source file.

    ``loaded`` is None if the source is invalid. ``warnings`` make no card fail. ``proofs`` has the replayed snapshots,
    ``skipped`` the keys of those that were not replayed because of a fault. ``repairs`` were made before the check.
    ``only`` has the positions to which the check was limited; if it is empty, the check covers the whole card.
    ``state`` is the state of the card and its sources when the replays began; None without replays.
    """

    card: str
    path: Path
    loaded: LoadedCard | None
    faults: tuple[Fault, ...]
    warnings: tuple[Fault, ...] = ()
    proofs: tuple[Proof, ...] = ()
    skipped: tuple[str, ...] = ()
    repairs: tuple[Repair, ...] = ()
    only: tuple[str, ...] = ()
    state: CardState | None = None

    @property
    def ok(self) -> bool:
        return not self.faults

    @property
    def compared(self) -> Compared:
        return total(proof.compared for proof in self.proofs)

    @property
    def strict(self) -> CardReport:
        """The report with its warnings as faults."""
        proofs = tuple(
            replace(each, state="failed", faults=(*each.faults, *each.warnings)) if each.warnings else each
            for each in self.proofs
        )
        faults = sorted((*self.faults, *self.warnings), key=lambda fault: fault.line or 0)
        return replace(self, faults=tuple(faults), warnings=(), proofs=proofs)

    def as_json(self) -> dict[str, Any]:
        proved = [
            {
                "key": each.key,
                "state": each.state,
                "duration_ms": each.duration_ms,
                "replays": each.replays,
                "compared": each.compared.values,
                "partly": each.compared.partly,
            }
            for each in self.proofs
        ]
        not_proved = {"state": "skipped", "duration_ms": None, "replays": 0, "compared": 0, "partly": 0}
        return {
            "card": self.card,
            "ok": self.ok,
            "compared": self.compared.values,
            "partly": self.compared.partly,
            "faults": [fault.as_json() for fault in self.faults],
            "warnings": [warning.as_json() for warning in self.warnings],
            "snapshots": proved + [{"key": key, **not_proved} for key in self.skipped],
            "repairs": [each.as_json() for each in self.repairs],
        }


def check_card(
    card: str,
    replays: Replays | None = None,
    *,
    only: Sequence[str] = (),
    fix: bool = False,
    accept_rename: bool = False,
    progress: Progress = lambda _proof, _total: None,
) -> CardReport:
    """Check the card at the path ``card``. With ``replays`` also replay the snapshots that no static fault affects.

    ``only`` limits the check to these positions and all below them. With ``fix`` the new lines of stops and excerpts
    that moved are written into the source file, and the card is checked again; with ``accept_rename`` the new names of
    renamed functions, too.

    :raises NoCard: there is no card.
    :raises UsageError: there is no such profile.
    :raises MissingRequirement: a program that a session needs is missing.
    """
    path = source_path(card)
    if not fix:
        return replace(_checked(card, path, replays, only, progress), only=tuple(only))
    repairs = _repaired(path, _checked(card, path, None, only, progress), accept_rename=accept_rename)
    found = _checked(card, path, replays, only, progress, search=True)
    more = _repaired(path, found)
    if more:
        found = _checked(card, path, replays, only, progress)
    return replace(found, repairs=tuple(merged([*repairs, *more])), only=tuple(only))


def _repaired(path: Path, report: CardReport, *, accept_rename: bool = False) -> list[Repair]:
    try:
        return repair(path, report.faults, accept_rename=accept_rename)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def _checked(
    card: str, path: Path, replays: Replays | None, only: Sequence[str], progress: Progress, *, search: bool = False
) -> CardReport:
    try:
        loaded = load_card(path)
    except NoCard:
        raise
    except InvalidCard as error:
        faults = check.source_faults(path, error)
        # A card that cannot be read fails, whatever was chosen.
        shown = (fault for fault in faults if fault.code == error.code or _concerns(fault.key, only))
        return CardReport(card, path, None, tuple(shown))
    catalog = Catalog(loaded.card)
    faults = [fault for fault in check.static_faults(loaded) if _concerns(fault.key, only)]
    warnings = tuple(warning for warning in check.static_warnings(loaded) if _concerns(warning.key, only))
    if replays is None:
        unknown = [fault for fault in function_faults(loaded) if _concerns(fault.key, only)]
        faults = check.located(path, [*faults, *unknown])
        return CardReport(card, path, loaded, tuple(faults), warnings)
    state = proof_records.present(loaded)
    wanted = [key for key in catalog.snapshots if _is_within(key, only)]
    keys = _replayable(loaded, wanted, faults)
    proofs, unproved = _replayed(loaded, catalog, replays, keys, lambda proof: progress(proof, len(keys)), search)
    faults = check.located(path, [*faults, *(fault for each in proofs for fault in each.faults), *unproved])
    proved = {each.key for each in proofs}
    skipped = tuple(key for key in wanted if key not in proved)
    hidden = [warning for each in proofs for warning in each.warnings]
    warnings = tuple(check.located(path, [*warnings, *hidden]))
    return CardReport(card, path, loaded, tuple(faults), warnings, tuple(proofs), skipped, state=state)


def _replayable(loaded: LoadedCard, keys: list[str], faults: list[Fault]) -> list[str]:
    """The keys that no static fault affects. A missing file affects its stops; any other fault of the target affects
    all."""
    sources = loaded.card.target.sources
    missing = set()
    for fault in faults:
        if fault.pointer.startswith("/target/sources/"):
            missing.add(sources[int(fault.pointer.rpartition("/")[2])])
        elif fault.pointer.startswith("/target/"):
            return []
    touched = {fault.key for fault in faults}
    snapshots = Catalog(loaded.card).snapshots
    return [key for key in keys if key not in touched and snapshots[key].stop.file not in missing]


def proof_of(report: CardReport) -> CardProof | None:
    """The state of the card that these replays prove. None if they prove nothing: the card has a fault, not every
    snapshot was replayed, or the card or its sources changed meanwhile."""
    loaded, state = report.loaded, report.state
    if not report.ok or loaded is None or state is None:
        return None
    if {each.key for each in report.proofs} != set(Catalog(loaded.card).snapshots):
        return None
    unchanged = proof_records.present(load_card(loaded.path)).digest == state.digest
    return CardProof(now(), state.revision, report.compared) if unchanged else None


def _replayed(
    loaded: LoadedCard,
    catalog: Catalog,
    replays: Replays,
    keys: list[str],
    report: Callable[[Proof], None],
    search: bool,
) -> tuple[list[Proof], list[Fault]]:
    """The proofs of the snapshots ``keys``, and the fault that prevented further proofs."""
    proofs: list[Proof] = []

    def note(proof: Proof) -> None:
        proofs.append(proof)
        report(proof)

    try:
        proving.prove(
            loaded,
            catalog,
            keys,
            profile=replays.profile,
            repeat=replays.repeat,
            fail_fast=replays.fail_fast,
            examine=search_again if search else lambda _session, proof: proof,
            report=note,
        )
    except (MissingRequirement, UsageError):
        raise
    except CardAppError as error:
        pointer = "/target/build" if error.code == "build_failed" else "/target"
        return proofs, [Fault("", pointer, None, error.code, error.detail)]
    return proofs, []


# -- chosen positions ----------------------------------------------------------------------------------------------


def _is_within(key: str, only: Sequence[str]) -> bool:
    return not only or any(f"{key}/".startswith(f"{each}/") for each in only)


def _concerns(key: str, only: Sequence[str]) -> bool:
    """Whether ``key`` is a chosen position, or is below or above a chosen position."""
    return not key or _is_within(key, only) or any(f"{each}/".startswith(f"{key}/") for each in only)


def check_only(cards: Sequence[str], only: Sequence[str]) -> None:
    """Check that each key of ``only`` is a position of one of the cards. Nothing is raised for an invalid card, whose
    check reports its faults.

    :raises UsageError: it is not; the message names similar keys.
    """
    try:
        known = [item.key for card in cards for item in Catalog(load_card(card).card).items if item.key]
    except InvalidCard:
        return
    for key in only:
        if key not in known:
            last = key.rpartition("/")[2]
            near = difflib.get_close_matches(key, known, n=3) or [each for each in known if last in each.split("/")][:3]
            hint = f"did you mean {' or '.join(near)}?" if near else f"keys are ids joined by /, like {known[-1]}"
            raise UsageError(f"--only {key}: the card has no such position; {hint}")

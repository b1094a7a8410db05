"""The commands for authors of cards: their options and their output."""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cardapp import settings
from cardapp.authoring import check_output, proof_records
from cardapp.authoring.card_report import CardReport, Replays, check_card, check_only, proof_of
from cardapp.authoring.new_cli import add_new
from cardapp.authoring.proving import HIDDEN_TEXT, Proof
from cardapp.authoring.record_cli import add_record
from cardapp.card.source import load_card, source_path
from cardapp.card_loader import CardLoader, file_status
from cardapp.console import ArgumentParser, ProgressBar, end_as_after_ctrl_c
from cardapp.errors import CardAppError, InvalidCard, NoCard, UsageError
from cardapp.source_tree import copied_files
from cardapp.state.proofs import CardProof

DONE, FAILED = 0, 1
LOOK_SECONDS = 0.5
"""The interval at which check --watch looks at the files."""


class NotProved(CardAppError):
    """The error if a card cannot be proved."""

    code = "not_proved"


def add_commands(commands: argparse._SubParsersAction[ArgumentParser]) -> None:
    """Add the commands to the parser of ``cardapp``."""
    _add_check(commands)
    add_new(commands)
    add_record(commands)


# -- check ---------------------------------------------------------------------------------------------------------


def _add_check(commands: argparse._SubParsersAction[ArgumentParser]) -> None:
    check = commands.add_parser(
        "check",
        help="check cards: schema, ids, layout, and their references into the source files",
        epilog="exit codes: 0 no fault, 1 faults, 2 wrong use, 3 something that a session needs is missing",
    )
    check.add_argument("cards", metavar="CARD", nargs="+", help="a card's folder or its card_source.json")
    check.add_argument(
        "--replay", action="store_true", help="also replay every snapshot in a temporary debugger session"
    )
    check.add_argument(
        "--fix",
        action="store_true",
        help="write the new lines of stops and excerpts that moved into the card; with --replay also search the stops "
        "at which the values hold now (other lines, later hits)",
    )
    check.add_argument(
        "--accept-rename",
        action="store_true",
        help="with --fix: also write the new names of functions that were renamed and are otherwise the same",
    )
    check.add_argument(
        "--only", metavar="KEY", action="append", default=[], help="check this position and all below it (repeatable)"
    )
    check.add_argument("--repeat", metavar="N", type=_count, default=1, help="with --replay: replay each N times")
    check.add_argument("--fail-fast", action="store_true", help="with --replay: end after the first that fails")
    check.add_argument("--strict", action="store_true", help="make the warnings faults")
    check.add_argument("--watch", action="store_true", help="check again when a file changes, until Ctrl-C")
    check.add_argument("--format", choices=("text", "json", "junit"), default="text", help="default: text")
    check.add_argument(
        "--profile",
        help="with --replay: a section of etc/card-session.ini (default: CARD_SESSION_PROFILE, else local)",
    )
    check.set_defaults(run=_check)


def _count(words: str) -> int:
    if not words.isdecimal() or not 1 <= int(words) <= 1000:
        raise argparse.ArgumentTypeError(f"{words!r} must be a number from 1 to 1000")
    return int(words)


def _check(options: argparse.Namespace) -> int:
    _refuse_useless(options)
    for card in options.cards:
        source_path(card)  # refuse a mistyped path before the first card is checked
    check_only(options.cards, options.only)
    end_as_after_ctrl_c()
    if not options.watch:
        return DONE if all(report.ok for report in _check_once(options)) else FAILED
    while True:
        _check_and_wait(options)


def _refuse_useless(options: argparse.Namespace) -> None:
    """Refuse an option that would have no effect."""
    for name, given in (
        ("profile", options.profile is not None),
        ("repeat", options.repeat != 1),
        ("fail-fast", options.fail_fast),
    ):
        if given and not options.replay:
            raise UsageError(f"check --{name} needs --replay: without it no session is started")
    if options.accept_rename and not options.fix:
        raise UsageError("check --accept-rename needs --fix: without it nothing is written")
    if options.watch and options.format != "text":
        raise UsageError(f"check --watch prints text, because --format {options.format} is one document")


def _check_once(options: argparse.Namespace) -> list[CardReport]:
    reports = []
    for card in options.cards:
        report = _check_card(card, options)
        reports.append(report)
        if options.format == "text":
            print(check_output.text(report, replayed=options.replay), flush=True)
        if options.fail_fast and not report.ok:
            break
    if options.format == "json":
        print(check_output.json_text(reports))
    elif options.format == "junit":
        print(check_output.junit_text(reports))
    elif len(reports) > 1:
        print(check_output.summary_of_cards(reports), flush=True)
    return reports


def _check_card(card: str, options: argparse.Namespace) -> CardReport:
    report = _checked_card(card, options)
    report = report.strict if options.strict else report
    if options.replay:
        _record_proof(report)
    return report


def _checked_card(card: str, options: argparse.Namespace) -> CardReport:
    if not options.replay:
        return check_card(card, only=options.only, fix=options.fix, accept_rename=options.accept_rename)
    profile = options.profile or os.environ.get("CARD_SESSION_PROFILE")
    replays = Replays(profile, options.repeat, options.fail_fast)
    return _replayed(
        card,
        replays,
        only=options.only,
        fix=options.fix,
        accept_rename=options.accept_rename,
        shown=options.format == "text",
    )


def _replayed(
    card: str,
    replays: Replays,
    *,
    only: Sequence[str] = (),
    fix: bool = False,
    accept_rename: bool = False,
    shown: bool = True,
) -> CardReport:
    """The report of a check with replays. If ``shown`` is true, a bar shows the progress."""
    bar = ProgressBar(shown=shown)
    bar.note(f"{card}: building the program and starting a session …")

    def progress(proof: Proof, total: int) -> None:
        bar.advance(f"{proof.key}{' FAILED' if proof.faults else ''}", total)

    try:
        return check_card(card, replays, only=only, fix=fix, accept_rename=accept_rename, progress=progress)
    finally:
        bar.wipe()


# -- check --watch -------------------------------------------------------------------------------------------------


def _check_and_wait(options: argparse.Namespace) -> None:
    """Check once, then wait until a file of the cards has changed since the check began."""
    files = [file for card in options.cards for file in _files(card, replayed=options.replay)]
    before = list(map(file_status, files))
    if any(report.repairs for report in _check_once(options)):
        before = list(map(file_status, files))
    print(f"waiting for a change of {len(files)} files; Ctrl-C ends", flush=True)
    pause = threading.Event()
    while list(map(file_status, files)) == before:
        pause.wait(LOOK_SECONDS)
    print(flush=True)


def _files(card: str, *, replayed: bool) -> list[Path]:
    """The files of a card: its source, its layout and its target's sources. If it is ``replayed``, also the files that
    a session copies. For an invalid card, only its source."""
    try:
        files = CardLoader(source_path(card)).current().files
        loaded = load_card(card)
        copied = [loaded.root / name for name in copied_files(loaded)] if replayed else []
        return list(dict.fromkeys([*files, *copied]))
    except NoCard:
        return [Path(card)]
    except InvalidCard:
        return [source_path(card)]


# -- proofs --------------------------------------------------------------------------------------------------------


def prove(card: str) -> CardProof:
    """Replay every snapshot of the card at the path ``card``, and record the proof.

    :raises NotProved: the card has faults, or an excerpt without an anchor, which may show the wrong lines. The faults
        were printed on standard error.
    """
    report = _replayed(card, Replays(os.environ.get("CARD_SESSION_PROFILE")))
    # An excerpt without an anchor may show the wrong lines. What a * hides is counted on the sheets.
    hidden = tuple(warning for warning in report.warnings if warning.code == HIDDEN_TEXT)
    unanchored = tuple(warning for warning in report.warnings if warning not in hidden)
    report = replace(report, faults=(*report.faults, *unanchored), warnings=hidden)
    if not report.ok:
        print(check_output.text(report, replayed=True), file=sys.stderr)
        count = len(report.faults)
        raise NotProved(f"{card} is not proved: it has {count} fault{'s'[: count > 1]}")
    proof = _record_proof(report)
    if proof is None:
        raise NotProved(f"{card} is not proved: it or its sources changed during the replays; run the command again")
    return proof


def _record_proof(report: CardReport) -> CardProof | None:
    """Record the proof if the replays prove the card. If no record can be written, the proof still counts."""
    proof = proof_of(report)
    if proof is not None and report.state is not None:
        try:
            proof_records.save(report.state, proof, settings.load(os.environ).state_database)
        except CardAppError as error:
            print(f"cardapp: the proof is not recorded: {error.detail}", file=sys.stderr)
    return proof

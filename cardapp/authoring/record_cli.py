"""The command ``record``: its options, the table of its changes, and its question."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from cardapp.authoring.card_report import check_only
from cardapp.authoring.recording import Change, Recording, record, selected
from cardapp.authoring.stability import STOP
from cardapp.card.catalog import Catalog
from cardapp.card.source import LoadedCard, load_card
from cardapp.console import ArgumentParser, ProgressBar, end_as_after_ctrl_c

DONE, FAILED = 0, 1
_MAX_CELL = 44
"""The table shows at most this number of a value's characters."""


def add_record(commands: argparse._SubParsersAction[ArgumentParser]) -> None:
    """Add the command to the parser of ``cardapp``."""
    parser = commands.add_parser(
        "record",
        help="fill in a card's missing values, lines and digests; replace others on request",
        description="Replays the snapshots of a card, and writes what is missing into its source file: values and "
        'texts that are "?", the lines and digests of excerpts. Existing values that differ are shown, and replaced on '
        "request. Each snapshot is replayed twice; a value that differs from run to run is named, and not written.",
    )
    parser.add_argument("card", metavar="CARD", help="a card's folder or its card_source.json")
    parser.add_argument("--only", metavar="KEY", help="record only this position and what is below it")
    parser.add_argument("--yes", action="store_true", help="also replace what differs, without a question")
    parser.add_argument(
        "--profile", help="a section of etc/card-session.ini (default: CARD_SESSION_PROFILE, else local)"
    )
    parser.set_defaults(run=_record)


def _record(options: argparse.Namespace) -> int:
    end_as_after_ctrl_c()
    loaded = load_card(options.card)
    if options.only:
        check_only([options.card], [options.only])
    found = find(loaded, selected(loaded, options.only), options.profile)
    print_changes(found.changes)
    if options.yes or not found.replacing or _agrees(len(found.replacing)):
        written, kept = found.changes, 0
    else:
        written, kept = found.without_replacing(), len(found.changes) - len(found.without_replacing())
    if written:
        found.write(written)
    return _print_result(found, len(written), kept)


def find(loaded: LoadedCard, keys: set[str], profile: str | None) -> Recording:
    """The changes that can be recorded. A bar shows the progress of the replays."""
    bar, total = ProgressBar(), 2 * sum(key in keys for key in Catalog(loaded.card).snapshots)

    def report(key: str) -> None:
        bar.advance(key, total)

    try:
        return record(loaded, keys, profile or os.environ.get("CARD_SESSION_PROFILE"), report)
    finally:
        bar.wipe()


def print_changes(changes: Sequence[Change]) -> None:
    """Print a table of the changes. A value that replaces another one is marked with ``!``."""
    if not changes:
        return
    rows = [("position", "what", "old", "new")]
    rows += [(each.key, each.name, _shown(each.old), _shown(each.new)) for each in changes]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    marks = [" ", *("!" if each.replaces else " " for each in changes)]
    for mark, row in zip(marks, rows, strict=True):
        cells = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print(f"{mark} {cells}".rstrip())


def _shown(value: Any) -> str:
    text = "-" if value is None else str(value).strip()
    return text if len(text) <= _MAX_CELL else f"{text[: _MAX_CELL - 1]}…"


def _agrees(count: int) -> bool:
    """Ask whether the marked values may be replaced. Without a terminal the answer is no."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    values = "the value" if count == 1 else f"the {count} values"
    try:
        return input(f"Replace {values} marked with '!'? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _print_result(found: Recording, written: int, kept: int) -> int:
    for problem in found.problems:
        print(f"  {problem.key}: {problem.code}: {problem.sentence}")
    for each in found.unstable:
        print(f"  {each}")
    if any(each.expression == STOP for each in found.unstable):
        print("  another run does not reach these stops: choose stops that every run reaches")
    if any(each.expression != STOP for each in found.unstable):
        print("  these values differ from run to run: expect what the program determines instead,")
        print('  or write {"undefined": true} for a value, or move its expression to watch: both are never compared')
    for name in found.addresses:
        print(f"  {name} is an address, which may differ on another machine: expect what it points to, or watch it")
    print(f"{found.path}: " + (f"{written} value{'s'[: written != 1]} recorded" if written else "nothing recorded"))
    if kept:
        print("1 value was kept; --yes replaces it" if kept == 1 else f"{kept} values were kept; --yes replaces them")
    elif not (found.changes or found.problems or found.unstable):
        print("nothing is missing, and all recorded values hold")
    return FAILED if kept or found.problems or found.unstable else DONE

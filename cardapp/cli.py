"""The command line.

Exit codes: 0 done; 1 the check failed; 2 wrong use; 3 a requirement is missing; 130 interrupted by Ctrl-C; 141 the
reader of the output closed its pipe. The last two are 128 plus the signal's number, as in a shell."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from cardapp import __version__
from cardapp.authoring import cli as authoring
from cardapp.authoring import proof_records
from cardapp.card.source import LoadedCard, load_card
from cardapp.console import ArgumentParser, end_as_after_ctrl_c, run_printing
from cardapp.errors import (
    CardAppError,
    InvalidCard,
    InvalidLayout,
    InvalidValue,
    MissingRequirement,
    NoCard,
    NoLayout,
    UsageError,
)
from cardapp.publish import layouts
from cardapp.settings import declared, load, unknown_names
from cardapp.state import explanations
from cardapp.state.database import Database
from cardapp.state.proofs import CardProof

DONE, FAILED, WRONG_USE, MISSING = 0, 1, 2, 3
FORMATS = ("html", "latex", "pdf")
"""The output formats of ``emit``: the names in ``export.EMITTERS``."""
SUFFIX_FORMATS = {".html": "html", ".htm": "html", ".tex": "latex", ".pdf": "pdf"}
"""The format that each file name suffix stands for."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return run_printing(lambda: int(options.run(options)))
    except CardAppError as error:
        _print_error(error)
        return _exit_code(error)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _print_error(error: CardAppError) -> None:
    """Print the error and its faults. The first fault is left out, because ``detail`` contains it."""
    print(f"cardapp: {error.detail}", file=sys.stderr)
    for fault in error.errors[1:]:
        print(f"  {fault.pointer or '/'} {fault.message}", file=sys.stderr)
    if isinstance(error, InvalidCard) and not isinstance(error, NoCard):
        print("bin/cardapp check names the line of each fault", file=sys.stderr)


def _exit_code(error: CardAppError) -> int:
    if isinstance(error, MissingRequirement):
        return MISSING
    return WRONG_USE if isinstance(error, UsageError | NoCard | NoLayout) else FAILED


def _parser() -> argparse.ArgumentParser:
    parser = ArgumentParser(
        prog="cardapp",
        description="Worksheets for C programs. A real debugger reproduces every program state they describe.",
        epilog="To start and stop debugger sessions, use bin/card-session.",
    )
    parser.add_argument("--version", action="version", version=f"cardapp {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    serve = commands.add_parser(
        "serve",
        help="serve the HTTP API on a loopback address and on a Unix socket",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Settings (environment):\n"
        + "\n".join(f"  {s.name:<24} {s.about} Default: {s.default}" for s in declared().values()),
    )
    serve.set_defaults(run=_serve)
    _add_card_commands(commands)

    opening = commands.add_parser(
        "open", help="start the API and a session for each card; Ctrl-C ends what was started"
    )
    opening.add_argument("cards", metavar="CARD", nargs="+", help="a card's folder or its card_source.json")
    opening.add_argument("--browser", action="store_true", help="also open the page in your browser")
    opening.set_defaults(run=_open)

    selftest = commands.add_parser("selftest", help="start a test server and check that it refuses forbidden requests")
    selftest.set_defaults(run=_selftest)

    _add_class_commands(commands)
    verify = commands.add_parser("verify-events", help="verify the hash chain of the recorded events")
    verify.set_defaults(run=_verify_events)
    _add_backup_commands(commands)
    return parser


def _add_class_commands(commands: argparse._SubParsersAction[ArgumentParser]) -> None:
    new_learner = commands.add_parser(
        "new-learner", help="begin a new record for a learner; the service may run, and nothing is deleted"
    )
    new_learner.add_argument("name", metavar="NAME", help="the learner's name, one word or in quotation marks")
    new_learner.set_defaults(run=_new_learner)

    collect = commands.add_parser("collect", help="make one table of the answers that students handed in")
    collect.add_argument(
        "files", metavar="FILE", nargs="+", type=Path, help="a file saved as “Answers as JSON” in the page's menu"
    )
    collect.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        type=Path,
        default=Path(),
        help="the folder for class.html and class.csv; default: the current one",
    )
    collect.set_defaults(run=_collect)


def _add_backup_commands(commands: argparse._SubParsersAction[ArgumentParser]) -> None:
    backup = commands.add_parser("backup", help="back up the stored state to a new folder; the service may run")
    backup.add_argument("folder", metavar="FOLDER", type=Path, help="the backup's folder, which must not exist")
    backup.set_defaults(run=_backup)

    restore = commands.add_parser("restore", help="restore a backup into an empty state directory")
    restore.add_argument("folder", metavar="FOLDER", type=Path, help="a folder that the command backup wrote")
    restore.set_defaults(run=_restore)


def _add_card_commands(commands: argparse._SubParsersAction[ArgumentParser]) -> None:
    """Add the commands that read cards and layouts and need no server."""
    authoring.add_commands(commands)

    emit = commands.add_parser("emit", help="write a card's sheets as HTML, LaTeX or PDF")
    emit.add_argument("card", metavar="CARD", help="a card's folder or its card_source.json")
    emit.add_argument("--format", required=True, type=str.lower, choices=FORMATS, help="the output format")
    layout = emit.add_mutually_exclusive_group()
    layout.add_argument(
        "--layout",
        metavar="ID|FILE",
        help="the id of a shipped layout, or a layout file; default: the layout that the card names. "
        "karta-blank is the handout: values are boxes to fill in, and there is a line for name and date",
    )
    layout.add_argument(
        "--answer-key",
        action="store_true",
        help="the answers to the handout: questions, expected values and explanations, short",
    )
    emit.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="the output file; - stands for standard output, which is the default; a PDF needs a file or a pipe",
    )
    emit.add_argument(
        "--proved",
        action="store_true",
        help="replay every snapshot first, and write nothing if the card has a fault or an excerpt without an anchor",
    )
    emit.add_argument(
        "--annotations", action="store_true", help="draw the annotations that are shown on the page over the sheets"
    )
    emit.set_defaults(run=_emit)

    listed = commands.add_parser("layouts", help="list the shipped layouts, or check layout files")
    listed.add_argument(
        "files", metavar="FILE", nargs="*", help="a layout file to check, or the id of a shipped layout"
    )
    listed.set_defaults(run=_layouts)


# -- serve ---------------------------------------------------------------------------------------------------------


def _serve(_options: argparse.Namespace) -> int:
    from cardapp import serve  # imported late: the other commands need no web server

    # Print the warnings first: a mistyped name may be the cause of an error that load() raises.
    for warning in unknown_names(os.environ):
        print(f"cardapp: {warning}", file=sys.stderr)
    serve.run(load(os.environ))
    return DONE


def _open(options: argparse.Namespace) -> int:
    from cardapp import open_cli

    return open_cli.run(options.cards, browser=options.browser)


def _selftest(_options: argparse.Namespace) -> int:
    from cardapp import serve
    from cardapp.web import selftest

    return DONE if selftest.run(serve.Service) else FAILED


# -- emit ----------------------------------------------------------------------------------------------------------


def _emit(options: argparse.Namespace) -> int:
    from cardapp.publish import export

    _check_output(options.format, options.output)
    end_as_after_ctrl_c()  # also ends lualatex
    loaded = load_card(options.card)
    name = str(layouts.ANSWER_KEY) if options.answer_key else options.layout or loaded.card.layout
    layout = layouts.find(name)
    for warning in layout.warnings:
        print(f"cardapp: layout {layout.id}: {warning.pointer} {warning.message}", file=sys.stderr)
    proof = authoring.prove(options.card) if options.proved else _last_proof(loaded)
    said = proof_records.phrase(proof)
    emitted = export.emit(
        loaded,
        layout,
        options.format,
        os.environ,
        said,
        running_on=options.answer_key,
        annotations=_annotations(loaded) if options.annotations else (),
    )
    for remark in emitted.remarks:
        print(f"cardapp: {remark}", file=sys.stderr)
    export.write(emitted.content, options.output)
    return DONE


def _annotations(loaded: LoadedCard) -> list[explanations.Annotation]:
    with closing(Database.open(load(os.environ).state_database)) as database, database.read() as conn:
        return explanations.all_annotations(conn, loaded.identity.uuid)


def _last_proof(loaded: LoadedCard) -> CardProof | None:
    """The last proof of the card in its present state. None if the records cannot be read; the sheets then say that the
    card was not proved."""
    try:
        return proof_records.last(loaded, load(os.environ).state_database)
    except CardAppError as error:  # also of a setting that emit does not use
        print(f"cardapp: it is not known whether the card was proved: {error.detail}", file=sys.stderr)
        return None


def _check_output(form: str, output: str | None) -> None:
    """Refuse a PDF on a terminal; warn about a file name whose suffix stands for another format."""
    if output is None and form == "pdf" and sys.stdout.isatty():
        raise UsageError("a PDF cannot be written to a terminal: name a file with -o FILE, or redirect the output")
    suggested = SUFFIX_FORMATS.get(Path(output or "").suffix.lower(), form)
    if suggested != form:
        print(f"cardapp: {output} will contain {form}, although its name suggests {suggested}", file=sys.stderr)


# -- layouts -------------------------------------------------------------------------------------------------------


def _layouts(options: argparse.Namespace) -> int:
    """Check the named layouts, or all shipped layouts if none is named. Warnings and limitations are only printed; they
    do not change the exit code."""
    codes = [_check_layout(name) for name in options.files or layouts.known_ids()]
    return max(codes)


def _check_layout(name: str) -> int:
    try:
        print(*layouts.description(layouts.find(name)), sep="\n")
    except InvalidLayout as error:
        _print_error(error)
        return _exit_code(error)
    return DONE


def _print_success(text: str) -> int:
    print(text)
    return DONE


# -- new-learner ---------------------------------------------------------------------------------------------------


def _new_learner(options: argparse.Namespace) -> int:
    from cardapp.state import learners
    from cardapp.state.database import Database, now

    settings = load(os.environ)
    with closing(Database.open(settings.state_database)) as database, database.write() as tx:
        before = next(each for each in learners.overview(tx)["learners"] if each["current"])
        card = learners.last_card(tx) or load_card(settings.card_source).identity
        try:
            learners.create(tx, options.name, actor="cardapp", card=card, at=now())
        except InvalidValue as error:
            raise UsageError(f"the name {error.errors[0].message}") from error
        name = learners.current(tx)
    earlier = f"The record of {before['name']}" if before["named"] else "The record without a name"
    return _print_success(
        f"{name} has a new, empty record, and the page shows it. {earlier} stays: choose it in the page's menu."
    )


def _collect(options: argparse.Namespace) -> int:
    from cardapp.reports import collect_cli
    from cardapp.state.database import now

    return DONE if collect_cli.run(options.files, options.output, now()) else FAILED


# -- verify-events -------------------------------------------------------------------------------------------------


def _verify_events(_options: argparse.Namespace) -> int:
    from cardapp.state import events

    settings = load(os.environ)
    report = events.verify_file(settings.state_database, evidence_root=settings.evidence_dir)
    if report.intact:
        return _print_success(f"{report.count} events, the hash chain is intact; last hash {report.head}")
    print(f"the hash chain is broken at event {report.broken_seq}: {report.reason}", file=sys.stderr)
    return FAILED


# -- backup --------------------------------------------------------------------------------------------------------


def _backup(options: argparse.Namespace) -> int:
    from cardapp.state import backup

    settings = load(os.environ)
    report = backup.backup(settings.state_database, settings.evidence_dir, options.folder.absolute())
    if report.intact:
        return _print_success(f"{options.folder}: {report.count} events; last hash {report.head}")
    print(f"{options.folder}: written, but event {report.broken_seq} is broken: {report.reason}", file=sys.stderr)
    return FAILED


def _restore(options: argparse.Namespace) -> int:
    from cardapp.state import backup

    settings = load(os.environ)
    report = backup.restore(options.folder.absolute(), settings.state_database, settings.evidence_dir)
    if report.intact:
        return _print_success(f"{settings.state_database}: {report.count} events; last hash {report.head}")
    print(
        f"{settings.state_database}: restored, but event {report.broken_seq} is broken: {report.reason}",
        file=sys.stderr,
    )
    return FAILED

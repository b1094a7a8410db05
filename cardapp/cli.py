"""The command line.

Exit codes: 0 done; 1 the check failed; 2 wrong use; 3 a requirement is missing; 130 interrupted by Ctrl-C; 141 the
reader of the output closed its pipe. The last two are 128 plus the signal's number, as in a shell."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from cardapp import __version__
from cardapp.card.catalog import Catalog
from cardapp.card.source import LoadedCard, load_card
from cardapp.console import ArgumentParser, ProgressBar, run_printing
from cardapp.errors import CardAppError, InvalidCard, InvalidLayout, MissingRequirement, NoCard, NoLayout, UsageError
from cardapp.layout.layout_model import Layout
from cardapp.publish import card_check, layouts
from cardapp.publish.card_check import Finding
from cardapp.settings import declared, load, unknown_names

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
    """Print the error and its faults, without the first one, which ``detail`` contains."""
    print(f"cardapp: {error.detail}", file=sys.stderr)
    for fault in error.errors[1:]:
        print(f"  {fault.pointer or '/'} {fault.message}", file=sys.stderr)


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

    selftest = commands.add_parser("selftest", help="start a test server and check that it refuses forbidden requests")
    selftest.set_defaults(run=_selftest)

    verify = commands.add_parser("verify-events", help="verify the hash chain of the recorded events")
    verify.set_defaults(run=_verify_events)
    _add_backup_commands(commands)
    return parser


def _add_backup_commands(commands: argparse._SubParsersAction[ArgumentParser]) -> None:
    backup = commands.add_parser("backup", help="back up the stored state to a new folder; the service may run")
    backup.add_argument("folder", metavar="FOLDER", type=Path, help="the backup's folder, which must not exist")
    backup.set_defaults(run=_backup)

    restore = commands.add_parser("restore", help="restore a backup into an empty state directory")
    restore.add_argument("folder", metavar="FOLDER", type=Path, help="a folder that the command backup wrote")
    restore.set_defaults(run=_restore)


def _add_card_commands(commands: argparse._SubParsersAction[ArgumentParser]) -> None:
    """Add the commands that read cards and layouts and need no server."""
    check = commands.add_parser("check", help="check a card: schema, ids, layout, and its references into the C files")
    check.add_argument("card", metavar="CARD", help="a card's folder or its card_source.json")
    check.add_argument(
        "--replay", action="store_true", help="also replay every snapshot in a temporary debugger session"
    )
    check.add_argument(
        "--profile",
        help="with --replay: a section of etc/card-session.ini (default: CARD_SESSION_PROFILE, else local)",
    )
    check.set_defaults(run=_check)

    emit = commands.add_parser("emit", help="write a card's sheets as HTML, LaTeX or PDF")
    emit.add_argument("card", metavar="CARD", help="a card's folder or its card_source.json")
    emit.add_argument("--format", required=True, type=str.lower, choices=FORMATS, help="the output format")
    emit.add_argument(
        "--layout",
        metavar="ID|FILE",
        help="the id of a shipped layout, or a layout file; default: the layout that the card names",
    )
    emit.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="the output file; without it, or with -: standard output, which must not be a terminal for a PDF",
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


def _selftest(_options: argparse.Namespace) -> int:
    from cardapp import serve
    from cardapp.web import selftest

    return DONE if selftest.run(serve.Service) else FAILED


# -- check ---------------------------------------------------------------------------------------------------------


def _check(options: argparse.Namespace) -> int:
    if options.profile and not options.replay:
        raise UsageError("check --profile needs --replay: without it no session is started")
    try:
        loaded = load_card(options.card)
    except NoCard:
        raise
    except InvalidCard as error:
        _print_error(error)
        return FAILED
    catalog = Catalog(loaded.card)
    below = {level: count for level, count in catalog.counts.items() if level != "card"}
    counts = ", ".join(f"{count} {level}{'' if count == 1 else 's'}" for level, count in below.items())
    print(f"{loaded.card.title} {loaded.card.version} ({loaded.identity.source_sha256[:12]}): {counts}")
    findings = [*card_check.layout_faults(loaded), *card_check.source_drift(catalog, loaded.sources())]
    for finding in findings:
        _print_finding(finding)
    if findings:
        print("1 fault" if len(findings) == 1 else f"{len(findings)} faults")
        return FAILED
    _describe(layouts.find(loaded.card.layout))
    if options.replay:
        return _replay(loaded, catalog, options.profile or os.environ.get("CARD_SESSION_PROFILE"))
    return _print_success("every stop and code range matches the C files")


def _replay(loaded: LoadedCard, catalog: Catalog, profile: str | None) -> int:
    bar = ProgressBar(len(catalog.snapshots))

    def report(key: str, finding: Finding | None) -> None:
        bar.advance(key)
        if finding is not None:
            bar.wipe()
            _print_finding(finding)

    try:
        findings = card_check.replay_all(loaded, catalog, profile, report)
    finally:
        bar.wipe()
    if findings:
        print(f"{len(findings)} of {len(catalog.snapshots)} snapshots failed")
        return FAILED
    return _print_success(f"all {len(catalog.snapshots)} snapshots were replayed and match the card")


def _print_success(text: str) -> int:
    print(text)
    return DONE


def _print_finding(finding: Finding) -> None:
    print(f"  {finding.key or 'card'}: {finding.code}: {finding.message}")


# -- emit ----------------------------------------------------------------------------------------------------------


def _emit(options: argparse.Namespace) -> int:
    from cardapp.publish import export

    _check_output(options.format, options.output)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C does: end lualatex, remove temporary files
    loaded = load_card(options.card)
    layout = layouts.find(options.layout or loaded.card.layout)
    for warning in layout.warnings:
        print(f"cardapp: layout {layout.id}: {warning.pointer} {warning.message}", file=sys.stderr)
    emitted = export.emit(loaded, layout, options.format, os.environ)
    for remark in emitted.remarks:
        print(f"cardapp: {remark}", file=sys.stderr)
    export.write(emitted.content, options.output)
    return DONE


def _check_output(form: str, output: str | None) -> None:
    """Refuse a PDF on a terminal; warn about a file name whose suffix stands for another format."""
    if output is None and form == "pdf" and sys.stdout.isatty():
        raise UsageError("a PDF cannot be written to a terminal: name a file with -o FILE, or redirect the output")
    suggested = SUFFIX_FORMATS.get(Path(output or "").suffix.lower(), form)
    if suggested != form:
        print(f"cardapp: {output} will contain {form}, although its name suggests {suggested}", file=sys.stderr)


# -- layouts -------------------------------------------------------------------------------------------------------


def _layouts(options: argparse.Namespace) -> int:
    """Check the named layouts; without names, all shipped ones. The check passes despite warnings and limitations."""
    codes = [_check_layout(name) for name in options.files or layouts.known_ids()]
    return max(codes)


def _check_layout(name: str) -> int:
    try:
        _describe(layouts.find(name))
    except InvalidLayout as error:
        _print_error(error)
        return _exit_code(error)
    return DONE


def _describe(layout: Layout) -> None:
    page = layout.page
    print(f"{layout.id} {layout.version}: {layout.name}; {page.format} {page.orientation}, {layout.emitters}")
    for warning in layout.warnings:
        print(f"  warning: {warning.pointer} {warning.message}")
    for limitation in layout.limitation_sentences():
        print(f"  {limitation}")


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

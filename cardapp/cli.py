"""The command line. Exit codes: 0 done, 1 the check failed, 2 wrong use, 3 something needed is missing; as a shell has
them, 130 for Ctrl-C and 141 for a reader that went away."""

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
from cardapp.errors import CardAppError, InvalidCard, InvalidLayout, MissingRequirement, NoCard, NoLayout, UsageError
from cardapp.layout.colophon import emitters, limitations
from cardapp.layout.template import Layout
from cardapp.output import read_to_its_end
from cardapp.publish import card_check, layouts
from cardapp.publish.card_check import Finding
from cardapp.settings import declared, load, unknown_names

DONE, FAILED, WRONG_USE, MISSING = 0, 1, 2, 3
FORMATS = ("html", "latex", "pdf")
"""What ``emit`` makes: the names of ``export.EMITTERS``."""
ENDINGS = {".html": "html", ".htm": "html", ".tex": "latex", ".pdf": "pdf"}
"""What the ending of a file's name says of its format."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return read_to_its_end(lambda: int(options.run(options)))
    except CardAppError as error:
        _tell(error)
        return _exit_code(error)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _tell(error: CardAppError) -> None:
    """What went wrong; of several faults the first stands in the sentence already."""
    print(f"cardapp: {error.detail}", file=sys.stderr)
    for fault in error.errors[1:]:
        print(f"  {fault.pointer or '/'} {fault.message}", file=sys.stderr)


def _exit_code(error: CardAppError) -> int:
    if isinstance(error, MissingRequirement):
        return MISSING
    return WRONG_USE if isinstance(error, UsageError | NoCard | NoLayout) else FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cardapp",
        description="Worksheets that bring a real debugger to every state they describe.",
        epilog="Sessions are started and stopped by bin/card-session.",
    )
    parser.add_argument("--version", action="version", version=f"cardapp {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    serve = commands.add_parser(
        "serve",
        help="serve the API on 127.0.0.1 and on the Unix socket",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Settings (environment):\n"
        + "\n".join(f"  {s.name:<24} {s.about} Default: {s.default}" for s in declared().values()),
    )
    serve.set_defaults(run=_serve)
    _add_commands_of_cards(commands)

    selftest = commands.add_parser("selftest", help="attack an own server with everything the gate must refuse")
    selftest.set_defaults(run=_selftest)

    verify = commands.add_parser("verify-events", help="verify the hash chain of the recorded events")
    verify.set_defaults(run=_verify_events)
    return parser


def _add_commands_of_cards(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Those that read cards and layouts, and need no server."""
    check = commands.add_parser("check", help="check a card: schema, ids, references, drift of every line")
    check.add_argument("card", metavar="CARD", help="a card's folder or its card_source.json")
    check.add_argument("--replay", action="store_true", help="replay every snapshot in a session of its own")
    check.set_defaults(run=_check)

    emit = commands.add_parser("emit", help="make a card's sheets, to read on a screen and to print")
    emit.add_argument("card", metavar="CARD", help="a card's folder or its card_source.json")
    emit.add_argument("--format", required=True, type=str.lower, choices=FORMATS, help="what to make")
    emit.add_argument(
        "--layout", metavar="ID|FILE", help="a layout that ships, or a layout file; default: the card's own"
    )
    emit.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="where to; default, and for -: standard output (a PDF's not to a terminal)",
    )
    emit.set_defaults(run=_emit)

    listed = commands.add_parser("layouts", help="list the layouts that ship, or check layout files")
    listed.add_argument("files", metavar="FILE", nargs="*", help="a layout file to check, or the id of one that ships")
    listed.set_defaults(run=_layouts)


# -- serve ---------------------------------------------------------------------------------------------------------


def _serve(_options: argparse.Namespace) -> int:
    from cardapp import serve  # the other commands start without the web

    # First: a mistyped name may be why another setting is refused.
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
    try:
        loaded = load_card(options.card)
    except NoCard:
        raise
    except InvalidCard as error:
        print(f"cardapp: {error.detail}", file=sys.stderr)
        for fault in error.errors[1:]:
            print(f"  {fault.pointer or '/'} {fault.message}", file=sys.stderr)
        return FAILED
    catalog = Catalog(loaded.card)
    counts = ", ".join(f"{count} {level}s" for level, count in catalog.counts.items() if level != "card")
    print(f"{loaded.card.title} {loaded.card.version} ({loaded.identity.source_sha256[:12]}): {counts}")
    findings = [*card_check.layout_faults(loaded), *card_check.drifted(loaded, catalog)]
    for finding in findings:
        _report(finding)
    if findings:
        print(f"{len(findings)} fault(s)")
        return FAILED
    _describe(layouts.find(loaded.card.layout))
    return _replay(loaded, catalog) if options.replay else _say("every place fits its source")


def _replay(loaded: LoadedCard, catalog: Catalog) -> int:
    bar = _Bar(len(catalog.snapshots))
    try:
        findings = card_check.replay_all(loaded, catalog, bar.advance)
    finally:
        bar.close()
    if findings:
        print(f"{len(findings)} of {len(catalog.snapshots)} snapshots are not true")
        return FAILED
    return _say(f"all {len(catalog.snapshots)} snapshots replayed and proved")


def _say(text: str) -> int:
    print(text)
    return DONE


def _report(finding: Finding) -> None:
    print(f"  {finding.key or 'card'}: {finding.code}: {finding.message}")


class _Bar:
    """A progress bar on a terminal; elsewhere only the findings are printed."""

    _WIDTH = 30

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._shown = sys.stdout.isatty()

    def advance(self, key: str, finding: Finding | None) -> None:
        self._done += 1
        self._wipe()
        if finding is not None:
            _report(finding)
        if self._shown:
            full = self._WIDTH * self._done // self._total
            print(f"[{'#' * full:<{self._WIDTH}}] {self._done}/{self._total} {key}"[:100], end="", flush=True)

    def close(self) -> None:
        self._wipe()

    def _wipe(self) -> None:
        if self._shown:
            print("\r\033[K", end="", flush=True)


# -- emit ----------------------------------------------------------------------------------------------------------


def _emit(options: argparse.Namespace) -> int:
    from cardapp.publish import export

    _check_output(options.format, options.output)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what was begun is ended and removed
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
    """Refuses what would only fill a terminal with signs, and warns of a name that promises another format."""
    if output is None and form == "pdf" and sys.stdout.isatty():
        raise UsageError("a PDF is not for a terminal: name a file with -o FILE, or send it into a pipe")
    promised = ENDINGS.get(Path(output or "").suffix.lower(), form)
    if promised != form:
        print(f"cardapp: {output} is written as {form}; its ending says {promised}", file=sys.stderr)


# -- layouts -------------------------------------------------------------------------------------------------------


def _layouts(options: argparse.Namespace) -> int:
    """Those that ship, or the named ones; warnings and limitations are no faults."""
    codes = [_check_layout(name) for name in options.files or layouts.known_ids()]
    return max(codes)


def _check_layout(name: str) -> int:
    try:
        _describe(layouts.find(name))
    except InvalidLayout as error:
        _tell(error)
        return _exit_code(error)
    return DONE


def _describe(layout: Layout) -> None:
    page = layout.page
    print(f"{layout.id} {layout.version}: {layout.name}; {page.format} {page.orientation}, {emitters(layout)}")
    for warning in layout.warnings:
        print(f"  warning: {warning.pointer} {warning.message}")
    for limitation in limitations(layout):
        print(f"  {limitation}")


# -- verify-events -------------------------------------------------------------------------------------------------


def _verify_events(_options: argparse.Namespace) -> int:
    from cardapp.state import hash_chain

    settings = load(os.environ)
    report = hash_chain.verify_file(settings.state_database, evidence_root=settings.evidence_dir)
    if report.intact:
        return _say(f"{report.count} events, the chain is intact; head {report.head}")
    print(f"the chain breaks at event {report.broken_seq}: {report.reason}", file=sys.stderr)
    return FAILED

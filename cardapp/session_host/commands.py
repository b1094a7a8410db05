"""The commands of ``card-session``: arguments, output, exit codes, and a session in the foreground."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from cardapp.console import ArgumentParser, run_printing
from cardapp.errors import CardAppError, MissingRequirement, NoCard, StateError, UsageError
from cardapp.session_host import mcp_client
from cardapp.session_host.directory import Record, State
from cardapp.session_host.image import Image
from cardapp.session_host.image_build import DEBIAN_BASE
from cardapp.session_host.lifecycle import ListedSession, Sessions, Started
from cardapp.session_host.podman import Podman
from cardapp.session_host.profile import DEFAULT_PROFILE
from cardapp.session_host.sources import Fetched

EPILOG = """\
CARD is a card's folder or its card_source.json. Without NAME a command acts on the chosen session.
Sessions are stored in CARD_STATE_DIR (default: .state/card in the repository); profiles are in etc/card-session.ini.

exit codes: 0 done, 1 failed, 2 wrong usage, 3 a required program or file is missing (it is named)"""

IMAGE_EPILOG = """\
The image has Neovim, gdb, gcc, make, tmux and Python; its recipe is etc/card-session.Containerfile. If an image of this
recipe exists, it is not built again. The build uses this machine's settings for apt, pip, proxies and certificates; the
image contains none of them. DEBIAN_MIRROR names the mirror of Debian (default: the mirror that apt uses). TMPDIR names
the folder for the files of the build (default: /var/tmp; 500 MB). root and other users can run this command."""

ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
LOOK_SECONDS = 1.0
"""The interval at which the session's record is checked."""


class Commands:
    """Each command is a method, which returns the exit code."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def start(self, options: argparse.Namespace) -> int:
        def start() -> Started:
            return self._sessions.start(
                options.card, options.name, options.profile, select=options.select, work=options.work
            )

        if not options.foreground:
            _show_started(start())
        elif options.name:
            run_foreground(self._sessions, options.name, start, _announce_foreground, _report_stop)
        else:
            raise UsageError("start --foreground needs a --name")
        return 0

    def select(self, options: argparse.Namespace) -> int:
        print(f"session {self._sessions.select(options.name).name} is now chosen")
        return 0

    def reset(self, options: argparse.Namespace) -> int:
        record, started, done = self._sessions.reset(options.name)
        inside = (("Neovim", done["editor_restarted"]), ("gdb", done["debugger_restarted"]))
        started += [part for part, was in inside if was]
        again = f"; started again: {', '.join(started)}" if started else ""
        print(f"session {record.name} is reset: no program runs{again}")
        return 0

    def refresh(self, options: argparse.Namespace) -> int:
        record, fetched = self._sessions.refresh(options.name)
        print(f"session {record.name} has the card's current sources, and they are built")
        if fetched is not None:
            _show_fetched(fetched)
        return 0

    def attach(self, options: argparse.Namespace) -> int:
        directory, record = self._sessions.find(options.name)
        if self._sessions.binding(directory) is None:
            restore = _command("reset", directory.name)
            print(f"session {directory.name} does not answer; restore it with {restore}", file=sys.stderr)
            return 1
        if not sys.stdin.isatty():
            raise UsageError("attach needs a terminal as its standard input")
        return self._sessions.runtime(directory, record.runtime).attach(record)

    def detach(self, options: argparse.Namespace) -> int:
        directory, record = self._sessions.find(options.name)
        was = self._sessions.runtime(directory, record.runtime).detach(record)
        print(
            f"detached from session {directory.name}" if was else f"no terminal is attached to session {directory.name}"
        )
        return 0

    def list(self, _options: argparse.Namespace) -> int:
        found = self._sessions.list_all()
        print(_table(found) if found else "no session; start one with bin/card-session start CARD")
        return 0

    def stop(self, options: argparse.Namespace) -> int:
        # This command may run in a terminal of the session, which is about to end.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        stopped = self._sessions.stop(options.name)
        print(f"session {stopped.name} is stopped ({stopped.processes} processes ended)")
        if stopped.sources.is_dir():
            print(f"  your sources stay in {stopped.sources}")
        return 0

    def mcp(self, options: argparse.Namespace) -> int:
        directory, _ = self._sessions.find(options.name)
        return mcp_client.relay(directory.mcp_socket)

    def image(self, options: argparse.Namespace) -> int:
        # Make these signals act like Ctrl-C, after which the build is cleaned up.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _frame: sys.exit(128 + number))
        image = Image()
        built = image.build(Podman(), options.base, lambda step: print(f"card-session: {step}", file=sys.stderr))
        print(f"{image.name()} is {'built' if built else 'up to date'}")
        return 0


# -- output ------------------------------------------------------------------------------------------------------------


def _show_started(started: Started) -> None:
    record = started.record
    print(f"session {record.name} {'runs already' if started.already_running else 'runs'}")
    for label, text in (
        ("card", f"{record.card_id} ({record.card_source})"),
        ("sources", record.source_directory),
        ("profile", record.profile),
        ("container", record.container_id),
        ("mcp socket", started.mcp_socket),
        ("chosen", "yes" if started.selected else f"no; {_command('select', record.name)} chooses it"),
        ("look at it", _command("attach", record.name)),
    ):
        print(f"  {label + ':':<12}{text}")
    if started.shortcoming is not None:
        print(f"  {'attention:':<12}{started.shortcoming}")
    if started.fetched is not None:
        _show_fetched(started.fetched)


def _command(*words: str) -> str:
    """The command line for another terminal, in which ``CARD_STATE_DIR`` may not be set."""
    state = os.environ.get("CARD_STATE_DIR")
    setting = [f"CARD_STATE_DIR={shlex.quote(state)}"] if state else []
    return " ".join([*setting, "bin/card-session", *words])


def _announce_foreground(started: Started) -> None:
    _show_started(started)
    running = "Ctrl-C leaves it running, because it already ran."
    print(running if started.already_running else "Ctrl-C stops it.", flush=True)


def _report_stop(record: Record) -> None:
    start = _command("start", "--name", record.name, shlex.quote(record.card_source))
    print(f"card-session: session {record.name} was stopped by another command; to start it: {start}", file=sys.stderr)


def _show_fetched(fetched: Fetched) -> None:
    for name, backup in fetched.backups.items():
        print(f"  {name}: your edited version is kept as {backup}")
    if fetched.kept:
        print(f"  edited by you and kept: {', '.join(fetched.kept)} (bin/card-session refresh replaces them)")


def _table(listed: Sequence[ListedSession]) -> str:
    head = ("", "NAME", "CARD", "PROFILE", "STATE", "EDITOR", "GDB", "STOPPED AT")
    rows = [head] + [
        ("*" if row.chosen else "", row.name, row.card, row.profile, row.state, row.editor, row.debugger, row.place)
        for row in listed
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, "(* is the chosen session)"])


# -- start --foreground: the session ends with the command -------------------------------------------------------------


class _EndRequested(BaseException):
    """One of the signals in ``ENDINGS`` arrived. Not an ``Exception``, so that no ``except Exception`` catches it."""


def run_foreground(
    sessions: Sessions,
    name: str,
    start: Callable[[], Started],
    announce: Callable[[Started], None],
    report_stop: Callable[[Record], None],
) -> None:
    """``start`` the session ``name``, ``announce`` it, wait for SIGTERM, SIGINT or SIGHUP, and stop the session.

    A signal also interrupts the start. A session that already ran is left running. ``report_stop`` is called when
    another command has stopped the session.
    """
    ours = not _answers(sessions, name)
    # Python writes the number of each signal to this pipe. So a signal that arrives just before a select ends it, too.
    arrived, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writer)
    for number in ENDINGS:
        signal.signal(number, _request_end)
    try:
        started = start()
        ours = not started.already_running
        announce(started)
        is_stopped = False
        while not is_stopped:
            is_stopped = is_session_stopped(sessions, started.record)
            # The handler's exception is lost if the signal interrupts code that handles every exception.
            if select.select([arrived], [], [], 0 if is_stopped else LOOK_SECONDS)[0]:
                raise _EndRequested
        ours = False  # a session that is started under this name from now on is another session
        report_stop(started.record)
        select.select([arrived], [], [])
    except _EndRequested:
        pass
    finally:
        _ignore_endings()
        if ours:
            # There is no session if the start was interrupted early, or if another command has just stopped it.
            with contextlib.suppress(UsageError):
                sessions.stop(name)


def _request_end(_number: int, _frame: FrameType | None) -> None:
    _ignore_endings()  # a second signal would interrupt the stop
    raise _EndRequested


def _ignore_endings() -> None:
    for number in ENDINGS:
        signal.signal(number, signal.SIG_IGN)


def is_session_stopped(sessions: Sessions, record: Record) -> bool:
    try:
        # The container_id may differ in the same session: a reset makes a new container if the old one was removed.
        return sessions.find(record.name)[1].created_at != record.created_at
    except UsageError:
        return True
    except StateError:  # the record is damaged: a stop would have removed it
        return False


def _answers(sessions: Sessions, name: str) -> bool:
    try:
        directory, _record = sessions.find(name)
    except CardAppError:
        return False
    return sessions.binding(directory) is not None


# -- the command line --------------------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    main_parser = ArgumentParser(
        prog="card-session",
        description="Run a card's program under gdb, inside Neovim, for the service to control.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = main_parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    start = commands.add_parser("start", help="start a session on a card; choose it if no other session is chosen")
    start.add_argument("--name", help="the session's name (default: the card's id)")
    start.add_argument(
        "--profile",
        default=os.environ.get("CARD_SESSION_PROFILE") or DEFAULT_PROFILE,
        help="the name of a section in etc/card-session.ini (default: CARD_SESSION_PROFILE, else local)",
    )
    start.add_argument("--select", action="store_true", help="choose this session even if another one is chosen")
    start.add_argument(
        "--foreground", action="store_true", help="stay until Ctrl-C or SIGTERM, then stop the session (needs --name)"
    )
    start.add_argument(
        "--json", action="store_true", help='print an error as {"error": {"code", "detail"}} on standard output'
    )
    start.add_argument(
        "--work", type=Path, metavar="FOLDER",
        help="keep the copy of the sources in FOLDER, and empty it before each build (local sessions only)",
    )  # fmt: skip
    start.add_argument("card", metavar="CARD")
    select = commands.add_parser("select", help="choose the session that the service acts on")
    select.add_argument("name", metavar="NAME")
    for name, text in (
        ("reset", "end the program; start Neovim, gdb or the MCP server again if one has ended (edits are kept)"),
        ("refresh", "fetch the card's sources again (edited files are kept as backups) and build them"),
        ("attach", "show the session in this terminal; C-b d leaves it running"),
        ("detach", "detach every terminal that shows the session"),
        ("stop", "end the session; its sources stay for the next start"),
        ("mcp", "connect standard input and output with the session's MCP server, for any MCP client"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("name", metavar="NAME", nargs="?", help="default: the chosen session")
    commands.add_parser("list", help="show all sessions")
    _add_image(commands)
    return main_parser


def _add_image(commands: argparse._SubParsersAction[ArgumentParser]) -> None:
    image = commands.add_parser(
        "image",
        help="build the image of sessions in containers with podman, if it is missing or outdated",
        epilog=IMAGE_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    base = f"the image of Debian to build on (default: {DEBIAN_BASE}, which debootstrap makes)"
    image.add_argument("--base", metavar="IMAGE", help=base)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 130 after Ctrl-C, 141 if the reader of the output has gone.

    argparse itself exits with 2 for wrong arguments.
    """
    options = parser().parse_args(argv)
    try:
        return run_printing(lambda: _run(options))
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def _run(options: argparse.Namespace) -> int:
    commands = Commands(Sessions(State.of(os.environ)))
    command: Callable[[argparse.Namespace], int] = getattr(commands, options.command)
    try:
        return command(options)
    except CardAppError as error:
        if getattr(options, "json", False):
            print(json.dumps({"error": {"code": error.code, "detail": error.detail}}))
        else:
            print(f"card-session: {error.detail}", file=sys.stderr)
        return 2 if isinstance(error, NoCard | UsageError) else 3 if isinstance(error, MissingRequirement) else 1

"""Opens cards: starts the service and a session for each card, and ends them with this process.

The programs are separate processes, as with ``bin/start``. They get SIGTERM when this process ends, even if it is
killed.
"""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import webbrowser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from cardapp.card.source import LoadedCard, load_card
from cardapp.errors import UsageError
from cardapp.settings import ROOT, load

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
END_SECONDS = 15.0
LOOK_MILLISECONDS = 500
MAX_NAME = 32
"""Maximum length of a session's name."""

# setpriv makes the kernel send SIGTERM when the parent ends. The parent may have ended before that, so the shell checks
# afterwards that this process is still its parent.
_TIED = ("setpriv", "--pdeathsig", "TERM", "bash", "-c", '[[ $PPID == "$0" ]] && exec "$@"')


@dataclass(frozen=True)
class OpenedCard:
    """A card, and the name of its session."""

    session: str
    loaded: LoadedCard

    @property
    def label(self) -> str:
        return f"session {self.session}"


def run(cards: Sequence[str], *, browser: bool) -> int:
    """Open the cards at these paths and wait for SIGINT, SIGTERM or SIGHUP, then end all that was started.

    With ``browser`` the page is opened in the user's browser. Returns the exit code: 0 after a signal, otherwise the
    code of the program that ended first.

    :raises CardAppError: a card or a setting is invalid.
    """
    opened = named([load_card(card) for card in cards])
    load(os.environ)
    programs = _Programs()
    with tempfile.TemporaryDirectory(prefix="card-series-") as series:
        try:
            for number in ENDINGS:
                signal.signal(number, _request_end)
            address = _start(programs, opened, Path(series))
            _announce(address, opened)
            if browser:
                webbrowser.open(address)
            return programs.await_an_end()
        except _EndRequested:
            return 0
        except _Ended as ended:
            print(f"cardapp: the {ended}; everything else is ended, too", file=sys.stderr)
            return ended.code
        finally:
            for number in ENDINGS:
                signal.signal(number, signal.SIG_IGN)  # a second signal would interrupt the clean-up
            programs.end()


def named(cards: Sequence[LoadedCard]) -> list[OpenedCard]:
    """The cards with the names of their sessions. A name is the card's id, with a number if another card has this id.

    :raises UsageError: a card is given twice.
    """
    opened: dict[str, OpenedCard] = {}
    for loaded in cards:
        if any(loaded.path.samefile(other.loaded.path) for other in opened.values()):
            raise UsageError(f"the card {loaded.path} is given twice")
        name, number = loaded.card.id[:MAX_NAME].rstrip("-"), 1
        while name in opened:
            number += 1
            name = f"{loaded.card.id[: MAX_NAME - 1 - len(str(number))].rstrip('-')}-{number}"
        opened[name] = OpenedCard(name, loaded)
    return list(opened.values())


def _start(programs: _Programs, opened: Sequence[OpenedCard], series: Path) -> str:
    """Start the service, then the sessions. The first session is chosen. Returns the service's address."""
    first, *others = opened
    environment = {**os.environ, "CARD_SOURCE": str(first.loaded.path)}
    if others:
        for number, card in enumerate(opened):
            link = series / card.session
            link.symlink_to(card.loaded.path.resolve())
            os.utime(link, (number, number), follow_symlinks=False)  # the service lists the cards in this order
        environment["CARD_SERIES"] = str(series)
    # The service is started first. If its port is taken, no session is started.
    programs.start("service", "cardapp", "serve", environment=environment)
    address = programs.line("service")
    for card in opened:
        arguments = ["start", "--foreground", "--name", card.session, *(["--select"] if card is first else [])]
        programs.start(card.label, "cardapp.session_host", *arguments, str(card.loaded.path))
        if card is first:
            _print_until_ready(programs, card.label)
    for card in others:  # they start side by side
        _print_until_ready(programs, card.label)
    return address


def _print_until_ready(programs: _Programs, session: str) -> None:
    while not (line := programs.line(session)).startswith("Ctrl-C"):
        print(line, flush=True)


def _announce(address: str, opened: Sequence[OpenedCard]) -> None:
    state = os.environ.get("CARD_STATE_DIR")
    setting = f"CARD_STATE_DIR={shlex.quote(state)} " if state else ""
    tool = f"{setting}{ROOT / 'bin' / 'card-session'}"
    first, *others = opened
    print(f"\nOpen in a browser: {address}")
    if others:
        print(f"It shows {first.loaded.card.title}. Its menu changes to another card, and so does each command:")
        for card in opened:
            print(f"    {tool} select {card.session}    # {card.loaded.card.title}")
    print("Watch the program in the editor, from another terminal (Ctrl-B D leaves it):")
    print(f"    {tool} attach")
    print("Ctrl-C here ends what was started.", flush=True)


# -- the programs --------------------------------------------------------------------------------------------------


class _EndRequested(BaseException):
    """One of the signals in ``ENDINGS`` arrived. Not an ``Exception``, so that no ``except Exception`` catches it."""


def _request_end(_number: int, _frame: FrameType | None) -> None:
    for number in ENDINGS:
        signal.signal(number, signal.SIG_IGN)
    raise _EndRequested


class _Ended(Exception):
    """A program ended by itself. It said why on standard error."""

    def __init__(self, name: str, status: int) -> None:
        super().__init__(f"{name} ended with status {status}")
        self.code = status if status in (1, 2, 3) else 1


class _Programs:
    """Programs of this repository that run until this process ends."""

    def __init__(self) -> None:
        self._running: dict[str, subprocess.Popen[str]] = {}

    def start(self, name: str, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self._running[name] = subprocess.Popen(
            [*_TIED, str(os.getpid()), sys.executable, "-P", "-m", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # the Ctrl-C of the terminal goes to this process alone
        )

    def line(self, name: str) -> str:
        """The next line that the program prints.

        :raises _Ended: the program ended instead.
        """
        program = self._running[name]
        assert program.stdout is not None
        line = program.stdout.readline()
        if not line:
            raise _Ended(name, program.wait())
        return line.rstrip("\n")

    def await_an_end(self) -> int:
        """Wait until a program ends.

        :raises _Ended: always; only a signal interrupts the wait.
        """
        poll = select.poll()
        names = {os.pidfd_open(program.pid): name for name, program in self._running.items()}
        try:
            for descriptor in names:
                poll.register(descriptor, select.POLLIN)
            # If a signal arrives just before the poll, Python handles it only after the poll. So the poll has a
            # timeout.
            while not (ended := poll.poll(LOOK_MILLISECONDS)):
                pass
        finally:
            for descriptor in names:
                os.close(descriptor)
        name = names[ended[0][0]]
        raise _Ended(name, self._running[name].wait())

    def end(self) -> None:
        """End all programs. A program that does not end within ``END_SECONDS`` is killed."""
        for program in self._running.values():
            program.terminate()
        for name, program in self._running.items():
            try:
                program.communicate(timeout=END_SECONDS)  # reads on, because a full pipe would block the program
            except subprocess.TimeoutExpired:
                print(f"cardapp: the {name} did not end within {END_SECONDS:.0f} s and is killed", file=sys.stderr)
                program.kill()
                program.communicate()

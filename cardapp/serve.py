"""The composition root: builds the service's parts, starts them in order, and stops them in reverse order."""

from __future__ import annotations

import logging
import os
import resource
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cardapp import private_directories
from cardapp.card.source import source_path
from cardapp.card_loader import CardLoader
from cardapp.errors import NoCard, SessionUnavailable, StateError
from cardapp.publish.sheet_pages import SheetPages
from cardapp.session_client.checkpoint import Checkpoints
from cardapp.session_client.editor import Editor
from cardapp.session_client.editor_panels import EditorPanels
from cardapp.session_client.link import SessionLink
from cardapp.session_client.operation import CheckpointStorage
from cardapp.session_client.program import Program
from cardapp.session_client.series import Series
from cardapp.session_client.session_sources import SessionSources
from cardapp.session_client.session_status import SessionStatus, SessionWatch
from cardapp.session_client.sync import PERIOD_SECONDS, Control, SyncMonitor
from cardapp.settings import Settings
from cardapp.state import evidence
from cardapp.state.database import CHECK_SECONDS, Database, now
from cardapp.web import request_log
from cardapp.web.app import make_app
from cardapp.web.http import WsgiApp
from cardapp.web.listener import Listener
from cardapp.web.live import LiveFeed
from cardapp.web.peer import ROOT_UID, account, only_chosen_container
from cardapp.web.services import Services
from cardapp.web.streams import endpoints
from cardapp.web.waitress_adapter import Limits
from cardapp.web.websocket import SEND_SECONDS, WebSockets

ENDINGS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Times:
    """Periods and limits of the service, in seconds."""

    sync_check: float = PERIOD_SECONDS
    """Period in which the monitor of SYNC checks what no notification reports."""
    page_check: float = CHECK_SECONDS
    """The start waits so long for the check of the database's pages."""
    send: int = SEND_SECONDS
    """The time after which a WebSocket whose client receives nothing is closed."""


class Service:
    """The card application in one process. Call ``start`` once; ``stop`` may be called any number of times.

    ``clock`` returns the time that the record and the reports show.
    """

    def __init__(self, settings: Settings, *, clock: Callable[[], str] = now, times: Times | None = None) -> None:
        times = times or Times()
        self.settings = settings
        private_directories.make_directory(settings.state_dir, "CARD_STATE_DIR")
        self._link = SessionLink(settings.mcp_choice)
        card_loader = CardLoader(settings.card_source, self._card_of_chosen_session)
        self._database = Database.open(settings.state_database, check_seconds=times.page_check)
        self._checkpoints = Checkpoints(
            card_loader=card_loader,
            link=self._link,
            storage=CheckpointStorage(self._database, clock),
            timeout=settings.replay_timeout,
        )
        sessions = SessionStatus(self._link, card_loader, SessionSources(self._link, card_loader))
        control = Control(
            card_loader=card_loader,
            database=self._database,
            active=self._checkpoints.active,
            session=sessions.known,
            clock=clock,
        )
        self._editor = Editor(self._link.editor_socket, self._link.target_reset, self._link.pane_fit)
        self._sync_monitor = SyncMonitor(
            card_loader=card_loader,
            link=self._link,
            checkpoints=self._checkpoints,
            control=control,
            database=self._database,
            period=times.sync_check,
        )
        self._live = LiveFeed(control.state)
        self._database.on_commit = self._live.wake
        self._checkpoints.on_change = self._wake
        self._session_watch = SessionWatch(sessions, self._wake)
        self._sheets = SheetPages(card_loader.current, lambda: card_loader.revision()["revision"])
        self.services = Services(
            settings=settings,
            card_loader=card_loader,
            database=self._database,
            checkpoints=self._checkpoints,
            editor=self._editor,
            panels=EditorPanels(self._link.pane_follow),
            program=Program(self._link),
            sessions=sessions,
            series=Series(settings, self._link, card_loader),
            control=control,
            sheets=self._sheets,
            live=self._live,
            clock=clock,
        )
        self._composer = threading.Thread(target=self._sheets.prepare, name="sheet-composer", daemon=True)
        self.websockets = WebSockets(endpoints(self.services), times.send)
        self.listener = Listener(settings, self._app())

    def _card_of_chosen_session(self) -> Path | None:
        """The source file of the card in the series whose session is chosen; None if there is no such card."""
        series = self.settings.card_series
        if series is None:
            return None
        try:
            name = self._link.choice().name
            # The link is resolved, because a target's directory may begin with "..".
            return source_path((series / name).resolve()) if name in os.listdir(series) else None
        except (SessionUnavailable, NoCard, OSError):
            return None

    def _app(self) -> WsgiApp:
        app = self.websockets.in_front_of(make_app(self.services))
        return only_chosen_container(app, self._link.pid_space)

    def _wake(self) -> None:
        self._live.wake()
        self._sync_monitor.wake()

    def start(self) -> None:
        self.listener.start()
        # The listener has locked the state directory, so sweep() cannot remove the files of another instance.
        self._sweep()
        self._sync_monitor.start()
        self._session_watch.start()
        self._live.start()
        self._composer.start()

    def _sweep(self) -> None:
        """Remove the pictures that no event pins, and name those that are missing."""
        try:
            with self._database.write() as tx:
                missing = evidence.sweep(self.settings.evidence_dir, tx)
        except StateError:
            if self._database.damage is None:
                raise
            return  # what can be read is served
        for name in missing:
            _log.warning("the picture %s is missing in %s: reports omit it", name, self.settings.evidence_dir)

    def stop(self) -> None:
        """Refuse new requests, end the running requests, then close the connections that they used."""
        self._live.stop()
        self.websockets.stop()
        self._checkpoints.stop()
        self.listener.stop()
        self._sync_monitor.stop()
        self._session_watch.stop()
        self._editor.close()
        self._link.close()
        self._database.close()


def run(settings: Settings) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP."""
    # The signals are blocked and awaited by sigwait. A handler that sets an Event could interrupt another handler that
    # holds the Event's lock, and both would hang. The mask is set before the first thread starts, because threads
    # inherit it. A second signal has no effect.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
    _allow_descriptors()
    request_log.configure(settings.log)
    service = Service(settings)
    try:
        service.start()
        for warning in warnings(settings, os.geteuid()):
            _log.warning("cardapp: %s", warning)
        _announce(service)
        signal.sigwait(ENDINGS)
    finally:
        service.stop()


def _allow_descriptors() -> None:
    """Raise the soft limit of open files to the number that the listener can use, or to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * Limits.connections
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def warnings(settings: Settings, uid: int) -> list[str]:
    """Warnings for the operator about who can run commands through the service."""
    found = []
    if uid == ROOT_UID:
        users = " Only root can use this service." if settings.api_peers == "owner" else ""
        found.append(f"started as root: programs of cards run as root.{users}")
    if settings.api_peers == "any":
        found.append(
            "CARD_API_PEERS=any: every account of this machine can use this service, and so run commands as "
            f"{account(uid)}."
        )
    return found


def _announce(service: Service) -> None:
    """Print the addresses at which the service answers: the configured one, the Unix socket, and ``[::1]`` if it is
    bound."""
    first, *others = service.listener.addresses
    for address in (first, f"unix:{service.settings.api_socket}", *others):
        print(address, flush=True)  # noqa: T201

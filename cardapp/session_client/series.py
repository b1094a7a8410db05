"""The cards of the series, and the choice among their sessions. Each card in the folder of the series (CARD_SERIES) is
named like its session. Without a series there is only the served card.

The service starts no session. If no session runs, the user is told the command that starts it.
"""

from __future__ import annotations

import os
import shlex
import threading
from dataclasses import dataclass
from pathlib import Path

from cardapp import session_choice, unix_socket
from cardapp.card.source import load_card
from cardapp.card_loader import CardLoader, FileStatus, ServedCard, file_status, served
from cardapp.errors import CardAppError, Conflict, NotFound, SessionUnavailable
from cardapp.session_client.link import SessionLink
from cardapp.settings import Settings, declared


@dataclass(frozen=True)
class SeriesCard:
    """A card of the series. ``name`` is also the name of its session. ``loaded`` is None if the source is invalid, for
    the reason ``fault``. ``command`` starts the session; it is run in the project's folder."""

    name: str
    loaded: ServedCard | None
    fault: str | None
    is_running: bool
    is_current: bool
    command: str


class Series:
    """The cards of the series, for any thread. A card is read again only after its file changed."""

    def __init__(self, settings: Settings, link: SessionLink, card_loader: CardLoader) -> None:
        self._settings = settings
        self._link = link
        self._card_loader = card_loader
        self._lock = threading.Lock()
        self._read: dict[Path, tuple[FileStatus | None, ServedCard | None, str | None]] = {}

    def cards(self) -> list[SeriesCard]:
        """All cards of the series, in the order in which ``cardapp open`` was given them; other folders by name."""
        served_path = self._card_loader.current().path.resolve()
        return [self._card(name, path, served_path) for name, path in self._paths()]

    def choose(self, name: str) -> None:
        """Choose the session of a card.

        :raises NotFound: the series has no such card.
        :raises Conflict: its session does not run (code ``no_session``); ``extra`` has the command that starts it.
        """
        found = {card.name: card for card in self.cards()}
        card = found.get(name)
        if card is None:
            raise NotFound(f"the series has no card {name[:100]!r}; it has {', '.join(found)}")
        if not card.is_running:
            raise Conflict(
                f"no session runs for the card {name}; start it with: {card.command}",
                code="no_session",
                extra={"command": card.command},
            )
        session_choice.choose(self._settings.mcp_choice, name, self._socket(name))

    def _paths(self) -> list[tuple[str, Path]]:
        """The name and the source file of each card."""
        series = self._settings.card_series
        if series is None:
            return [(self._only_name(), self._card_loader.current().path)]
        try:
            names = sorted(os.listdir(series), key=lambda name: (_place(series / name), name))
        except OSError:
            return []
        return [(name, _source(series / name)) for name in names]

    def _only_name(self) -> str:
        """The name of the chosen session, also if it runs another card; else the served card's id, as ``card-session``
        names a session."""
        try:
            return self._link.choice().name
        except SessionUnavailable:
            return self._card_loader.current().card.id

    def _card(self, name: str, path: Path, served_path: Path) -> SeriesCard:
        loaded, fault = self._load(path)
        state = self._settings.state_dir
        setting = "" if str(state) == declared()["state_dir"].default else f"CARD_STATE_DIR={shlex.quote(str(state))} "
        command = f"{setting}bin/card-session start --name {shlex.quote(name)} {shlex.quote(str(path))}"
        is_running = unix_socket.has_listener(self._socket(name))
        return SeriesCard(name, loaded, fault, is_running, path.resolve() == served_path, command)

    def _socket(self, name: str) -> Path:
        return session_choice.session_folder(self._settings.state_dir, name) / session_choice.MCP_SOCKET

    def _load(self, path: Path) -> tuple[ServedCard | None, str | None]:
        status = file_status(path)
        with self._lock:
            known = self._read.get(path)
            if known is None or known[0] != status:
                try:
                    known = status, served(load_card(path)), None
                except CardAppError as error:
                    known = status, None, error.detail
                self._read[path] = known
            return known[1], known[2]


def _place(entry: Path) -> int:
    """The time of a link, which ``cardapp open`` sets to its place in the order; 0 for anything else."""
    found = entry.lstat()
    return found.st_mtime_ns if entry.is_symlink() else 0


def _source(entry: Path) -> Path:
    """The source file behind an entry of the series, which is a card's folder or its source file."""
    path = entry.resolve()
    return path / "card_source.json" if path.is_dir() else path

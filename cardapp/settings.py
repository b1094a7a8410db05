"""The settings. Each is declared once, with its type, its default and a description.

They come from environment variables only. An invalid value is refused. An unknown ``CARD_…`` name only causes a
warning, because the user's shell may have variables of other programs with that prefix.
"""

from __future__ import annotations

import difflib
import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

from cardapp.errors import UsageError
from cardapp.unix_socket import check_path

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = ROOT / "templates"


_Number = TypeVar("_Number", int, float)


def _between(parse: Callable[[str], _Number], text: str, least: _Number, most: _Number, meaning: str) -> _Number:
    """Parse the number in ``text``, which must be from ``least`` to ``most``.

    :raises ValueError: it is not. The message is "must be", followed by ``meaning``.
    """
    try:
        number = parse(text)
    except ValueError:
        number = None
    if number is None or not least <= number <= most:
        raise ValueError(f"must be {meaning}")
    return number


def _port(text: str) -> int:
    return _between(int, text, 0, 65535, "a port, 0 to 65535 (0: any free one)")


def _loopback(text: str) -> str:
    try:
        allowed = text == "localhost" or ipaddress.ip_address(text).is_loopback
    except ValueError:
        allowed = False
    if not allowed:
        raise ValueError(
            "must be a loopback address, because the service has no login; for remote use, open an ssh tunnel"
        )
    return text


def _peers(text: str) -> str:
    if text not in ("owner", "any"):
        raise ValueError("must be owner or any")
    return text


def _log_form(text: str) -> str:
    if text not in ("off", "text", "json"):
        raise ValueError("must be off, text or json")
    return text


def _path(text: str) -> Path:
    return Path(text).expanduser().absolute()


def _path_if_given(text: str) -> Path | None:
    return _path(text) if text else None


def _seconds(text: str) -> float:
    return _between(float, text, 0.1, 3600.0, "seconds, 0.1 to 3600")


def _bytes(text: str) -> int:
    return _between(int, text, 1024, 1 << 30, "bytes, 1024 to 1073741824")


def _size(text: str) -> int:
    return _between(int, text, 1024, 1 << 40, "bytes, 1024 to 1099511627776")


@dataclass(frozen=True)
class Setting:
    """The declaration of one setting: its variable, its parser, its default as text, and its description."""

    name: str
    parse: Callable[[str], Any]
    default: str
    about: str


@dataclass(frozen=True)
class Settings:
    """The service's settings. ``{state}`` in a default stands for the state directory."""

    api_host: Annotated[str, Setting("CARD_API_HOST", _loopback, "127.0.0.1", "Address to listen on; loopback only.")]
    api_port: Annotated[int, Setting("CARD_API_PORT", _port, "8080", "TCP port; 0 selects a free one.")]
    api_peers: Annotated[
        str,
        Setting(
            "CARD_API_PEERS",
            _peers,
            "owner",
            "Accounts that may use the TCP port: owner (the service's own account and root) or any.",
        ),
    ]
    state_dir: Annotated[
        Path,
        Setting("CARD_STATE_DIR", _path, str(ROOT / ".state" / "card"), "Directory of all stored state (mode 0700)."),
    ]
    api_socket: Annotated[
        Path, Setting("CARD_API_SOCKET", _path, "{state}/card-api.sock", "The Unix socket of the same API.")
    ]
    state_database: Annotated[Path, Setting("CARD_STATE_DATABASE", _path, "{state}/card-state", "The SQLite database.")]
    card_source: Annotated[
        Path,
        Setting(
            "CARD_SOURCE", _path, str(ROOT / "etc" / "cards" / "arena"), "The card: its folder or its card_source.json."
        ),
    ]
    card_series: Annotated[
        Path | None,
        Setting(
            "CARD_SERIES",
            _path_if_given,
            "",
            "Folder of cards, each named like its session; the chosen session's card is served.",
        ),
    ]
    mcp_choice: Annotated[
        Path,
        Setting(
            "CARD_MCP_CHOICE",
            _path,
            "{state}/mcp-choice.json",
            "File that names the selected session and its MCP socket.",
        ),
    ]
    replay_timeout: Annotated[float, Setting("CARD_REPLAY_TIMEOUT", _seconds, "30", "Seconds that a replay may take.")]
    evidence_max_bytes: Annotated[
        int, Setting("CARD_EVIDENCE_MAX_BYTES", _bytes, str(10 * 1024 * 1024), "Largest evidence image, in bytes.")
    ]
    sources_max_bytes: Annotated[
        int,
        Setting("CARD_SOURCES_MAX_BYTES", _size, str(1 << 30), "Largest size of a card's sources in bytes, all files."),
    ]
    """Read by the commands that start sessions."""
    session_profile: Annotated[
        str,
        Setting(
            "CARD_SESSION_PROFILE", str, "local", "Profile of a new session: the name of a section in card-session.ini."
        ),
    ]
    """Read by ``card-session start`` and ``cardapp check``; the service itself starts no session."""
    log: Annotated[str, Setting("CARD_LOG", _log_form, "off", "Log of requests on standard error: off, text or json.")]

    @property
    def evidence_dir(self) -> Path:
        return self.state_dir / "evidence"

    @property
    def latex_cache(self) -> Path:
        """LaTeX's font cache; it may be removed at any time."""
        return self.state_dir / "latex-cache"


def declared() -> dict[str, Setting]:
    """The declaration of each field of :class:`Settings`, in the order of the fields. The state directory precedes the
    settings whose defaults contain it."""
    hints = get_type_hints(Settings, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


def load(environ: Mapping[str, str]) -> Settings:
    """Parse the settings in ``environ``.

    :raises UsageError: a value is not valid. The message names the variable and its value, and says which are allowed.
    """
    values: dict[str, Any] = {}
    for field, setting in declared().items():
        text = environ.get(setting.name) or setting.default.replace("{state}", str(values.get("state_dir", "")))
        try:
            values[field] = setting.parse(text)
        except ValueError as error:
            raise UsageError(f"{setting.name}={text!r}: {error}") from error
    settings = Settings(**values)
    check_path(settings.api_socket, "CARD_API_SOCKET or CARD_STATE_DIR")
    return settings


def unknown_names(environ: Mapping[str, str]) -> list[str]:
    """A warning for each unknown ``CARD_…`` variable, with the most similar known name."""
    known = [setting.name for setting in declared().values()]
    warnings = []
    for name in sorted(environ):
        if name.startswith("CARD_") and name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(known)}"
            warnings.append(f"{name} is not a setting of the card application{hint}")
    return warnings

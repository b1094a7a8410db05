"""Settings: each declared once, with its type, its default and a sentence; parsed once into a frozen dataclass.

They come from the environment, or from a file of ``NAME=value`` lines that ``--env-file`` or ``MARKET_ENV_FILE`` names
(each version has its ``vN.env``). Where both name a setting the environment wins, as it does for containers, and a
difference is warned about. An unknown name in a file is an error; an unknown ``MARKET_…`` in the environment, which
other programs may fill too, is a warning with the nearest known name.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, get_type_hints
from urllib.parse import urlsplit

from marketdata.errors import UsageError

ROOT = Path(__file__).resolve().parent.parent
ENV_FILE = "MARKET_ENV_FILE"
PREFIX_MAX = 40
"""Bytes of a prefix: the longest name made of it must stay within PostgreSQL's 63."""

Warn = Callable[[str], None]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise ValueError("must be a port, 0 to 65535 (0: any free one)")
    return port


def _path(text: str) -> Path:
    return Path(text).expanduser().absolute()


def _host(text: str) -> str:
    if text != "localhost":
        ipaddress.ip_address(text)
    return text


def _optional(text: str) -> str | None:
    return text or None


def identifier(text: str) -> str:
    """``text`` as the name of a table or function; quoting it in SQL is then safe and changes nothing."""
    if not _IDENTIFIER.fullmatch(text):
        raise ValueError("must be a lower-case SQL name: ^[a-z_][a-z0-9_]{0,62}$")
    return text


def _optional_identifier(text: str) -> str | None:
    return identifier(text) if text else None


def _prefix(text: str) -> str:
    if len(text) > PREFIX_MAX:
        raise ValueError(f"must have at most {PREFIX_MAX} characters, so that the names made of it fit")
    return identifier(text)


def _upstream(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("must be the URL of the data API, like http://127.0.0.1:8787")
    return text.rstrip("/")


def _on_off(text: str) -> bool:
    if text not in ("on", "off"):
        raise ValueError("must be on or off")
    return text == "on"


def _networks(text: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())


def _default_state_dir(environ: Mapping[str, str]) -> str:
    if os.geteuid() == 0:
        return "/var/lib/marketdata"
    # The XDG base directory specification: a relative path in the variable is to be ignored.
    home = environ.get("XDG_STATE_HOME", "")
    return os.path.join(home if os.path.isabs(home) else "~/.local/state", "marketdata")


@dataclass(frozen=True)
class Setting:
    """The declaration of one setting: its variable, its parser, its default as text, and a sentence.

    ``{state}`` in a default stands for the state directory, ``{default_state}`` for what that is when unset.
    """

    name: str
    parse: Callable[[str], Any]
    default: str
    about: str


@dataclass(frozen=True)
class Settings:
    """The service's settings, the state directory before what uses it."""

    state_dir: Annotated[
        Path,
        Setting(
            "MARKET_STATE_DIR",
            _path,
            "{default_state}",
            "Folder of everything that is kept; as root /var/lib/marketdata, else $XDG_STATE_HOME/marketdata.",
        ),
    ]
    secrets_dir: Annotated[
        Path, Setting("MARKET_SECRETS_DIR", _path, "{state}/secrets", "Folder of the token files (0700).")
    ]
    prefix: Annotated[
        str, Setting("MARKET_PREFIX", _prefix, "md", "What the names of tables and functions begin with.")
    ]
    database_url: Annotated[
        str | None,
        Setting("DATABASE_URL", _optional, "", "Another PostgreSQL, as a libpq URL; unset: the private cluster."),
    ] = field(repr=False)
    database_read_url: Annotated[
        str | None, Setting("DATABASE_READ_URL", _optional, "", "A replica for reads; unset: the same database.")
    ] = field(repr=False)
    ticks_table: Annotated[
        str | None, Setting("TICKS_TABLE", _optional_identifier, "", "Table of ticks; unset: the current version's.")
    ]
    candles_function: Annotated[
        str | None,
        Setting("CANDLES_FUNCTION", _optional_identifier, "", "Function of candles; unset: the current version's."),
    ]
    api_host: Annotated[str, Setting("MARKET_API_HOST", _host, "127.0.0.1", "Address of the data API.")]
    api_port: Annotated[int, Setting("MARKET_API_PORT", _port, "8787", "Port of the data API; 0 takes any free one.")]
    frontend_host: Annotated[str, Setting("MARKET_FRONTEND_HOST", _host, "127.0.0.1", "Address of the frontend.")]
    frontend_port: Annotated[
        int, Setting("MARKET_FRONTEND_PORT", _port, "8081", "Port of the frontend; 0 takes any free one.")
    ]
    api_upstream: Annotated[
        str, Setting("API_UPSTREAM", _upstream, "http://127.0.0.1:8787", "URL of the data API for the frontend.")
    ]
    basic_auth: Annotated[
        bool, Setting("BASIC_AUTH_MODE", _on_off, "on", "off: the frontend does not ask; its trusted proxy did.")
    ]
    trusted_proxies: Annotated[
        tuple[Network, ...],
        Setting("MARKET_TRUSTED_PROXIES", _networks, "", "Networks, beside loopback, whose X-Remote-User is believed."),
    ]


def declared() -> dict[str, Setting]:
    """The declaration of each field of :class:`Settings`, in its order."""
    hints = get_type_hints(Settings, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


def load(environ: Mapping[str, str], env_file: Path | None = None, *, warn: Warn = lambda _text: None) -> Settings:
    """The settings of ``environ`` over those of the file; :class:`UsageError` names source, variable and value."""
    _warn_of_unknown(environ, warn)
    if env_file is None and environ.get(ENV_FILE):
        env_file = _path(environ[ENV_FILE])
    filed = read_env_file(env_file) if env_file else {}
    values: dict[str, Any] = {}
    for name, setting in declared().items():
        source, text = setting.name, environ.get(setting.name, "")
        if text and filed.get(setting.name, text) != text:
            warn(f"{setting.name} of the environment is used, the different one of {env_file} is not")
        if not text and filed.get(setting.name):
            source, text = f"{env_file}: {setting.name}", filed[setting.name]
        text = text or setting.default.format(
            state=values.get("state_dir", ""), default_state=_default_state_dir(environ)
        )
        try:
            values[name] = setting.parse(text)
        except ValueError as error:
            # What a URL holds may be a password; it is not repeated.
            shown = "" if "URL" in setting.name else f"={text!r}"
            raise UsageError(f"{source}{shown}: {error}") from error
    return Settings(**values)


def read_env_file(path: Path) -> dict[str, str]:
    """The ``NAME=value`` lines of a file; blank lines and ``#`` comments are skipped, quotes around go."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the settings file {path} cannot be read: {error}") from error
    known = [setting.name for setting in declared().values()]
    found: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        name, value = name.strip(), value.strip()
        if not equals:
            raise UsageError(f"{path}, line {number}: not NAME=value")
        if name not in known:
            raise UsageError(f"{path}, line {number}: {name} is no setting{_nearest(name, known)}")
        if name in found:
            raise UsageError(f"{path}, line {number}: {name} is set a second time")
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        found[name] = value
    return found


def _warn_of_unknown(environ: Mapping[str, str], warn: Warn) -> None:
    known = [ENV_FILE, *(setting.name for setting in declared().values())]
    for name in sorted(environ):
        if name.startswith("MARKET_") and name not in known:
            warn(f"{name} is no setting of the market-data service{_nearest(name, known)}")


def _nearest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; known: {', '.join(known)}"

"""Declares the settings, each with its type, its default and a description, and parses them into a frozen dataclass.

Values come from the environment, or from a file of ``NAME=value`` lines that ``--env-file`` or ``MARKET_ENV_FILE``
names (each version has its ``vN.env``). The environment takes precedence; a different value in the file causes a
warning. An unknown name in the file is an error. An unknown ``MARKET_…`` in the environment only causes a warning,
because another program may have set it. The warning suggests the nearest known name.
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
MAX_PREFIX = 40
"""Maximum length of a prefix. With it, the longest name that starts with a prefix still has at most 63 bytes, which is
PostgreSQL's limit."""

MAX_PROCESSES = 64
"""Maximum number of processes of the API. Each needs some connections of PostgreSQL."""

Warn = Callable[[str], None]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_PORT = re.compile(r"[0-9]{1,5}")
_SECONDS = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})?", re.ASCII)
_ORIGIN = re.compile(r"https?://[^\s/?#@\\,]+")
_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def _port(text: str) -> int:
    if not _PORT.fullmatch(text) or int(text) > 65535:
        raise ValueError("must be a port number from 0 to 65535, like 8787; 0 chooses a free port")
    return int(text)


def processes(text: str) -> int:
    """Return the number of processes. Raises ValueError if ``text`` is not one from 1 to ``MAX_PROCESSES``."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAX_PROCESSES:
        raise ValueError(f"must be a number of processes from 1 to {MAX_PROCESSES}")
    return int(text)


def _seconds(text: str) -> float:
    if not _SECONDS.fullmatch(text):
        raise ValueError("must be a number of seconds, like 5 or 0.5")
    return float(text)


def _optional_port(text: str) -> int | None:
    return _port(text) if text else None


def _path(text: str) -> Path:
    return Path(text).expanduser().absolute()


def _optional_path(text: str) -> Path | None:
    return _path(text) if text else None


def _host(text: str) -> str:
    if text != "localhost":
        try:
            ipaddress.ip_address(text)
        except ValueError as error:
            raise ValueError("must be an IP address of this machine, like 127.0.0.1 or ::1, or localhost") from error
    return text


def _optional(text: str) -> str | None:
    return text or None


def identifier(text: str) -> str:
    """Return ``text`` if it can name a table or a function in SQL without quotes. Raises ValueError otherwise."""
    if not _IDENTIFIER.fullmatch(text):
        raise ValueError("must be a name of 1 to 63 characters a-z, 0-9 and _ that does not start with a digit")
    return text


def _optional_identifier(text: str) -> str | None:
    return identifier(text) if text else None


def _prefix(text: str) -> str:
    if len(text) > MAX_PREFIX:
        raise ValueError(f"must have at most {MAX_PREFIX} characters: the names of tables start with it")
    return identifier(text)


def connectable(host: str) -> str:
    """The address at which this machine reaches a program that listens on ``host``, which may mean all addresses."""
    if host == "localhost" or not (address := ipaddress.ip_address(host)).is_unspecified:
        return host
    return "127.0.0.1" if address.version == 4 else "::1"


def _authority(host: str, port: int) -> str:
    reached = connectable(host)
    return f"[{reached}]:{port}" if ":" in reached else f"{reached}:{port}"


def _upstream(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("must be the URL of the data API, like http://127.0.0.1:8787")
    return text.rstrip("/")


def _on_off(text: str) -> bool:
    if text not in ("on", "off"):
        raise ValueError("must be on or off")
    return text == "on"


def _log_form(text: str) -> str:
    if text not in ("off", "text", "json"):
        raise ValueError("must be off, text or json")
    return text


def _networks(text: str) -> tuple[Network, ...]:
    try:
        return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise ValueError(f"must be IP networks separated by commas, like 10.0.0.0/8: {error}") from error


def _origins(text: str) -> tuple[str, ...]:
    """Normalise origins to the form that browsers send: in lower case, and without the scheme's default port."""
    origins = [part.strip().lower() for part in text.split(",") if part.strip()]
    if not all(_ORIGIN.fullmatch(origin) for origin in origins):
        raise ValueError("must be origins separated by commas, like https://charts.example.org, without a path")
    return tuple(each.removesuffix(":443" if each.startswith("https") else ":80") for each in origins)


def _default_state_dir(environ: Mapping[str, str]) -> str:
    if os.geteuid() == 0:
        return "/var/lib/marketdata"
    # The XDG base directory specification says to ignore a relative path in the variable.
    home = environ.get("XDG_STATE_HOME", "")
    return os.path.join(home if os.path.isabs(home) else "~/.local/state", "marketdata")


@dataclass(frozen=True)
class Setting:
    """The declaration of a setting: its variable, its parser, its default as text, and its description.

    In a default, ``{state}`` is the state directory, ``{default_state}`` the state directory's default, and ``{api}``
    the address of the data API.
    """

    name: str
    parse: Callable[[str], Any]
    default: str
    about: str


@dataclass(frozen=True)
class Settings:
    """The settings. A setting comes after those that its default contains."""

    state_dir: Annotated[
        Path,
        Setting(
            "MARKET_STATE_DIR",
            _path,
            "{default_state}",
            "Folder of all data; for root /var/lib/marketdata, else $XDG_STATE_HOME/marketdata.",
        ),
    ]
    secrets_dir: Annotated[
        Path, Setting("MARKET_SECRETS_DIR", _path, "{state}/secrets", "Folder of the token files (0700).")
    ]
    prefix: Annotated[str, Setting("MARKET_PREFIX", _prefix, "md", "Start of the names of tables and functions.")]
    socket_dir: Annotated[
        Path | None,
        Setting(
            "MARKET_SOCKET_DIR",
            _optional_path,
            "",
            "Folder of a second socket of the private PostgreSQL, for readers of other accounts; unset: none.",
        ),
    ]
    database_url: Annotated[
        str | None,
        Setting("DATABASE_URL", _optional, "", "URL of another PostgreSQL; unset: the private cluster."),
    ] = field(repr=False)
    database_read_url: Annotated[
        str | None,
        Setting("DATABASE_READ_URL", _optional, "", "URL of replicas for reads; unset: the same database."),
    ] = field(repr=False)
    read_lag_s: Annotated[
        float,
        Setting("MARKET_READ_LAG_S", _seconds, "5", "A replica that is further behind than this is not read."),
    ]
    ticks_table: Annotated[
        str | None,
        Setting("TICKS_TABLE", _optional_identifier, "", "Table of ticks; unset: the current version's."),
    ]
    candles_function: Annotated[
        str | None,
        Setting("CANDLES_FUNCTION", _optional_identifier, "", "Candles function; unset: the current version's."),
    ]
    api_host: Annotated[str, Setting("MARKET_API_HOST", _host, "127.0.0.1", "Address of the data API.")]
    api_port: Annotated[int, Setting("MARKET_API_PORT", _port, "8787", "Port of the data API; 0 chooses a free port.")]
    api_processes: Annotated[
        int, Setting("MARKET_API_PROCESSES", processes, "1", "Processes of the data API, on the same port.")
    ]
    frontend_host: Annotated[str, Setting("MARKET_FRONTEND_HOST", _host, "127.0.0.1", "Address of the frontend.")]
    frontend_port: Annotated[
        int, Setting("MARKET_FRONTEND_PORT", _port, "8081", "Port of the frontend; 0 chooses a free port.")
    ]
    frontend_origins: Annotated[
        tuple[str, ...],
        Setting(
            "MARKET_FRONTEND_ORIGINS", _origins, "", "Addresses of the frontend behind a proxy, separated by commas."
        ),
    ]
    api_upstream: Annotated[
        str,
        Setting(
            "API_UPSTREAM",
            _upstream,
            "http://{api}",
            "URL of the data API for frontend, ingestor and backfill; unset: where MARKET_API_HOST and _PORT say.",
        ),
    ]
    has_metrics: Annotated[
        bool, Setting("MARKET_METRICS", _on_off, "on", "off: GET /metrics of the data API is not found (404).")
    ]
    ingestor_metrics_port: Annotated[
        int | None,
        Setting("MARKET_INGESTOR_METRICS_PORT", _optional_port, "", "Port of the ingestor's metrics; unset: none."),
    ]
    basic_auth: Annotated[
        bool, Setting("BASIC_AUTH_MODE", _on_off, "on", "off: no login at the frontend; a trusted proxy does it.")
    ]
    trusted_proxies: Annotated[
        tuple[Network, ...],
        Setting(
            "MARKET_TRUSTED_PROXIES",
            _networks,
            "",
            "Networks, beside loopback, whose X-Remote-User and X-Forwarded-For are trusted.",
        ),
    ]
    log: Annotated[str, Setting("MARKET_LOG", _log_form, "off", "Log of requests on standard error: off, text, json.")]


def declared() -> dict[str, Setting]:
    """The declaration of each field of :class:`Settings`, in its order."""
    hints = get_type_hints(Settings, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


def load(environ: Mapping[str, str], env_file: Path | None = None, *, warn: Warn = lambda _text: None) -> Settings:
    """Load the settings from ``environ`` and the file. Raises UsageError for an invalid value; the message names the
    source, the variable and the value."""
    _warn_of_unknown(environ, warn)
    if env_file is None and environ.get(ENV_FILE):
        env_file = _path(environ[ENV_FILE])
    from_file = read_env_file(env_file) if env_file else {}
    values: dict[str, Any] = {}
    for name, setting in declared().items():
        source, text = setting.name, environ.get(setting.name, "")
        if text and from_file.get(setting.name, text) != text:
            warn(f"{setting.name} is taken from the environment; {env_file} has a different value")
        if not text and from_file.get(setting.name):
            source, text = f"{env_file}: {setting.name}", from_file[setting.name]
        text = text or setting.default.format(**_names(environ, values))
        try:
            values[name] = setting.parse(text)
        except ValueError as error:
            # A URL may contain a password, so it is not shown.
            shown = "" if "URL" in setting.name else f"={text!r}"
            raise UsageError(f"{source}{shown}: {error}") from error
    return Settings(**values)


def _names(environ: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, object]:
    """What the names in a default stand for, after the settings ``values``."""
    return {
        "default_state": _default_state_dir(environ),
        "state": values.get("state_dir", ""),
        "api": _authority(values["api_host"], values["api_port"]) if "api_port" in values else "",
    }


def read_env_file(path: Path) -> dict[str, str]:
    """Parse the ``NAME=value`` lines of a file. Quotes around values are removed; blank lines and ``#`` comments are
    skipped."""
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
            raise UsageError(f"{path}, line {number}: must have the form NAME=value")
        if name not in known:
            raise UsageError(f"{path}, line {number}: {name} is not a setting{_nearest(name, known)}")
        if name in found:
            raise UsageError(f"{path}, line {number}: {name} is set twice")
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        found[name] = value
    return found


def _warn_of_unknown(environ: Mapping[str, str], warn: Warn) -> None:
    known = [ENV_FILE, *(setting.name for setting in declared().values())]
    for name in sorted(environ):
        if name.startswith("MARKET_") and name not in known:
            warn(f"{name} is not a setting of the market-data service{_nearest(name, known)}")


def _nearest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; known: {', '.join(known)}"

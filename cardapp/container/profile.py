"""Profiles: named settings of a session, from ``etc/card-session.ini``."""

from __future__ import annotations

import configparser
from dataclasses import dataclass
from pathlib import Path

from cardapp.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]
PROFILES = ROOT / "etc" / "card-session.ini"
DEFAULT_PROFILE = "local"
KNOWN = ("sources", "columns", "rows", "build_timeout")
COLUMNS = range(40, 501)
ROWS = range(10, 201)


@dataclass(frozen=True)
class Profile:
    """``columns`` and ``rows`` are characters, ``build_timeout`` seconds."""

    name: str
    in_place: bool
    columns: int
    rows: int
    build_timeout: int


def load_profile(name: str, path: Path = PROFILES) -> Profile:
    """The profile ``name``; :class:`UsageError` names the file, section and key that are wrong."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        with path.open(encoding="utf-8") as file:
            parser.read_file(file)
    except (OSError, configparser.Error) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    if name not in parser:
        raise UsageError(f"there is no profile {name!r} in {path}; known: {', '.join(parser.sections())}")
    section = parser[name]
    for key in section:
        if key not in KNOWN:
            raise UsageError(f"{path} [{name}] {key}: unknown; known: {', '.join(KNOWN)}")
    sources = section.get("sources", "copy")
    if sources not in ("copy", "in-place"):
        raise UsageError(f"{path} [{name}] sources = {sources}: must be copy or in-place")
    return Profile(
        name,
        sources == "in-place",
        _number(section, "columns", COLUMNS, path),
        _number(section, "rows", ROWS, path),
        _number(section, "build_timeout", range(1, 3601), path),
    )


def _number(section: configparser.SectionProxy, key: str, allowed: range, path: Path) -> int:
    text = section.get(key, "")
    if not text.isdecimal() or int(text) not in allowed:
        raise UsageError(
            f"{path} [{section.name}] {key} = {text}: must be a number from {allowed.start} to {allowed.stop - 1}"
        )
    return int(text)

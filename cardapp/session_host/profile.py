"""Profiles: named settings of a session, from ``etc/card-session.ini``."""

from __future__ import annotations

import configparser
from dataclasses import dataclass
from pathlib import Path

from cardapp.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]
PROFILES = ROOT / "etc" / "card-session.ini"
DEFAULT_PROFILE = "local"
KNOWN = ("runtime", "sources", "columns", "rows", "build_timeout", "memory", "processes", "program_seconds")
RUNTIMES = ("local", "podman")
COLUMNS = range(40, 501)
ROWS = range(10, 201)
SECONDS = range(1, 3601)
MEBIBYTES = range(256, 1_048_577)
PROCESSES = range(64, 32_769)


@dataclass(frozen=True)
class Limits:
    """The limits of a container: memory in MiB, processes, and seconds of CPU time for each process of the program."""

    memory: int
    processes: int
    program_seconds: int


@dataclass(frozen=True)
class Profile:
    """The settings of a session. ``build_timeout`` is in seconds. ``limits`` is None without a container."""

    name: str
    runtime: str
    in_place: bool
    columns: int
    rows: int
    build_timeout: int
    limits: Limits | None


def load_profile(name: str, path: Path = PROFILES) -> Profile:
    """Read the profile ``name``. Raises :class:`UsageError`, which names the file, the section and the key at fault."""
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
    runtime = _choice(section, "runtime", RUNTIMES, path)
    sources = _choice(section, "sources", ("copy", "in-place"), path)
    if runtime == "podman" and sources == "in-place":
        raise UsageError(f"{path} [{name}] sources = in-place: with runtime = podman it must be copy")
    return Profile(
        name,
        runtime,
        sources == "in-place",
        _number(section, "columns", COLUMNS, path),
        _number(section, "rows", ROWS, path),
        _number(section, "build_timeout", SECONDS, path),
        _limits(section, path) if runtime == "podman" else None,
    )


def _limits(section: configparser.SectionProxy, path: Path) -> Limits:
    return Limits(
        _number(section, "memory", MEBIBYTES, path),
        _number(section, "processes", PROCESSES, path),
        _number(section, "program_seconds", SECONDS, path),
    )


def _choice(section: configparser.SectionProxy, key: str, allowed: tuple[str, ...], path: Path) -> str:
    """The value of ``key``; if it is not set, the first allowed value."""
    text = section.get(key, allowed[0])
    if text not in allowed:
        raise UsageError(f"{path} [{section.name}] {key} = {text}: must be {' or '.join(allowed)}")
    return text


def _number(section: configparser.SectionProxy, key: str, allowed: range, path: Path) -> int:
    text = section.get(key, "")
    if not text.isdecimal() or int(text) not in allowed:
        raise UsageError(
            f"{path} [{section.name}] {key} = {text}: must be a number from {allowed.start} to {allowed.stop - 1}"
        )
    return int(text)

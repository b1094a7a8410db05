"""Looks the functions of a card's stops up in the built program, without running it.

It stays silent where nothing can be known: the program was not built, is older than its sources, has no symbols, or may
find the function in a library.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from cardapp import settings
from cardapp.authoring.fault import Fault, pointers
from cardapp.authoring.proving import kept_folder, similar_function
from cardapp.card.catalog import Catalog
from cardapp.card.source import LoadedCard, read_regular
from cardapp.errors import UsageError

NO_FUNCTION = "no_function"
_GDB_SECONDS = 20.0
_NAMES = "CARDAPP_FUNCTIONS"
# gdb's own search, as for a breakpoint. For a function in Rust gdb needs the whole name, with the name of its crate.
_LOOK_UP = f"""
import gdb, json, os, re
def known(name):
    try:
        return bool(gdb.decode_line(name)[1])
    except gdb.error as error:
        if "not defined" not in str(error):
            return None
    if "rust" not in gdb.execute("show language", to_string=True):
        return False
    return bool(gdb.execute(f"info functions -q -n ::{{re.escape(name)}}$", to_string=True).strip())
gdb.execute("set language auto")
names = json.loads(os.environ["{_NAMES}"])
print(json.dumps({{name: known(name) for name in ("main", "dlopen", *names)}}))
"""
_NEEDED = re.compile(r"\(NEEDED\).*\[(.+)\]")
_RUNTIME = re.compile(r"(?:libc|libm|libpthread|libdl|librt|libgcc_s|libstdc\+\+|ld-linux[^.]*)\.so\.\d+")
"""The libraries of the languages, which a program always has."""
_OF_RUNTIME = re.compile(r"_|(?:std|core|alloc)::")


def function_faults(loaded: LoadedCard) -> Iterator[Fault]:
    """The stops at functions that the built program certainly does not have."""
    catalog = Catalog(loaded.card)
    stops = {key: found.stop for key, found in catalog.snapshots.items() if found.stop.function is not None}
    program = _program(loaded) if stops else None
    if program is None:
        return
    names = {stop.function for stop in stops.values() if stop.function is not None}
    known = _looked_up(program, sorted(names))
    if not known.get("main") or known.get("dlopen") or not _is_complete(program):
        return
    at = pointers(catalog)
    for key, stop in stops.items():
        if stop.function is not None and known.get(stop.function) is False and not _may_be_runtime(stop.function):
            detail = f"{loaded.card.target.program} has no function {stop.function}"
            causes = tuple(similar_function(stop.function, loaded))
            yield Fault(key, f"{at[key]}/stop/function", None, NO_FUNCTION, detail, causes=causes)


def _program(loaded: LoadedCard) -> Path | None:
    """The program that was built of the present sources, in the card's own folder or in the copy of the last check."""
    folders = [loaded.target_directory]
    try:
        copy = kept_folder(loaded, settings.load(os.environ)) / loaded.card.id
        folders.append(copy / loaded.target_directory.relative_to(loaded.root))
    except UsageError:  # a wrong setting is no fault of the card
        pass
    for folder in folders:
        program = folder / loaded.card.target.program
        if os.path.isfile(program) and _is_current(program, folder, loaded):
            return program
    return None


def _is_current(program: Path, folder: Path, loaded: LoadedCard) -> bool:
    built = program.stat().st_mtime_ns
    for name in loaded.card.target.sources:
        content = read_regular(folder / name)
        if content is None or content != read_regular(loaded.target_directory / name):
            return False
        if (folder / name).stat().st_mtime_ns > built:
            return False
    return True


def _looked_up(program: Path, names: list[str]) -> dict[str, bool | None]:
    """Whether gdb knows each of the functions; None where it cannot tell."""
    gdb = shutil.which("gdb")
    if gdb is None:
        return {}
    quiet = ["-nx", "-batch", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off"]
    script = f"python exec({_LOOK_UP!r})"
    output = _output([gdb, *quiet, "-ex", script, str(program)], {_NAMES: json.dumps(names)})
    try:
        found: dict[str, bool | None] = json.loads(output.splitlines()[-1])
    except (ValueError, IndexError):
        return {}
    return found


def _is_complete(program: Path) -> bool:
    """Whether the program loads no library but those of its language's runtime."""
    readelf = shutil.which("readelf")
    if readelf is None:
        return False
    dynamic = _output([readelf, "--dynamic", "--wide", str(program)])
    return all(_RUNTIME.fullmatch(name) for name in _NEEDED.findall(dynamic))


def _output(command: list[str], environment: Mapping[str, str] | None = None) -> str:
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "LC_ALL": "C.UTF-8", **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_GDB_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _may_be_runtime(function: str) -> bool:
    """Whether the function may be one of the language's libraries. This process has loaded the C library, too."""
    return _OF_RUNTIME.match(function) is not None or hasattr(ctypes.CDLL(None), function)

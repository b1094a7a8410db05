"""From LaTeX to PDF: one run of the machine's lualatex in a private folder, without a shell, within a time limit.

lualatex keeps what it reads of the fonts in a cache, which the first run fills (about ten seconds). It gets an
environment of its own: neither the user's TeX settings nor files elsewhere change what comes out.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cardapp.errors import MissingRequirement, TooSlow, TypesettingFailed
from cardapp.layout.latex.document import place_of
from cardapp.private import make_directory

PROGRAM = "lualatex"
PACKAGES = (
    "texlive-luatex", "texlive-latex-recommended", "texlive-pictures", "lmodern", "fonts-noto-core", "fonts-noto-mono",
)  # fmt: skip
"""The Debian packages of all that a run needs."""
FONT_PACKAGES = ("fonts-noto-extra", "fonts-noto-cjk", "fonts-noto-color-emoji")
"""Those of the characters that the fonts above lack, for cards that have them."""
TIME_LIMIT, TIME_PER_SHEET = 120.0, 1.0
"""Seconds that a run may take: ten times what it takes on a slow machine."""

_COMMAND = ("-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error", "-file-line-error", "card.tex")
_ERROR = re.compile(r"^\./card\.tex:(\d+): (.*)", re.MULTILINE)
_FATAL = re.compile(r"^! (.*)", re.MULTILINE)
_NOT_THERE = re.compile(
    r"File `[^']*' not found|font .* (?:cannot|can't) be found|Font .* not (?:found|loadable)", re.I
)
_NO_ROOM = re.compile(r"\(file io\)|I can't write on file")
_TOO_HIGH = re.compile(r"^Package card Warning: (.*) is ([0-9.]+)pt too high", re.MULTILINE)
_NO_FAMILY = re.compile(r"^Package card Warning: no font family (.*)\.$", re.MULTILINE)
_MM_PER_TEX_POINT = 25.4 / 72.27
_NO_GLYPH = re.compile(r"^Package card Warning: no font has U\+([0-9A-F]+)", re.MULTILINE)


@dataclass(frozen=True)
class TypesetPdf:
    """The PDF, and what its maker should know of it: ``remarks`` on font families that are not here and on parts that
    had to be set smaller, and characters that no font here has, which are ``named`` in their places by their code
    points. ``log`` is all that LaTeX said."""

    pdf: bytes
    remarks: tuple[str, ...]
    named: tuple[str, ...]
    log: str


def typeset(tex: str, cache: Path, *, time_limit: float | None = None) -> TypesetPdf:
    """The PDF of a file by ``layout.latex``. ``cache`` is a folder for what was read of fonts, for one run at a time.

    :raises MissingRequirement: there is no lualatex, or it has not all that it needs.
    :raises TypesettingFailed: LaTeX refused the file; the message names the part of the card. Or it came to no end.
    :raises TooSlow: it took longer than ``time_limit`` seconds (None: as many as the sheets need at most), the wait for
        another run aside.
    """
    if time_limit is None:
        time_limit = TIME_LIMIT + TIME_PER_SHEET * tex.count(r"\begin{CardSheet}")
    program = shutil.which(PROGRAM)
    if program is None:
        raise _missing("there is no lualatex on PATH")
    make_directory(cache, "CARD_STATE_DIR")
    try:
        with tempfile.TemporaryDirectory(prefix="card-press-") as folder, _turn(cache):
            return _pressed(tex, Path(folder), [program, *_COMMAND], cache, time_limit)
    except OSError as error:
        place = error.filename or tempfile.gettempdir()
        raise TypesettingFailed(
            f"{place} cannot be used to make a PDF: {error.strerror}; TMPDIR and CARD_STATE_DIR name the places for it"
        ) from error


def _pressed(tex: str, place: Path, command: list[str], cache: Path, time_limit: float) -> TypesetPdf:
    (place / "card.tex").write_text(tex, "utf-8")
    ended = _run(command, place, cache, time_limit)
    log = (place / "card.log").read_text("utf-8", "replace") if (place / "card.log").exists() else ""
    _refuse_errors(tex, log)
    if ended:
        why = f"was ended by {signal.Signals(-ended).name}" if ended < 0 else f"ended with exit code {ended}"
        raise TypesettingFailed(f"lualatex {why}; {_WAY_OUT}")
    try:
        pdf = (place / "card.pdf").read_bytes()
    except FileNotFoundError:
        raise TypesettingFailed(f"lualatex made no PDF and does not say why; {_WAY_OUT}") from None
    named = tuple(chr(int(code, 16)) for code in _NO_GLYPH.findall(log))
    return TypesetPdf(pdf, tuple(_remarks(log)), named, log)


def _remarks(log: str) -> Iterator[str]:
    for family in dict.fromkeys(_NO_FAMILY.findall(log)):
        yield f"there is no font family {family} here; the layout's next one is set in its place, at last Noto"
    for part, points in _TOO_HIGH.findall(log):
        yield f"{part} came out {float(points) * _MM_PER_TEX_POINT:.1f} mm higher than reckoned and was set smaller"


_WAY_OUT = "emit the card with --format latex and run lualatex on that file to see more"


@contextmanager
def _turn(cache: Path) -> Iterator[None]:
    """Only one run at a time fills the cache: another could read what is half written."""
    with open(cache / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(command: list[str], place: Path, cache: Path, time_limit: float) -> int:
    """The exit code; an interrupt and the end of the time end the program too, before its folder is removed."""
    quiet, running = subprocess.DEVNULL, None
    # One that came while the program is started would leave it behind, with nobody who knows it.
    unheld = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        running = subprocess.Popen(
            command, cwd=place, env=_environment(place, cache), stdin=quiet, stdout=quiet, stderr=quiet
        )
        signal.pthread_sigmask(signal.SIG_SETMASK, unheld)
        return running.wait(time_limit)
    except subprocess.TimeoutExpired as error:
        raise TooSlow(f"lualatex did not finish within {time_limit:g} s and was ended") from error
    except PermissionError as error:
        raise _missing(f"{command[0]} cannot be run: {error.strerror}") from error
    finally:
        if running is not None:
            running.kill()
            running.wait()
        signal.pthread_sigmask(signal.SIG_SETMASK, unheld)


def _environment(place: Path, cache: Path) -> dict[str, str]:
    """Of the user's own only PATH. TeX reads and writes no file elsewhere, and the log's lines stay whole."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C.UTF-8",
        "openin_any": "p",
        "openout_any": "p",
        "shell_escape": "f",
        "max_print_line": "10000",
        **dict.fromkeys(("HOME", "TEXMFHOME", "TEXMFCONFIG", "TMPDIR"), str(place)),
        **dict.fromkeys(("TEXMFVAR", "TEXMFCACHE"), str(cache)),
    }


def _refuse_errors(tex: str, log: str) -> None:
    error, fatal = _ERROR.search(log), _FATAL.search(log)
    if error is None and fatal is None:
        return
    said = error[2] if error else fatal[1] if fatal else ""
    if _NOT_THERE.search(said):
        raise _missing(f"LaTeX says: {said}")
    if _NO_ROOM.search(said):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), tempfile.gettempdir())
    where = place_of(tex, int(error[1])) if error else ""
    line = f" (line {error[1]})" if error else ""
    raise TypesettingFailed(
        f"LaTeX failed {f'in {where}' if where else 'before the first part'}{line}: {said}; {_WAY_OUT}"
    )


def _missing(reason: str) -> MissingRequirement:
    return MissingRequirement(
        f"a PDF needs LaTeX and the Noto fonts, and {reason}. On Debian or Ubuntu: sudo apt-get install "
        f"{' '.join(PACKAGES)}. Without them: --format html or --format latex"
    )

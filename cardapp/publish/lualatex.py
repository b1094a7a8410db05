"""Typesets LaTeX to PDF by one run of lualatex in a temporary directory, without shell escape, with a time limit.

lualatex caches font data. The first run fills the cache and takes about ten seconds longer. Each run has a new
directory and only fixed environment variables, so neither the user's TeX settings nor other files change the result.
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
from cardapp.private_directories import make_directory

PROGRAM = "lualatex"
PACKAGES = (
    "texlive-luatex", "texlive-latex-recommended", "texlive-pictures", "lmodern", "fonts-noto-core", "fonts-noto-mono",
)  # fmt: skip
"""The Debian packages that a run needs."""
FONT_PACKAGES = ("fonts-noto-extra", "fonts-noto-cjk", "fonts-noto-color-emoji")
"""Debian packages with fonts for characters that the fonts of ``PACKAGES`` lack."""
TIME_LIMIT, TIME_PER_SHEET = 120.0, 1.0
"""A run may take ``TIME_LIMIT`` seconds, and ``TIME_PER_SHEET`` seconds more for each sheet. This is ten times as long
as a run takes on a slow machine."""

_COMMAND = (
    "-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error", "-file-line-error",
    f"-lua={Path(__file__).with_name('reading.lua')}", "card.tex",
)  # fmt: skip
_OUTPUT = "output.txt"
_MAX_QUOTED_OUTPUT = 1500
"""An error message quotes at most this number of characters from the end of lualatex's output."""
_ERROR = re.compile(r"^\./card\.tex:(\d+): (.*)", re.MULTILINE)
_FATAL = re.compile(r"^! (.*)", re.MULTILINE)
_NOT_INSTALLED = re.compile(
    r"File `[^']*' not found|font .* (?:cannot|can't) be found|Font .* not (?:found|loadable)", re.I
)
_DISK_FULL = re.compile(r"\(file io\)|I can't write on file")
_TOO_HIGH = re.compile(r"^Package card Warning: (.*) is ([0-9.]+)pt too high", re.MULTILINE)
_NO_FAMILY = re.compile(r"^Package card Warning: no font family (.*)\.$", re.MULTILINE)
_MM_PER_TEX_POINT = 25.4 / 72.27
_NO_GLYPH = re.compile(r"^Package card Warning: no font has U\+([0-9A-F]+)", re.MULTILINE)


@dataclass(frozen=True)
class TypesetPdf:
    """The PDF. ``remarks`` tell the user about missing font families and about parts that were scaled down. ``named``
    are the characters that no installed font has; the PDF shows their code points. ``log`` is LaTeX's log."""

    pdf: bytes
    remarks: tuple[str, ...]
    named: tuple[str, ...]
    log: str


def typeset(tex: str, cache: Path, *, time_limit: float | None = None) -> TypesetPdf:
    """Typeset ``tex``, a text that ``layout.latex`` has made. ``cache`` is the directory of the font cache. Only one
    run at a time uses it.

    :raises MissingRequirement: lualatex, a LaTeX package or a required font is not installed.
    :raises TypesettingFailed: LaTeX reported an error (the message names the part of the card), lualatex ended
        abnormally, or the disk is full.
    :raises TooSlow: the run took longer than ``time_limit`` seconds. If ``time_limit`` is None, the limit depends on
        the number of sheets. The time in which this run waits for another run does not count.
    """
    if time_limit is None:
        time_limit = default_time_limit(tex)
    program = shutil.which(PROGRAM)
    if program is None:
        raise _missing("lualatex is not on PATH")
    make_directory(cache, "CARD_STATE_DIR")
    try:
        with tempfile.TemporaryDirectory(prefix="card-lualatex-") as folder, _locked(cache):
            return _typeset(tex, Path(folder), [program, *_COMMAND], cache, time_limit)
    except OSError as error:
        place = error.filename or tempfile.gettempdir()
        raise TypesettingFailed(
            f"the PDF cannot be made, because {place} cannot be used: {error.strerror}; set TMPDIR or CARD_STATE_DIR "
            "to another directory"
        ) from error


def default_time_limit(tex: str) -> float:
    """The seconds that a run may take."""
    return TIME_LIMIT + TIME_PER_SHEET * tex.count(r"\begin{CardSheet}")


def _typeset(tex: str, directory: Path, command: list[str], cache: Path, time_limit: float) -> TypesetPdf:
    (directory / "card.tex").write_text(tex, "utf-8")
    code = _run(command, directory, cache, time_limit)
    log_file = directory / "card.log"
    log = log_file.read_text("utf-8", "replace") if log_file.exists() else ""
    _raise_logged_error(tex, log)
    if code:
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        raise _ended(how, directory)
    try:
        pdf = (directory / "card.pdf").read_bytes()
    except FileNotFoundError:
        raise _ended("made no PDF and reported no error", directory) from None
    named = tuple(chr(int(code, 16)) for code in _NO_GLYPH.findall(log))
    return TypesetPdf(pdf, tuple(_remarks(log)), named, log)


def _ended(how: str, directory: Path) -> TypesettingFailed:
    """Make the error for a run that ended without a logged error. A run that ends before the document begins writes no
    log. So the message quotes the end of lualatex's output, as one line of printable characters."""
    lines = (directory / _OUTPUT).read_text("utf-8", "replace").splitlines()
    text = " | ".join(filter(None, (" ".join(line.split()) for line in lines)))
    end = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text[-_MAX_QUOTED_OUTPUT:])
    wrote = f"wrote: {'…' if len(text) > _MAX_QUOTED_OUTPUT else ''}{end}" if end else "wrote nothing"
    return TypesettingFailed(f"lualatex {how}; it {wrote}; {_REMEDY}")


def _remarks(log: str) -> Iterator[str]:
    for family in dict.fromkeys(_NO_FAMILY.findall(log)):
        yield f"the font family {family} is not installed; the layout's next family, or else Noto, is used instead"
    for part, points in _TOO_HIGH.findall(log):
        yield f"{part} was {float(points) * _MM_PER_TEX_POINT:.1f} mm too high for its place and was scaled down"


_REMEDY = "for details, emit the card with --format latex and run lualatex on that file"


@contextmanager
def _locked(cache: Path) -> Iterator[None]:
    """Lock the cache. Only one run at a time may use it, because a second one could read a file that is only partly
    written."""
    with open(cache / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(command: list[str], directory: Path, cache: Path, time_limit: float) -> int:
    """Run the command and return its exit code. An interrupt or the time limit kills the process before its directory
    is removed."""
    process = None
    # A signal between the start of the process and the assignment to ``process`` would leave the process running. So
    # signals are blocked meanwhile.
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        with open(directory / _OUTPUT, "wb") as output:
            process = subprocess.Popen(
                command, cwd=directory, env=_environment(directory, cache),
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)
        return process.wait(time_limit)
    except subprocess.TimeoutExpired as error:
        raise TooSlow(f"lualatex did not finish within {time_limit:g} s and was stopped; {_REMEDY}") from error
    except PermissionError as error:
        raise _missing(f"{command[0]} cannot be run: {error.strerror}") from error
    finally:
        if process is not None:
            process.kill()
            process.wait()
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)


def _environment(directory: Path, cache: Path) -> dict[str, str]:
    """Return the environment of a run. Only PATH comes from the user. TeX's commands may access no file outside the
    run's directory; ``reading.lua`` limits which files Lua's functions may read. Lines of the log are not wrapped."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C.UTF-8",
        "openin_any": "p",
        "openout_any": "p",
        "shell_escape": "f",
        "max_print_line": "10000",
        **dict.fromkeys(("HOME", "TEXMFHOME", "TEXMFCONFIG", "TMPDIR"), str(directory)),
        **dict.fromkeys(("TEXMFVAR", "TEXMFCACHE"), str(cache)),
    }


def _raise_logged_error(tex: str, log: str) -> None:
    """Raise the first error in the log, if any."""
    error, fatal = _ERROR.search(log), _FATAL.search(log)
    if error is None and fatal is None:
        return
    message = error[2] if error else fatal[1] if fatal else ""
    if _NOT_INSTALLED.search(message):
        raise _missing(f"LaTeX reports: {message}")
    if _DISK_FULL.search(message):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), tempfile.gettempdir())
    where = place_of(tex, int(error[1])) if error else ""
    line = f" (line {error[1]})" if error else ""
    raise TypesettingFailed(
        f"LaTeX failed {f'in {where}' if where else 'before the first part'}{line}: {message}; {_REMEDY}"
    )


def _missing(reason: str) -> MissingRequirement:
    return MissingRequirement(
        f"a PDF requires LaTeX and the Noto fonts, but {reason}; to install them on Debian or Ubuntu: sudo apt-get "
        f"install {' '.join(PACKAGES)}; the formats html and latex do not require them"
    )

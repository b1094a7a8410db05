"""Runs of lualatex, which is replaced by programs that fail, hang, die or print nothing."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cardapp.cli import main
from cardapp.errors import CardAppError, MissingRequirement, TooSlow, TypesettingFailed
from cardapp.publish.lualatex import PACKAGES, TypesetPdf, default_time_limit, typeset
from tests.cardapp.layout.hostile import ROOT

TEX = "\\documentclass{article}\n% part: text t/b/p/s\nHello\n% part: code t/b/p/s\n\\oops\n"
HANGS = 'echo half >card.pdf; echo $$ >"$TEXMFVAR/pid"; exec sleep 60'
CALC = str(ROOT / "etc/cards/calc")


class Machine:
    """A PATH with a replacement for lualatex, and separate folders for its files."""

    def __init__(self, folder: Path) -> None:
        self.path, self.work, self.cache = folder / "bin", folder / "work", folder / "latex-cache"
        for made in (self.path, self.work):
            made.mkdir()

    def lualatex(self, script: str) -> None:
        program = self.path / "lualatex"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    @property
    def child_runs(self) -> bool:
        try:
            os.kill(int((self.cache / "pid").read_text()), 0)
        except (FileNotFoundError, ProcessLookupError):
            return False
        return True

    @property
    def left(self) -> list[str]:
        """The names of the files in the temporary folder."""
        return os.listdir(self.work)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine(tmp_path)
    monkeypatch.setenv("PATH", f"{found.path}:/usr/bin:/bin")
    monkeypatch.setenv("CARD_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(found.work))
    return found


def refused(machine: Machine, kind: type[CardAppError], script: str | None = None) -> str:
    if script is not None:
        machine.lualatex(script)
    with pytest.raises(kind) as caught:
        typeset(TEX, machine.cache, time_limit=20)
    assert machine.left == []
    return caught.value.detail


def emit_pdf(output: Path) -> int:
    return main(["emit", CALC, "--format", "pdf", "-o", str(output)])


def test_typesetting_returns_pdf_remarks_and_missing_characters(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = (
        "Package card Warning: no font has U+E000, which is named in its place.\n\n"
        "Package card Warning: no font has U+1F642, which is named in its place.\n\n"
        "Package card Warning: no font family Comic Sans MS.\n\n"
        "Package card Warning: text t/b/p/s is 3.5pt too high.\n"
    )
    machine.lualatex(f"cp card.tex card.pdf; cat >card.log <<'END'\n{log}END")
    remarks = (
        "the font family Comic Sans MS is not installed; the layout's next family, or else Noto, is used instead",
        "text t/b/p/s was 1.2 mm too high for its place and was scaled down",
    )
    assert typeset(TEX, machine.cache) == TypesetPdf(TEX.encode(), remarks, ("\ue000", "🙂"), log)
    assert machine.left == []
    assert emit_pdf(tmp_path / "card.pdf") == 0
    assert (tmp_path / "card.pdf").read_text().startswith("% Typeset this")
    characters = (
        "no installed font has U+E000, U+1F642; the PDF shows their code points instead. "
        "To install more fonts: sudo apt-get install fonts-noto-extra fonts-noto-cjk fonts-noto-color-emoji"
    )
    assert capsys.readouterr().err == "".join(f"cardapp: {said}\n" for said in (*remarks, characters))


def test_emit_without_a_pdf_leaves_what_was_there(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{machine.path}")
    output = tmp_path / "card.pdf"
    output.write_text("last year's")
    assert emit_pdf(output) == 3
    machine.lualatex("exit 1")
    assert emit_pdf(output) == 1
    assert output.read_text() == "last year's"
    assert machine.left == []


def test_it_runs_in_a_private_folder_with_nothing_of_the_users_environment(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEXINPUTS", "/evil")
    monkeypatch.setenv("SECRET", "x")
    machine.lualatex('env >card.pdf; stat -c %a . >card.log; echo "$@" >>card.log; pwd >>card.log')
    done = typeset(TEX, machine.cache)
    environment = dict(line.split("=", 1) for line in done.pdf.decode().splitlines())
    mode, arguments, folder = done.log.splitlines()
    assert mode == "700"
    assert "-no-shell-escape" in arguments.split()
    limits = {"openin_any": "p", "openout_any": "p", "shell_escape": "f"}
    assert environment | limits | {"HOME": folder, "TEXMFHOME": folder} == environment
    assert not {"TEXINPUTS", "SECRET"} & environment.keys()
    assert stat.S_IMODE(machine.cache.stat().st_mode) == 0o700


def test_a_missing_program_or_file_names_the_packages(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = f"sudo apt-get install {' '.join(PACKAGES)}"
    for fault in (
        "./card.tex:2: LaTeX Error: File `tikz.sty' not found.",
        '! Package fontspec Error: The font "NotoSans-Regular" cannot be found; this may be',
    ):
        assert packages in refused(machine, MissingRequirement, f"cat >card.log <<'END'\n{fault}\nEND\nexit 1")
    (machine.path / "lualatex").unlink()
    monkeypatch.setenv("PATH", str(machine.path))
    said = refused(machine, MissingRequirement)
    for words in ("lualatex is not on PATH", packages, "formats html and latex"):
        assert words in said


def test_an_error_names_its_place_in_the_card(machine: Machine) -> None:
    for fault, said in (
        ("./card.tex:5: Undefined control sequence.", "in code t/b/p/s (line 5): Undefined control sequence."),
        ("./card.tex:3: Dimension too large.", "in text t/b/p/s (line 3): Dimension too large."),
        ("./card.tex:1: Undefined control sequence.", "before the first part (line 1): Undefined control sequence."),
        ("! Emergency stop.", "before the first part: Emergency stop."),
    ):
        script = f"echo half >card.pdf; echo '{fault}' >card.log; exit 1"
        wanted = f"LaTeX failed {said}; for details, emit the card with --format latex"
        assert refused(machine, TypesettingFailed, script).startswith(wanted)


def test_an_incomplete_pdf_is_refused_with_the_output_of_the_program(machine: Machine) -> None:
    writes = "echo 'module  ×'; echo; printf 'no \\033[1mtable\\377\\n' >&2; echo last"
    wrote = "; it wrote: module × | no \ufffd[1mtable\ufffd | last; for details"
    for script, said in (
        ("echo half >card.pdf; kill -KILL $$", "lualatex was killed by SIGKILL"),
        ("echo half >card.pdf; exit 7", "lualatex ended with exit code 7"),
        ("exit 0", "lualatex made no PDF and reported no error; it wrote nothing; for details"),
        ("echo '! error:  (file io): fwrite() failed' >card.log; exit 1", "No space left on device; set TMPDIR"),
        *((f"{writes}; {ending}", wrote) for ending in ("exit 255", "exit 0", "kill -TERM $$")),
    ):
        assert said in refused(machine, TypesettingFailed, script)


def test_a_program_is_ended_at_its_time_limit(machine: Machine) -> None:
    machine.lualatex(HANGS)
    with pytest.raises(TooSlow, match=r"lualatex did not finish within 0\.5 s"):
        typeset(TEX, machine.cache, time_limit=0.5)
    assert not machine.child_runs
    assert machine.left == []
    assert default_time_limit("\\begin{CardSheet}\n" * 2) - 2 == default_time_limit("") == 120


def test_typesetting_waits_for_another_run_to_end(machine: Machine, tmp_path: Path) -> None:
    """Two simultaneous runs would write the same files of the cache."""
    machine.lualatex(
        f'mkdir {tmp_path}/busy || exit 9; sleep .2; rmdir {tmp_path}/busy; echo "$$" >card.pdf; echo >card.log'
    )
    code = (
        "import sys; from pathlib import Path; from cardapp.publish.lualatex import typeset; "
        "typeset('', Path(sys.argv[1]))"
    )
    runs = [subprocess.Popen([sys.executable, "-P", "-c", code, machine.cache], cwd=ROOT) for _ in range(2)]
    assert isinstance(typeset("", machine.cache), TypesetPdf)
    assert [run.wait(60) for run in runs] == [0, 0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_program_and_leaves_nothing(machine: Machine, number: int, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "begun")
    machine.lualatex(f"{HANGS.rpartition(';')[0]}; echo >'{tmp_path}/begun'; exec sleep 60")
    output = tmp_path / "out" / "card.pdf"
    output.parent.mkdir()
    command = [sys.executable, "-P", "-m", "cardapp", "emit", CALC, "--format", "pdf", "-o", str(output)]
    environment = os.environ | {"TMPDIR": str(machine.work)}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE) as running:
        (tmp_path / "begun").read_text()  # waits for the program
        running.send_signal(number)
        assert running.wait(60) == 130
        assert running.stderr is not None
        assert running.stderr.read() == b""
    assert not machine.child_runs
    assert machine.left == []
    assert os.listdir(output.parent) == []

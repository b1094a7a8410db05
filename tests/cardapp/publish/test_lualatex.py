"""Runs of lualatex, which is replaced by programs that fail, hang, die or print nothing."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from cardapp.cli import main
from cardapp.errors import CardAppError, MissingRequirement, TooSlow, TypesettingFailed
from cardapp.publish.lualatex import PACKAGES, TypesetPdf, typeset
from tests.cardapp.layout.hostile import ROOT

TEX = "\\documentclass{article}\n% part: text t/b/p/s\nHello\n% part: code t/b/p/s\n\\oops\n"
HANGS = 'echo $$ >"$TEXMFVAR/new"; mv "$TEXMFVAR/new" "$TEXMFVAR/pid"; echo half >card.pdf; exec sleep 60'


class Machine:
    """A PATH with a replacement for lualatex, and separate folders for its files."""

    def __init__(self, folder: Path) -> None:
        self.path, self.work, self.cache = folder / "bin", folder / "work", folder / "cache"
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
        except ProcessLookupError:
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
    monkeypatch.setattr(tempfile, "tempdir", str(found.work))
    return found


def refused(machine: Machine, kind: type[CardAppError], *, tex: str = TEX) -> str:
    with pytest.raises(kind) as caught:
        typeset(tex, machine.cache, time_limit=20)
    assert machine.left == []
    return caught.value.detail


def test_typesetting_returns_pdf_remarks_and_missing_characters(machine: Machine) -> None:
    log = (
        "Package card Warning: no font has U+E000, which is named in its place.\n\n"
        "Package card Warning: no font has U+1F642, which is named in its place.\n\n"
        "Package card Warning: no font family Comic Sans MS.\n\n"
        "Package card Warning: text t/b/p/s is 3.5pt too high.\n"
    )
    machine.lualatex(f"cp card.tex card.pdf; cat >card.log <<'END'\n{log}END")
    done = typeset(TEX, machine.cache)
    remarks = (
        "the font family Comic Sans MS is not installed; the layout's next family, or else Noto, is used instead",
        "text t/b/p/s was 1.2 mm too high for its place and was scaled down",
    )
    assert done == TypesetPdf(TEX.encode(), remarks, ("\ue000", "🙂"), log)
    assert machine.left == []


def test_emit_reports_missing_characters_and_texts_that_are_too_high(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CARD_STATE_DIR", str(tmp_path / "state"))
    machine.lualatex(
        "echo done >card.pdf; cat >card.log <<'END'\n"
        "Package card Warning: no font has U+1F642, which is named in its place.\n"
        "Package card Warning: text t/b/p/s is 3.5pt too high.\nEND"
    )
    output = tmp_path / "card.pdf"
    assert main(["emit", str(ROOT / "etc/cards/calc"), "--format", "pdf", "-o", str(output)]) == 0
    assert output.read_text() == "done\n"
    assert capsys.readouterr().err == (
        "cardapp: text t/b/p/s was 1.2 mm too high for its place and was scaled down\n"
        "cardapp: no installed font has U+1F642; the PDF shows their code points instead. "
        "To install more fonts: sudo apt-get install fonts-noto-extra fonts-noto-cjk fonts-noto-color-emoji\n"
    )


@pytest.mark.parametrize(("script", "code"), [(None, 3), ("exit 1", 1)])
def test_emit_without_a_pdf_leaves_what_was_there(
    machine: Machine, script: str | None, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARD_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", f"{machine.path}")
    if script is not None:
        machine.lualatex(script)
    output = tmp_path / "card.pdf"
    output.write_text("last year's")
    assert main(["emit", str(ROOT / "etc/cards/calc"), "--format", "pdf", "-o", str(output)]) == code
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
    assert {name: environment[name] for name in ("openin_any", "openout_any", "shell_escape")} == {
        "openin_any": "p",
        "openout_any": "p",
        "shell_escape": "f",
    }
    assert environment["HOME"] == environment["TEXMFHOME"] == folder
    assert not {"TEXINPUTS", "SECRET"} & environment.keys()
    assert stat.S_IMODE(machine.cache.stat().st_mode) == 0o700


def test_without_lualatex_its_packages_are_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(machine.path))
    said = refused(machine, MissingRequirement)
    assert "lualatex is not on PATH" in said
    assert f"sudo apt-get install {' '.join(PACKAGES)}" in said
    assert "formats html and latex" in said


@pytest.mark.parametrize(
    "fault",
    [
        "./card.tex:2: LaTeX Error: File `tikz.sty' not found.",
        '! Package fontspec Error: The font "NotoSans-Regular" cannot be found; this may be',
    ],
)
def test_a_missing_file_of_latex_names_the_packages_too(machine: Machine, fault: str) -> None:
    machine.lualatex(f"cat >card.log <<'END'\n{fault}\nEND\nexit 1")
    assert f"sudo apt-get install {' '.join(PACKAGES)}" in refused(machine, MissingRequirement)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("./card.tex:5: Undefined control sequence.", "in code t/b/p/s (line 5): Undefined control sequence."),
        ("./card.tex:3: Dimension too large.", "in text t/b/p/s (line 3): Dimension too large."),
        ("./card.tex:1: Undefined control sequence.", "before the first part (line 1): Undefined control sequence."),
        ("! Emergency stop.", "before the first part: Emergency stop."),
    ],
)
def test_an_error_names_its_place_in_the_card(machine: Machine, fault: str, said: str) -> None:
    machine.lualatex(f"echo half >card.pdf; echo '{fault}' >card.log; exit 1")
    assert refused(machine, TypesettingFailed).startswith(
        f"LaTeX failed {said}; for details, emit the card with --format latex"
    )


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo half >card.pdf; kill -KILL $$", "lualatex was killed by SIGKILL"),
        ("echo half >card.pdf; exit 7", "lualatex ended with exit code 7"),
        ("exit 0", "lualatex made no PDF and reported no error; it wrote nothing; for details"),
        ("echo '! error:  (file io): fwrite() failed' >card.log; exit 1", "No space left on device; set TMPDIR"),
    ],
)
def test_an_incomplete_pdf_is_refused(machine: Machine, script: str, said: str) -> None:
    machine.lualatex(script)
    assert said in refused(machine, TypesettingFailed)


@pytest.mark.parametrize("ending", ["exit 255", "exit 0", "kill -TERM $$"])
def test_the_message_has_the_output_of_the_program(machine: Machine, ending: str) -> None:
    machine.lualatex(f"echo 'module  ×'; echo; printf 'no \\033[1mtable\\377\\n' >&2; echo last; {ending}")
    assert "; it wrote: module × | no \ufffd[1mtable\ufffd | last; for details" in refused(machine, TypesettingFailed)


def test_an_error_has_the_end_of_long_output(machine: Machine) -> None:
    machine.lualatex("for i in $(seq 5000); do echo $i; done; exit 1")
    said = refused(machine, TypesettingFailed)
    assert "; it wrote: …" in said
    assert " | 4999 | 5000; for details" in said
    assert len(said) < 2000


def test_a_program_that_cannot_be_run_is_named(machine: Machine) -> None:
    machine.lualatex("")
    (machine.path / "lualatex").write_text("#!/nowhere/sh\n")
    assert "lualatex" in refused(machine, TypesettingFailed)


def test_a_folder_that_cannot_be_written_is_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.lualatex("")
    monkeypatch.setattr(tempfile, "tempdir", str(machine.work / "gone"))
    said = refused(machine, TypesettingFailed)
    assert str(machine.work / "gone") in said
    assert "TMPDIR" in said


def test_a_program_is_ended_at_its_time_limit(machine: Machine) -> None:
    machine.lualatex(HANGS)
    with pytest.raises(TooSlow, match=r"lualatex did not finish within 0\.5 s"):
        typeset(TEX, machine.cache, time_limit=0.5)
    assert not machine.child_runs
    assert machine.left == []


def test_more_sheets_may_take_longer(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cardapp.publish.lualatex.TIME_LIMIT", 0.25)
    monkeypatch.setattr("cardapp.publish.lualatex.TIME_PER_SHEET", 0.125)
    machine.lualatex(HANGS)
    with pytest.raises(TooSlow, match=r"within 0\.5 s"):
        typeset("\\begin{CardSheet}\n" * 2, machine.cache)


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
    assert [run.wait(20) for run in runs] == [0, 0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_program_and_leaves_nothing(machine: Machine, number: int, tmp_path: Path) -> None:
    machine.lualatex(HANGS)
    output = tmp_path / "out" / "card.pdf"
    output.parent.mkdir()
    command = ["emit", str(ROOT / "etc/cards/calc"), "--format", "pdf", "-o", str(output)]
    places = {"CARD_STATE_DIR": str(tmp_path), "TMPDIR": str(machine.work)}
    running = subprocess.Popen(
        [sys.executable, "-P", "-m", "cardapp", *command], cwd=ROOT, env=os.environ | places, stderr=subprocess.PIPE
    )
    with running:
        machine.cache = tmp_path / "latex-cache"
        deadline = time.monotonic() + 30
        while not (machine.cache / "pid").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        running.send_signal(number)
        assert running.wait(20) == 130
        assert running.stderr is not None
        assert running.stderr.read() == b""
    assert not machine.child_runs
    assert machine.left == []
    assert os.listdir(output.parent) == []

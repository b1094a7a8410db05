"""The export writes a file completely or not at all, and its message names the file."""

from __future__ import annotations

import os
import re
import resource
import signal
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cardapp.card.catalog import Catalog
from cardapp.card.source import load_card
from cardapp.cli import FORMATS, main
from cardapp.publish.export import EMITTERS
from cardapp.state import explanations
from cardapp.state.database import Database
from tests.cardapp.layout.hostile import ROOT

CALC = str(ROOT / "etc" / "cards" / "calc")
EMIT = ("emit", CALC, "--format", "latex")
TYPESET_THIS = "% Typeset this file with one run of lualatex"


def emit(*options: str, form: str = "latex") -> int:
    return main(["emit", CALC, "--format", form, *options])


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-B", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, **options)


def test_a_format_goes_to_a_file_or_to_standard_output(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert tuple(EMITTERS) == FORMATS
    for form, begins in (("html", "<!DOCTYPE html>"), ("latex", TYPESET_THIS)):
        output = tmp_path / "card"
        assert emit("-o", str(output), form=form) == 0
        assert capfdbinary.readouterr() == (b"", b"")
        assert output.read_text("utf-8").startswith(begins)
        assert emit("-o", "-", form=form) == 0
        assert capfdbinary.readouterr().out == output.read_bytes()
        assert emit(form=form) == 0
        assert capfdbinary.readouterr().out == output.read_bytes()


def test_the_layout_is_the_cards_or_the_one_that_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own, named = tmp_path / "own", tmp_path / "named"
    assert emit("-o", str(own)) == emit("--layout", "karta-5b", "-o", str(named)) == 0
    assert r"\paperwidth=210mm" in own.read_text("utf-8")
    assert r"\paperwidth=297mm" in named.read_text("utf-8")
    assert emit("--layout", "karta-nope") == 2
    assert capsys.readouterr().err == (
        "cardapp: there is no layout 'karta-nope'; known: karta-5a, karta-5b, karta-blank, karta-classic, "
        "karta-mixed; to use a layout file, give its name with the suffix .json\n"
    )
    assert emit("--layout", f"{tmp_path}/") == main(["layouts", str(tmp_path)]) == 2
    said = f"cardapp: {tmp_path} is a folder: name a layout file, which ends with .json\n"
    assert capsys.readouterr().err == said * 2


def test_the_annotations_that_the_page_shows_are_drawn_on_request(
    state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CARD_STATE_DIR", str(state_dir))
    loaded = load_card(CALC)
    step = next(iter(Catalog(loaded.card).steps))
    with closing(Database.open(state_dir / "card-state")) as database, database.write() as tx:
        for part, text, visible in (
            (f"{step}:text", "Seen", True), (f"{step}:text", "Not seen", False), ("t:code", "Lost", True)
        ):  # fmt: skip
            record = {
                "strategy_id": None, "target": {"part": part, "x": 0, "y": 0, "w": 1, "h": 1},
                "geometry": {"points": [[0, 0], [1, 1]]}, "style": {"kind": "box"}, "text": text, "visible": visible,
            }  # fmt: skip
            explanations.add_annotation(tx, loaded.identity.uuid, f"{step}/x", record)
    for form in ("html", "latex"):
        plain, explained = tmp_path / f"plain.{form}", tmp_path / f"explained.{form}"
        assert emit("-o", str(plain), form=form) == emit("--annotations", "-o", str(explained), form=form) == 0
        assert "the annotation of t:code is left out: these sheets have no such part" in capsys.readouterr().err
        texts = re.findall(r"[>{]((?:Not s|S)een|Lost)[<}]", explained.read_text("utf-8"))
        assert texts == ["Seen"]
        assert "Seen<" not in plain.read_text("utf-8")


def test_an_existing_file_is_replaced_and_keeps_its_mode_and_links(tmp_path: Path) -> None:
    old, link = tmp_path / "old.tex", tmp_path / "link.tex"
    old.write_text("old")
    old.chmod(0o604)
    link.symlink_to(old)
    assert emit("-o", str(link)) == 0
    assert link.is_symlink()
    assert old.read_text("utf-8").startswith(TYPESET_THIS)
    assert stat.S_IMODE(old.stat().st_mode) == 0o604
    assert sorted(os.listdir(tmp_path)) == ["link.tex", "old.tex"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "folder").mkdir()
    for output, said in (
        ("none/card.tex", "No such file or directory"),
        ("file/card.tex", "Not a directory"),
        ("folder", "Is a directory"),
        ("/dev/full", "No space left on device"),
    ):
        place = str(tmp_path / output)
        assert emit("-o", place) == 2
        assert capsys.readouterr().err == f"cardapp: {place} cannot be written: {said}\n"
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_a_full_disk_leaves_the_existing_file_unchanged(tmp_path: Path) -> None:
    output = tmp_path / "card.tex"
    for before in (None, "the sheets of last year"):
        if before is not None:
            output.write_text(before)
        limit = (50_000, 50_000)
        done = run(
            "-m", "cardapp", *EMIT, "-o", str(output),
            preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (2, f"cardapp: {output} cannot be written: File too large\n")
        assert os.listdir(tmp_path) == ([] if before is None else ["card.tex"])
        assert before is None or output.read_text() == before


def test_a_closed_pipe_or_output_is_no_error() -> None:
    for command in (EMIT, ("layouts",)):
        with subprocess.Popen(
            [sys.executable, "-P", "-m", "cardapp", *command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as running:
            assert running.stdout is not None
            assert running.stderr is not None
            running.stdout.close()
            assert running.stderr.read() == b""
            assert running.wait(60) == 128 + signal.SIGPIPE
    command = f"exec {sys.executable} -P -m cardapp layouts >&-"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_answer_key_is_an_output_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / "card.tex", tmp_path / "key.tex"]
    assert [emit("-o", str(files[0])), emit("--answer-key", "-o", str(files[1]))] == [0, 0]
    card, key = (file.read_text() for file in files)
    explanation = "The cursor is 0 and stands on the first of the two blanks."
    assert (explanation in card, explanation in key) == (False, True)
    assert key.count(r"\begin{CardSheet}") < card.count(r"\begin{CardSheet}") / 3
    with pytest.raises(SystemExit, match="2"):
        emit("--answer-key", "--layout", "karta-5a")
    assert "argument --layout: not allowed with argument --answer-key" in capsys.readouterr().err


def test_a_pdf_is_not_sent_to_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert emit(form="pdf") == 2
    said = "cardapp: a PDF cannot be written to a terminal: name a file with -o FILE, or redirect the output\n"
    assert capsys.readouterr() == ("", said)
    assert emit(form="latex") == 0

"""A build rebuilds only stale files, has a time limit, and can be cancelled."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cardapp.card.model import Target
from cardapp.session_host.workspace import MAX_OUTPUT, BuildCancelled, BuildFailed, Workspace
from tests.functional.session_process import alive, eventually


def place(folder: Path, *build: str) -> Workspace:
    (folder / "a.c").write_text("int a;\n")
    record = folder.parent / f"{folder.name}.built.json"
    return Workspace(folder, folder, record, Target("t", ".", build or ("sh", "-c", "touch prog"), "prog", ("a.c",)))


def cancel_when(condition: Callable[[], object]) -> threading.Event:
    """An event that is set as soon as the condition holds."""
    cancel = threading.Event()

    def wait() -> None:
        eventually(condition)
        cancel.set()

    threading.Thread(target=wait).start()
    return cancel


def test_a_missing_program_is_stale_and_a_built_one_is_not(tmp_path: Path) -> None:
    here = place(tmp_path)
    assert here.is_stale()
    here.build(10)
    assert not here.is_stale()


def test_a_newer_source_or_makefile_makes_it_stale(tmp_path: Path) -> None:
    here = place(tmp_path)
    (tmp_path / "Makefile").write_text("")
    for name in ("a.c", "Makefile"):
        here.build(30)
        assert not here.is_stale()
        built = here.program.stat().st_mtime_ns
        os.utime(tmp_path / name, ns=(built + 1, built + 1))
        assert here.is_stale(), name
        os.utime(tmp_path / name, ns=(built, built))


def test_a_build_returns_its_output(tmp_path: Path) -> None:
    assert place(tmp_path, "sh", "-c", "echo said; echo so >&2; touch prog").build(10) == "said\nso\n"


def test_only_the_beginning_of_endless_output_is_kept(tmp_path: Path) -> None:
    here = place(tmp_path, "sh", "-c", "echo first; head -c 50000000 /dev/zero; touch prog")
    tracemalloc.start()
    try:
        output = here.build(60)
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert output.startswith("first\n")
    assert len(output) == MAX_OUTPUT
    assert held < 5_000_000


def test_a_failure_has_its_output_or_its_reason(tmp_path: Path) -> None:
    for command, seconds, reason in (
        (("sh", "-c", "echo 'a.c:1: no good' >&2; exit 2"), 30, r"a\.c:1: no good"),
        (("true",), 30, "made no prog"),
        (("no-such-maker",), 30, "no-such-maker"),
        (("sleep", "1000"), 0.5, r"longer than 0\.5 s \(target\.build_timeout_s\)"),
    ):
        with pytest.raises(BuildFailed, match=reason):
            place(tmp_path, *command).build(seconds)


def test_a_build_is_cancelled_with_its_children(tmp_path: Path) -> None:
    """Also with those that have left its group."""
    child = tmp_path / "child"
    for shell in ("sh", "setsid sh"):
        child.unlink(missing_ok=True)
        here = place(tmp_path, "sh", "-c", f"{shell} -c 'echo $$ > child; exec sleep 1000'; true")
        with pytest.raises(BuildCancelled):
            here.build(60, cancel_when(lambda: child.exists() and child.read_text()))
        eventually(lambda: not alive(int(child.read_text())))


def test_a_build_uses_no_file_of_a_killed_build(tmp_path: Path) -> None:
    here = place(tmp_path, "make", "-s")
    makefile = tmp_path / "Makefile"
    makefile.write_text("prog: a.o\n\tcp a.o prog\na.o: a.c\n\tprintf in > a.o; printf in > prog; sleep 1000\n")
    with pytest.raises(BuildCancelled):
        here.build(60, cancel_when(lambda: here.program.exists() and here.program.read_text() == "in"))
    written = here.program.stat().st_mtime
    makefile.write_text(makefile.read_text().replace("printf in > a.o; printf in > prog; sleep 1000", "cp a.c a.o"))
    os.utime(makefile, (written - 9, written - 9))
    os.utime(tmp_path / "a.c", (written - 9, written - 9))
    assert here.is_stale()
    here.build(10)
    assert here.program.read_text() == "int a;\n"
    assert not here.is_stale()


def test_a_build_that_was_killed_with_its_caller_is_ended_and_made_again(tmp_path: Path) -> None:
    """SIGKILL ends only the process that called the build: make continues until the next build ends it."""
    here = place(tmp_path, "sh", "-c", "echo half > prog; setsid sh -c 'echo $$ > child; exec sleep 1000'")
    code = "import pickle, sys; pickle.load(sys.stdin.buffer).build(60)"
    with subprocess.Popen([sys.executable, "-P", "-c", code], stdin=subprocess.PIPE) as caller:
        try:
            caller.communicate(pickle.dumps(here), timeout=0.1)
        except subprocess.TimeoutExpired:
            eventually(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text())
        finally:
            caller.kill()
    assert here.program.read_text() == "half\n"
    assert here.is_stale()
    whole = replace(here, target=replace(here.target, build=("sh", "-c", "echo whole > prog")))
    assert whole.is_stale()
    whole.build(30)
    eventually(lambda: not alive(int((tmp_path / "child").read_text())))
    assert whole.program.read_text() == "whole\n"
    assert not whole.is_stale()
    assert here.is_stale()  # its command differs

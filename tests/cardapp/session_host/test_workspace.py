"""The copy of the sources never loses an edit. A build does only what is stale, is bounded, and can be cancelled."""

from __future__ import annotations

import os
import threading
import time
import tracemalloc
from pathlib import Path

import pytest

from cardapp.card.model import Target
from cardapp.session_host.workspace import MAX_OUTPUT, BuildCancelled, BuildFailed, SourcesUnusable, Workspace, fetch

# -- the sources ---------------------------------------------------------------------------------------------------

TARGET = Target("t", "src", ("make",), "build/t", (), ("a.c", "lib/b.c"))


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    for name in ("a.c", "lib/b.c", "Makefile", "build/t", "build/a.o", "old.o", "a.d", ".hidden/c.c", ".x"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{name}\n")
    return folder


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "work"


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} - {".fetched.json"}


def test_a_first_fetch_takes_all_but_what_is_built_or_hidden(origin: Path, copy: Path) -> None:
    done = fetch(origin, copy, TARGET, replace_edits=False)
    assert files(copy) == {"a.c", "lib/b.c", "Makefile"}
    assert sorted(done.updated) == ["Makefile", "a.c", "lib/b.c"]


def test_a_program_beside_the_sources_is_not_taken(origin: Path, copy: Path) -> None:
    (origin / "prog").write_text("binary")
    fetch(origin, copy, Target("t", "src", ("make",), "prog", (), ("a.c",)), replace_edits=False)
    assert "prog" not in files(copy)
    assert "build/t" in files(copy)


def test_an_untouched_file_follows_its_original(origin: Path, copy: Path) -> None:
    fetch(origin, copy, TARGET, replace_edits=False)
    (origin / "a.c").write_text("new\n")
    assert fetch(origin, copy, TARGET, replace_edits=False).updated == ["a.c"]
    assert (copy / "a.c").read_text() == "new\n"


def test_a_fetch_without_changes_writes_nothing(origin: Path, copy: Path) -> None:
    fetch(origin, copy, TARGET, replace_edits=True)
    before = (copy / "a.c").stat().st_mtime_ns
    done = fetch(origin, copy, TARGET, replace_edits=True)
    assert (done.updated, done.kept, done.backups) == ([], [], {})
    assert (copy / "a.c").stat().st_mtime_ns == before


def test_an_edit_stays_when_edits_are_kept(origin: Path, copy: Path) -> None:
    fetch(origin, copy, TARGET, replace_edits=False)
    (copy / "a.c").write_text("mine\n")
    (origin / "a.c").write_text("theirs\n")
    for _ in range(2):
        done = fetch(origin, copy, TARGET, replace_edits=False)
        assert (done.kept, done.updated) == (["a.c"], [])
        assert (copy / "a.c").read_text() == "mine\n"


def test_an_edit_is_set_aside_when_edits_are_replaced(origin: Path, copy: Path) -> None:
    fetch(origin, copy, TARGET, replace_edits=False)
    for number, backup in ((1, "b.c.orig"), (2, "b.c.orig2"), (3, "b.c.orig3")):
        (copy / "lib/b.c").write_text(f"mine {number}\n")
        done = fetch(origin, copy, TARGET, replace_edits=True)
        assert done.backups == {"lib/b.c": backup}
        assert (copy / "lib" / backup).read_text() == f"mine {number}\n"
        assert (copy / "lib/b.c").read_text() == "lib/b.c\n"


def test_without_the_manifest_every_difference_counts_as_an_edit(origin: Path, copy: Path) -> None:
    fetch(origin, copy, TARGET, replace_edits=False)
    (copy / ".fetched.json").write_text("damaged")
    (origin / "a.c").write_text("new\n")
    assert fetch(origin, copy, TARGET, replace_edits=False).kept == ["a.c"]


def test_a_deleted_file_is_copied_again(origin: Path, copy: Path) -> None:
    fetch(origin, copy, TARGET, replace_edits=False)
    (copy / "a.c").unlink()
    assert fetch(origin, copy, TARGET, replace_edits=False).updated == ["a.c"]


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourcesUnusable, match=r"target\.directory"):
        fetch(tmp_path / "none", tmp_path / "work", TARGET, replace_edits=False)


# -- the build -----------------------------------------------------------------------------------------------------


def place(folder: Path, *build: str) -> Workspace:
    (folder / "a.c").write_text("int a;\n")
    return Workspace(folder, Target("t", ".", build or ("sh", "-c", "touch prog"), "prog", (), ("a.c",)))


def test_a_missing_program_is_stale_and_a_built_one_is_not(tmp_path: Path) -> None:
    here = place(tmp_path)
    assert here.is_stale()
    here.build(10)
    assert not here.is_stale()


@pytest.mark.parametrize("name", ["a.c", "Makefile"])
def test_a_newer_source_or_makefile_makes_it_stale(tmp_path: Path, name: str) -> None:
    here = place(tmp_path)
    (tmp_path / "Makefile").write_text("")
    here.build(10)
    built = here.program.stat().st_mtime_ns
    os.utime(tmp_path / name, ns=(built + 1, built + 1))
    assert here.is_stale()


def test_an_edit_is_built_though_the_clock_was_set_back(tmp_path: Path) -> None:
    """The files that were built before have a time in the future, so make takes them for newer than the edit."""
    here = place(tmp_path, "make", "-s")
    (tmp_path / "Makefile").write_text("prog: a.o\n\tcp a.o prog\na.o: a.c\n\tcp a.c a.o\n")
    here.build(10)
    for name in ("prog", "a.o"):
        os.utime(tmp_path / name, (time.time() + 3600,) * 2)
    (tmp_path / "a.c").write_text("int b;\n")
    assert here.is_stale()
    here.build(10)
    assert here.program.read_text() == "int b;\n"
    assert not here.is_stale()


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


def test_a_failure_carries_the_output(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match=r"a\.c:1: no good"):
        place(tmp_path, "sh", "-c", "echo 'a.c:1: no good' >&2; exit 2").build(10)


def test_a_build_without_a_program_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match="made no prog"):
        place(tmp_path, "true").build(10)


def test_a_missing_build_command_is_named(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match="no-such-maker"):
        place(tmp_path, "no-such-maker").build(10)


def test_an_endless_build_is_ended_with_its_children(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match="longer than"):
        place(tmp_path, "sh", "-c", "sh -c 'echo $$ > child; exec sleep 1000'; true").build(0.5)
    assert_gone(int((tmp_path / "child").read_text()))


def test_a_build_is_cancelled_with_its_children(tmp_path: Path) -> None:
    cancel = threading.Event()
    here = place(tmp_path, "sh", "-c", "sh -c 'echo $$ > child; exec sleep 1000'; true")
    threading.Timer(0.3, cancel.set).start()
    with pytest.raises(BuildCancelled):
        here.build(60, cancel)
    assert_gone(int((tmp_path / "child").read_text()))


def test_a_build_uses_no_file_of_a_killed_build(tmp_path: Path) -> None:
    here = place(tmp_path, "make", "-s")
    makefile = tmp_path / "Makefile"
    makefile.write_text("prog: a.o\n\tcp a.o prog\na.o: a.c\n\tprintf in > a.o; printf in > prog; sleep 1000\n")
    with pytest.raises(BuildFailed, match="longer than"):
        here.build(0.3)
    written = here.program.stat().st_mtime
    makefile.write_text(makefile.read_text().replace("printf in > a.o; printf in > prog; sleep 1000", "cp a.c a.o"))
    os.utime(makefile, (written - 9, written - 9))
    os.utime(tmp_path / "a.c", (written - 9, written - 9))
    assert here.is_stale()
    here.build(10)
    assert here.program.read_text() == "int a;\n"
    assert not here.is_stale()


def assert_gone(pid: int) -> None:
    deadline = time.monotonic() + 10
    pause = threading.Event()
    while _runs(pid):
        assert time.monotonic() < deadline
        pause.wait(0.01)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False

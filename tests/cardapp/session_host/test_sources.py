"""The session's copy of the sources: it follows the originals and never loses an edit."""

from __future__ import annotations

from pathlib import Path

import pytest

from cardapp.card.model import Target
from cardapp.session_host.sources import SourcesUnusable, fetch

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


def test_nothing_to_do_does_nothing(origin: Path, copy: Path) -> None:
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


def test_without_its_notes_every_difference_counts_as_an_edit(origin: Path, copy: Path) -> None:
    fetch(origin, copy, TARGET, replace_edits=False)
    (copy / ".fetched.json").write_text("damaged")
    (origin / "a.c").write_text("new\n")
    assert fetch(origin, copy, TARGET, replace_edits=False).kept == ["a.c"]


def test_a_deleted_file_is_copied_again(origin: Path, copy: Path) -> None:
    fetch(origin, copy, TARGET, replace_edits=False)
    (copy / "a.c").unlink()
    assert fetch(origin, copy, TARGET, replace_edits=False).updated == ["a.c"]


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourcesUnusable, match=r"target\.directory"):
        fetch(tmp_path / "none", tmp_path / "work", TARGET, replace_edits=False)

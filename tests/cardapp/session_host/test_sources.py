"""The session's copy of a card's sources: what is copied, and that no edit is lost."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from cardapp.card.source import load_card
from cardapp.session_host.sources import Fetched, SourcesUnusable, fetch
from cardapp.session_host.workspace import FILE_TIME_LAG, Workspace
from tests.capabilities import need_program
from tests.cardapp.card.conftest import small_source

ENOUGH = 1 << 30


class Sources:
    """A card whose sources are in ``src``, and a session's copy of them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.origin = folder, folder / "src"
        self._target: dict[str, Any] = {"sources": ["a.c"]}
        for name in ("a.c", "lib/b.c", "Makefile", "build/t", "build/a.o", ".hidden/c.c", ".x"):
            self.write(name, f"{name}\n")
        self.card(directory="src", program="build/t")

    def write(self, name: str, text: str) -> None:
        (self.origin / name).parent.mkdir(parents=True, exist_ok=True)
        (self.origin / name).write_text(text)

    def card(self, at: str = ".", **target: Any) -> None:
        document = small_source()
        self._target |= target
        document["target"] |= self._target
        (self.folder / at).mkdir(parents=True, exist_ok=True)
        self.loaded = self.folder / at / "card_source.json"
        self.loaded.write_text(json.dumps(document))

    @property
    def copy(self) -> Path:
        return self.folder / "state" / "work"

    def fetch(self, *, replace_edits: bool = False, max_bytes: int = ENOUGH) -> Fetched:
        loaded = load_card(self.loaded)
        directory = self.copy / loaded.target_directory.relative_to(loaded.root)
        self.workspace = Workspace.of(loaded, directory, self.folder / "state" / "built.json")
        return fetch(
            loaded, self.workspace, replace_edits=replace_edits, max_bytes=max_bytes, without=(self.folder / "state",)
        )

    def built(self, script: str = "mkdir -p build; touch build/t", cancel: threading.Event | None = None) -> None:
        """Fetch, and build with a shell."""
        self.card(build=["sh", "-c", script])
        self.fetch()
        self.workspace.build(60, cancel)

    def git(self, *arguments: str) -> None:
        need_program("git")
        identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", self.folder, *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return Sources(tmp_path)


def files(folder: Path) -> set[str]:
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_symlink() or path.is_file()}
    return found - {".fetched.json"}


def test_without_git_every_file_but_the_program_is_copied(sources: Sources) -> None:
    report = sources.fetch()
    assert files(sources.copy) == {"a.c", "lib/b.c", "Makefile", "build/a.o", ".hidden/c.c", ".x"}
    assert set(report.updated) == files(sources.copy)


def test_with_git_what_is_tracked_or_not_ignored_is_copied(sources: Sources) -> None:
    (sources.folder / ".gitignore").write_text("*.o\nwork\n")
    sources.git("init", "-q")
    sources.git("add", "-f", "src/build/a.o", "src/a.c")
    sources.write("lib/ignored.o", "")
    sources.write("lib/with\nnewline.c", "")
    (sources.origin / "Makefile").unlink()
    sources.fetch()
    assert files(sources.copy) == {"a.c", "lib/b.c", "lib/with\nnewline.c", "build/a.o", ".hidden/c.c", ".x"}


def test_the_root_above_the_card_is_copied_with_links_that_stay_inside(sources: Sources) -> None:
    sources.git("init", "-q")
    (sources.folder / ".gitignore").write_text("work\n")
    (sources.folder / "include").mkdir()
    (sources.folder / "include" / "a.h").write_text("int a;\n")
    os.symlink("../../include", sources.origin / "lib" / "include")
    os.symlink("nowhere", sources.origin / "dangling")
    sources.card("docs/card", root="../..", directory="../../src", program="prog/t")
    sources.fetch()
    assert sources.workspace.directory == sources.copy / "src"
    assert sources.workspace.root == sources.copy
    assert (sources.copy / "src/lib/include").readlink() == Path("../../include")
    assert (sources.copy / "src/lib/include/a.h").read_text() == "int a;\n"
    assert (sources.copy / "src/dangling").readlink() == Path("nowhere")
    assert (sources.copy / "src/build/t").exists()
    assert (sources.copy / "docs/card/card_source.json").exists()
    assert sources.fetch().updated == []
    (sources.origin / "dangling").unlink()
    os.symlink("a.c", sources.origin / "dangling")
    assert sources.fetch().updated == ["src/dangling"]
    assert (sources.copy / "src/dangling").readlink() == Path("a.c")


def test_the_file_of_a_link_that_leaves_the_root_is_copied(sources: Sources) -> None:
    (sources.folder / "outside").write_text("it")
    os.symlink("..", sources.origin / "through")
    os.symlink("/nowhere", sources.origin / "gone")
    texts = (__file__, "../../outside", "../through/outside")
    for number, text in enumerate(texts):
        os.symlink(text, sources.origin / "lib" / f"link{number}")
    sources.fetch()
    for number, text in enumerate(texts):
        copied = sources.copy / "lib" / f"link{number}"
        assert not copied.is_symlink(), text
        assert copied.read_text() == (sources.origin / "lib" / f"link{number}").read_text()
    assert not os.path.lexists(sources.copy / "through")
    assert not os.path.lexists(sources.copy / "gone")


def test_the_state_directory_is_no_source(sources: Sources) -> None:
    sources.card(root=".", directory="src", program="build/t")
    sources.fetch()
    sources.write("b.c", "")
    (sources.folder / "state" / "card-state").write_text("")
    report = sources.fetch()
    assert report.updated == ["src/b.c"]


def test_a_copied_object_file_is_older_than_every_source(sources: Sources) -> None:
    """The object names the folder in which it was compiled, so make must build it again."""
    for name, content in (("a.o", b"\x7fELF.."), ("lib.a", b"!<arch>\n"), ("lib.so.1", b"\x7fELF.."), ("a.lo", b"#")):
        (sources.origin / name).write_bytes(content)
    for _ in range(2):
        sources.fetch()
        for name in ("a.o", "lib.a", "lib.so.1", "a.lo"):
            assert (sources.copy / name).stat().st_mtime == 0
            (sources.origin / name).write_bytes((sources.origin / name).read_bytes() + b".")
    assert (sources.copy / "a.c").stat().st_mtime > 0


def test_a_link_in_the_copy_is_never_followed(tmp_path: Path) -> None:
    """A program in a container can write to the copy."""
    for name in ("lib", "lib/b.c", "lib/b.c.fetching", ".fetched.json.fetching", "work"):
        sources = Sources(tmp_path / name.replace("/", " "))
        sources.fetch()
        outside = sources.folder / "outside"
        (outside / "lib").mkdir(parents=True)
        for file in ("b.c", "lib/b.c"):
            (outside / file).write_text("theirs")
        place = sources.copy if name == "work" else sources.copy / name
        shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
        place.symlink_to(outside / "lib/b.c" if place.suffix else outside)
        sources.write("lib/b.c", "new\n")
        with contextlib.suppress(SourcesUnusable):
            sources.fetch(replace_edits=True)
        assert (outside / "b.c").read_text() == (outside / "lib/b.c").read_text() == "theirs", name
        assert sorted(path.name for path in outside.rglob("*")) == ["b.c", "b.c", "lib"], name


def test_a_missing_directory_and_a_root_above_the_repository_are_refused(sources: Sources) -> None:
    sources.card(directory="none")
    with pytest.raises(SourcesUnusable, match=r"target\.directory"):
        sources.fetch()
    (sources.folder / "repository" / "src").mkdir(parents=True)
    need_program("git")
    subprocess.run(["git", "init", "-q", sources.folder / "repository"], check=True)
    sources.card("repository", root="..", directory="src")
    with pytest.raises(SourcesUnusable, match="above the repository"):
        sources.fetch()


def test_too_many_bytes_are_refused_with_the_way_out(sources: Sources) -> None:
    sources.write("big.bin", "x" * 5000)
    with pytest.raises(SourcesUnusable, match=r"CARD_SOURCES_MAX_BYTES=4000.*\.gitignore"):
        sources.fetch(max_bytes=4000)
    assert not sources.copy.exists() or files(sources.copy) == set()
    assert sources.fetch(max_bytes=6000).updated


def test_a_change_makes_the_workspace_stale_but_no_change_of_the_card_itself(sources: Sources) -> None:
    sources.card(root=".", directory="src", program="build/t")
    sources.built()
    sources.fetch()
    assert not sources.workspace.is_stale()
    sources.card(timeout_s=3)
    assert sources.fetch().updated == ["card_source.json"]
    assert not sources.workspace.is_stale()
    sources.write("lib/b.c", "new\n")
    sources.fetch()
    assert sources.workspace.is_stale()


def test_an_edited_file_that_was_not_built_makes_the_workspace_stale(sources: Sources) -> None:
    sources.built()
    (sources.copy / "lib/b.c").write_text("mine\n")
    assert sources.fetch().kept == ["lib/b.c"]
    assert sources.workspace.is_stale()
    threading.Event().wait(2 * FILE_TIME_LAG / 1e9)  # otherwise the edit could be one during the build
    sources.workspace.build(10)
    assert sources.fetch().kept == ["lib/b.c"]
    assert not sources.workspace.is_stale()


def test_what_a_build_changes_or_removes_is_no_edit(sources: Sources) -> None:
    sources.write("config.h", "")
    sources.built("mkdir -p build; touch build/t; echo built > config.h; rm lib/b.c")
    for replace_edits in (False, True):
        done = sources.fetch(replace_edits=replace_edits)
        assert (done.updated, done.kept, done.backups) == ([], [], {})
        assert not sources.workspace.is_stale()
    sources.write("config.h", "new")
    sources.write("lib/b.c", "new")
    assert sources.fetch().updated == ["config.h", "lib/b.c"]


def test_an_unedited_file_is_removed_with_its_original(sources: Sources) -> None:
    sources.built()
    (sources.copy / ".x").write_text("mine\n")
    for name in ("lib/b.c", ".x"):
        (sources.origin / name).unlink()
    sources.fetch()
    assert not (sources.copy / "lib/b.c").exists()
    assert (sources.copy / ".x").read_text() == "mine\n"
    assert sources.workspace.is_stale()


def test_a_copy_in_which_nobody_edits_is_restored_or_found_changed(sources: Sources) -> None:
    sources.built()
    assert not sources.workspace.is_as_built()
    sources.workspace.note_tree()
    (sources.copy / "log.txt").write_text("of the program")
    assert sources.workspace.is_as_built()
    assert not (sources.copy / "log.txt").exists()
    (sources.copy / "build/a.o").write_text("other")
    assert not sources.workspace.is_as_built()
    sources.workspace.clear()
    assert not sources.copy.exists()
    assert sources.workspace.is_stale()


def test_an_untouched_or_deleted_file_follows_its_original(sources: Sources) -> None:
    sources.fetch()
    sources.write("a.c", "new\n")
    assert sources.fetch().updated == ["a.c"]
    assert (sources.copy / "a.c").read_text() == "new\n"
    (sources.copy / "a.c").unlink()
    assert sources.fetch().updated == ["a.c"]


def test_a_fetch_without_changes_writes_nothing(sources: Sources) -> None:
    sources.fetch(replace_edits=True)
    before = [(sources.copy / name).stat().st_mtime_ns for name in ("a.c", ".fetched.json")]
    done = sources.fetch(replace_edits=True)
    assert (done.updated, done.kept, done.backups) == ([], [], {})
    assert [(sources.copy / name).stat().st_mtime_ns for name in ("a.c", ".fetched.json")] == before


def test_an_edit_stays_when_edits_are_kept(sources: Sources) -> None:
    sources.fetch()
    (sources.copy / "a.c").write_text("mine\n")
    sources.write("a.c", "theirs\n")
    for _ in range(2):
        done = sources.fetch()
        assert (done.kept, done.updated) == (["a.c"], [])
        assert (sources.copy / "a.c").read_text() == "mine\n"


def test_an_edit_is_set_aside_when_edits_are_replaced(sources: Sources) -> None:
    sources.fetch()
    for number, backup in ((1, "b.c.orig"), (2, "b.c.orig2"), (3, "b.c.orig3")):
        (sources.copy / "lib/b.c").write_text(f"mine {number}\n")
        done = sources.fetch(replace_edits=True)
        assert done.backups == {"lib/b.c": backup}
        assert (sources.copy / "lib" / backup).read_text() == f"mine {number}\n"
        assert (sources.copy / "lib/b.c").read_text() == "lib/b.c\n"


def test_without_the_manifest_every_difference_counts_as_an_edit(sources: Sources) -> None:
    sources.fetch()
    sources.write("a.c", "new\n")
    for manifest in ("damaged", "[]", '{"a.c": "0123"}'):
        (sources.copy / ".fetched.json").write_text(manifest)
        assert sources.fetch().kept == ["a.c"], manifest

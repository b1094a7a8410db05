"""``cardapp new`` on real programs: its own small examples, and a program that already exists in a repository."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.capabilities import need, need_program
from tests.functional.command_line import cardapp

pytestmark = pytest.mark.functional

MAIN = """#include "scale.h"
int main(void)
{
    return scale("two", 21, 0.5) == 42 ? 0 : 1;
}
"""
SCALE = """#include "scale.h"

int scale(const char *name, int value, double weight)
{
    return name[0] == 't' && weight < 1 ? 2 * value : value;
}

int unused(int value)
{
    return value;
}
"""
MAKEFILE = """app: tool/main.c tool/scale.c tool/scale.h
\t$(CC) $(CFLAGS) -o $@ tool/main.c tool/scale.c
"""


def snapshot_of(folder: Path) -> dict[str, Any]:
    document = json.loads((folder / "card_source.json").read_text())
    found: dict[str, Any] = document["tasks"][0]["blocks"][0]["phases"][0]["steps"][0]["snapshots"][0]
    return found


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A program of two files in the folder ``tool``, built without debug information by the Makefile above it."""
    need_program("git")
    folder = tmp_path / "repository"
    (folder / "tool").mkdir(parents=True)
    for name, text in (("main.c", MAIN), ("scale.c", SCALE), ("scale.h", "int scale(const char *, int, double);\n")):
        (folder / "tool" / name).write_text(text)
    (folder / "Makefile").write_text(MAKEFILE)
    subprocess.run(["git", "init", "-q", folder], check=True)
    return folder


@pytest.mark.parametrize(("language", "compiler"), [("c", "cc"), ("c++", "c++"), ("rust", "rustc")])
def test_a_new_card_with_a_small_program_is_green(tmp_path: Path, language: str, compiler: str) -> None:
    # Where rustup has installed no toolchain, its rustc only ends with an error.
    found = shutil.which(compiler)
    works = found and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0
    need(works, f"{compiler} (Debian packages gcc, g++ and rustc)")
    done = cardapp("new", "card", "--language", language, folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert snapshot_of(tmp_path / "card")["expect"] == {"limit": "4", "sum": "10"}


def test_a_new_card_at_a_function_finds_build_program_and_values(repository: Path) -> None:
    """Also if the program handles its own interrupt before it reaches the function."""
    interrupts = "#include <signal.h>\n" + MAIN.replace("return", "signal(SIGINT, SIG_IGN); raise(SIGINT); return", 1)
    (repository / "tool" / "main.c").write_text(interrupts)
    (repository / "docs").mkdir()
    done = cardapp("new", "card", "--at", "../tool/scale.c:scale", folder=repository / "docs")
    assert done.returncode == 0, done.stdout + done.stderr
    target = json.loads((repository / "docs" / "card" / "card_source.json").read_text())["target"]
    assert (target["root"], target["directory"], target["program"]) == ("../..", "../..", "app")
    assert target["sources"] == ["tool/scale.c"]
    assert snapshot_of(repository / "docs" / "card")["expect"] == {"name": '"two"', "value": "21", "weight": "0.5"}
    assert not (repository / "app").exists()
    checked = cardapp("check", "--replay", "docs/card", folder=repository)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_what_is_missing_is_named_with_the_way_out(repository: Path, tmp_path: Path) -> None:
    def refused(at: str, code: int, *said: str, folder: Path = repository, options: tuple[str, ...] = ()) -> None:
        done = cardapp("new", "card", "--at", at, *options, folder=folder)
        assert done.returncode == code
        assert [words for words in said if words not in done.stderr] == []
        assert not (folder / "card").exists()

    refused("tool/scale.c:scael", 2, "near names are scale")
    refused("tool/scale.c:unused", 1, "app: it exited with code 0", "--args")
    (repository / "Makefile").write_text("all:\n\techo no luck; exit 3\n")
    refused("tool/scale.c:scale", 1, "no luck", "--build")
    (repository / "Makefile").unlink()
    refused("tool/scale.c:scale", 2, "--build")
    outside, make = f"change to a folder of {repository} first", ("--build", "make")
    refused("repository/tool/scale.c:scale", 2, outside, folder=tmp_path, options=make)
    build = "cc -g -o app tool/main.c tool/scale.c"
    named = cardapp("new", "card", "--at", "tool/scale.c:scale", "--build", build, folder=repository)
    assert named.returncode == 0, named.stdout + named.stderr


def test_a_missing_compiler_and_a_folder_with_files_are_named(tmp_path: Path) -> None:
    done = cardapp("new", "card", folder=tmp_path, PATH=str(tmp_path))
    assert done.returncode == 3
    assert "make is missing" in done.stderr
    (tmp_path / "notes.txt").write_text("mine")
    done = cardapp("new", ".", folder=tmp_path)
    assert done.returncode == 2
    assert "is not empty" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]

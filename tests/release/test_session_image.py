"""What is in the image of sessions in containers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cardapp.session_host.image import LATEST, PYTHON, Image
from cardapp.session_host.image_build import UNFINISHED
from cardapp.session_host.podman import Podman
from tests.functional.containers import everything_of
from tests.release.session_image import PLANTED, build, mirror

pytestmark = [pytest.mark.functional, pytest.mark.usefixtures("session_image")]

ROOT = Path(__file__).resolve().parents[2]
LOCKED_DOWN = ("--rm", "--network=none", "--read-only", "--cap-drop=all", "--security-opt=no-new-privileges")
PROGRAM = ("#include <stdio.h>", "int main(void) {", "  int n = 42;", '  printf("%d", n);', "  return 0;", "}")


def podman(*arguments: str | Path) -> str:
    """The output of a command that must succeed."""
    return Podman().run(*arguments, timeout=600.0).stdout.strip()


def inside(*command: str, options: tuple[str, ...] = ()) -> str:
    return podman("run", *LOCKED_DOWN, *options, LATEST, *command)


def test_a_second_build_builds_nothing_and_a_failed_one_leaves_the_image() -> None:
    done = build()
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{Image().name()} is up to date\n", "")
    done = build("--base", "localhost/none:1")
    assert (done.returncode, done.stdout) == (1, "")
    assert "fetching localhost/none:1 failed with exit code 125; the end of its output:" in done.stderr
    ids = {podman("image", "inspect", "--format", "{{.Id}}", each) for each in (Image().name(), LATEST)}
    assert len(ids) == 1
    assert podman("ps", "--all", "--external", "--quiet", f"--filter=name={UNFINISHED}") == ""


def test_a_session_finds_everything_in_the_image() -> None:
    for program in ("nvim", "gdb", "gcc", "make", "tmux", "tini", PYTHON):
        assert inside(program, "-V" if program == "tmux" else "--version"), program
    script = """cd /tmp && printf '%s\\n' "$@" >a.c && gcc -g -o a a.c &&
        gdb -nx -batch -ex 'break main' -ex run -ex next -ex 'print n' ./a"""
    assert "$1 = 42" in inside("sh", "-c", script, "sh", *PROGRAM)
    check = 'if !exists(":Termdebug") || &encoding != "utf-8" | cquit | endif'
    inside("nvim", "--headless", "-u", "NONE", "-i", "NONE", "-n", "+packadd termdebug", f"+{check}", "+qall")
    assert inside("locale", "charmap") == "UTF-8"
    code = "import cardapp.session_host.mcp_server, jsonschema, pynvim; print(cardapp.__file__, pynvim.__file__)"
    mounted = (f"--volume={ROOT}:/workspace:ro", "--env=PYTHONPATH=/workspace", "--env=PYTHONDONTWRITEBYTECODE=1")
    ours, theirs = inside(PYTHON, "-P", "-c", code, options=mounted).split()
    assert ours == "/workspace/cardapp/__init__.py"
    assert theirs.startswith("/opt/cardapp/.venv/")


class Storage:
    """podman's own storage, as :func:`everything_of` wants it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *arguments: str | Path) -> str:
        return podman(*arguments)


def test_the_image_has_no_setuid_file_and_no_secret(tmp_path: Path) -> None:
    find = ("run", "--rm", "--network=none", LATEST, "find", "/", "-xdev")
    assert podman(*find, "-type", "f", "-perm", "/6000") == ""
    assert podman(*find, "-name", "cardapp") == "/opt/cardapp"
    (image,) = json.loads(podman("image", "inspect", LATEST))
    assert image["Config"]["Entrypoint"] == ["tini", "--"]
    assert image["Config"]["Cmd"] == ["sleep", "infinity"]
    assert image["Size"] < 450_000_000
    sizes, found = {}, set()
    host = mirror().partition("://")[2].partition("/")[0].encode()
    for name, content in everything_of(Storage(tmp_path), LATEST):
        sizes[name] = len(content)
        is_ours = name.startswith(("etc/", "opt/", "root/", "run/")) or "/" not in name
        words = [*(word.encode() for word in PLANTED), *([host] if is_ours else [])]
        assert [word for word in words if word in content] == [], name
        if b"no-install-recommends" in content:  # it shows that files of the layers and the history are searched
            found.add(name)
    assert "opt/cardapp/etc/setup.sh" in found
    assert any(name.endswith(".json") for name in found)
    assert "usr/lib/os-release" in sizes
    assert "etc/apt/sources.list" not in sizes
    # podman leaves empty files where it mounted files during a build.
    assert [sizes.get(name, 0) for name in ("etc/resolv.conf", "etc/hostname", "etc/hosts")] == [0, 0, 0]

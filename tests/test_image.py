"""``bin/image`` with stand-ins for podman and buildah that write down what they are given. The image itself is tried in
``tests/release/test_market_image.py``."""

from __future__ import annotations

import os
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from tests.capabilities import needs

ROOT = Path(__file__).resolve().parent.parent
pytestmark = needs(shutil.which("git"), "git (Debian package git)")

TOOLS = ("bash", "cat", "find", "git", "grep", "mktemp", "readlink", "rm", "tar")
BUILDER = """#!/usr/bin/env bash
printf '%s\\n' "$0" "$@" >"$STUB_LOG"
cd "${@: -1}" && find . -type f >"$STUB_LOG.files"
exit "${STUB_STATUS:-0}"
"""


class Repository:
    """A repository with one commit, of this one's files for the image, and a PATH of its own."""

    def __init__(self, folder: Path) -> None:
        self.root, self.path, self.log = folder / "repository", folder / "path", folder / "log"
        (self.root / "bin").mkdir(parents=True)
        (self.root / "etc").mkdir()
        shutil.copy(ROOT / "bin" / "image", self.root / "bin")
        shutil.copy(ROOT / "etc" / "Containerfile", self.root / "etc")
        self.path.mkdir()
        for name in TOOLS:
            (self.path / name).symlink_to(shutil.which(name) or name)
        self.git("init", "--quiet")
        self.git("add", ".")
        self.git("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "--message", "First")

    def git(self, *arguments: str) -> str:
        done = subprocess.run(["git", "-C", self.root, *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def add(self, *builders: str) -> None:
        for name in builders:
            (self.path / name).write_text(BUILDER)
            (self.path / name).chmod(0o755)

    def run(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.root / "bin" / "image", *arguments],
            env={"PATH": str(self.path), "STUB_LOG": str(self.log), "TMPDIR": str(self.log.parent)} | more,
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def given(self) -> list[str]:
        """The builder and its arguments."""
        return self.log.read_text().splitlines()

    def names(self) -> list[str]:
        """The names that the builder was to give the image."""
        given = self.given()
        return [value for option, value in pairwise(given) if option == "--tag"]

    def commit(self) -> str:
        return self.git("rev-parse", "--short", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_the_commit_is_the_tag(repository: Repository) -> None:
    repository.add("podman", "buildah")
    done = repository.run()
    name = f"marketdata:sha-{repository.commit()}"
    assert (done.returncode, done.stdout) == (0, f"{name}\n")
    assert repository.names() == [name]
    assert Path(repository.given()[0]).name == "podman"
    assert f"org.opencontainers.image.revision={repository.git('rev-parse', 'HEAD')}" in repository.given()


def test_a_release_is_a_further_tag(repository: Repository) -> None:
    for tag in ("v2", "v2.0.1", "vague", "v3-rc", "before-v2"):
        repository.git("tag", tag)
    repository.add("podman")
    done = repository.run("--name", "example.org/market")
    names = [f"example.org/market:{tag}" for tag in (f"sha-{repository.commit()}", "v2", "v2.0.1")]
    assert (done.returncode, done.stdout.splitlines()) == (0, names)
    assert repository.names() == names


def test_base_tool_and_further_arguments_are_passed_on(repository: Repository) -> None:
    repository.add("podman", "buildah")
    done = repository.run("--base", "debian:bookworm-slim", "--with", "buildah", "--", "--network=host", "--no-cache")
    assert done.returncode == 0
    given = repository.given()
    assert Path(given[0]).name == "buildah"
    assert given[given.index("--build-arg") + 1] == "BASE=debian:bookworm-slim"
    assert {"--network=host", "--no-cache"} <= set(given)


def test_only_what_is_committed_is_built(repository: Repository) -> None:
    repository.add("podman")
    (repository.root / "etc" / "read.json").write_text("secret")
    done = repository.run()
    assert done.stderr == "bin/image: there are changes that are not committed; the image is without them\n"
    files = Path(f"{repository.log}.files").read_text().splitlines()
    assert sorted(files) == ["./bin/image", "./etc/Containerfile"]


@pytest.mark.parametrize("status", ["0", "1"])
def test_its_folder_is_removed(repository: Repository, status: str) -> None:
    repository.add("podman")
    assert repository.run(STUB_STATUS=status).returncode == int(status)
    assert not Path(repository.given()[-1]).exists()


def test_a_failed_build_names_no_image(repository: Repository) -> None:
    repository.add("podman")
    done = repository.run(STUB_STATUS="125")
    assert (done.returncode, done.stdout) == (1, "")
    assert "podman could not build the image" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["trixie"], 2, "unknown argument: trixie"),
        (["--base"], 2, "--base needs a value"),
        (["--with", "docker"], 2, "--with takes podman or buildah, not docker"),
        (["--with", "buildah"], 3, "buildah is not on PATH"),
        ([], 3, "neither podman nor buildah is on PATH"),
    ],
)
def test_what_is_wrong_or_missing_is_told(
    repository: Repository, arguments: list[str], code: int, message: str
) -> None:
    done = repository.run(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr


def test_without_a_commit_nothing_is_built(repository: Repository) -> None:
    repository.add("podman")
    shutil.rmtree(repository.root / ".git")
    done = repository.run(GIT_CEILING_DIRECTORIES=str(repository.root))
    assert done.returncode == 3
    assert "is not a git repository with a commit" in done.stderr


def test_the_containerfile_copies_files_that_ship() -> None:
    copied = [
        word
        for line in (ROOT / "etc" / "Containerfile").read_text().splitlines()
        if line.startswith("COPY ")
        for word in line.split()[1:-1]
    ]
    assert copied
    for pattern in copied:
        tracked = subprocess.run(
            ["git", "-C", ROOT, "ls-files", "--", pattern], capture_output=True, text=True, check=True
        )
        assert tracked.stdout or not os.path.exists(ROOT / ".git"), f"{pattern} is not in the repository"

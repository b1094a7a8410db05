"""A program that nobody here made, fetched from a registry of packages, and the card on it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.capabilities import need, need_program
from tests.functional import registry
from tests.functional.session_process import document

Fetch = Callable[[Path], None]


@dataclass(frozen=True)
class At:
    """A stop and the expressions that are recorded there, separated by `` ; ``."""

    stop: dict[str, Any]
    expressions: str
    run: str | None = None


@dataclass(frozen=True)
class Mutation:
    """Another text for the only ``old`` in a source file. It is not in the line of a stop."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class OtherProgram:
    """``fetch`` makes the folder of the sources, in which ``build``, a Makefile, makes ``target["program"]``.
    ``files`` are added to it: their text by name."""

    name: str
    fetch: Fetch
    build: str
    target: dict[str, Any]
    stops: tuple[At, ...]
    mutations: tuple[Mutation, ...]
    files: dict[str, str | bytes] = field(default_factory=dict)

    def write(self, card: Path) -> None:
        """Write the card with a step for each stop, in which all values are still to be recorded."""
        self.fetch(card / "src")
        for name, text in {"Makefile": self.build, **self.files}.items():
            (card / "src" / name).parent.mkdir(exist_ok=True)
            (card / "src" / name).write_bytes(text.encode() if isinstance(text, str) else text)
        (card / "card_source.json").write_text(json.dumps(self.document()))

    def document(self) -> dict[str, Any]:
        made = document(self.name, {"name": self.name, "build": ["make", "-s", "-j2"], **self.target}, {}, {})
        made["tasks"][0]["blocks"][0]["phases"][0]["steps"] = [
            {"id": f"s{number}", "title": f"Stop {number}", "text": "t", "question": "q", "snapshots": [snapshot(each)]}
            for number, each in enumerate(self.stops, 1)
        ]
        return made


def snapshot(at: At) -> dict[str, Any]:
    expect = dict.fromkeys(at.expressions.split(" ; "), "?")
    return {"id": "x", "title": "x", "stop": at.stop, "expect": expect} | ({"run": at.run} if at.run else {})


def from_pypi(requirement: str, inside: str) -> Fetch:
    """Fetches the folder ``inside`` of the source package that fulfils ``requirement``, a name with a release."""

    def fetch(folder: Path) -> None:
        with tempfile.TemporaryDirectory() as temporary:
            options = ("-q", "--retries=1", "--no-deps", f"--no-binary={requirement.partition('==')[0]}")
            pip = (sys.executable, "-m", "pip", "download", *options, "-d", temporary, requirement)
            registry.install(pip, Path(temporary))
            (archive,) = Path(temporary).glob("*.tar.gz")
            unpack(archive, folder, inside)

    return fetch


def from_debian_sources(package: str) -> Fetch:
    """Fetches the original sources of a source package of Debian."""

    def fetch(folder: Path) -> None:
        with tempfile.TemporaryDirectory() as temporary:
            apt = apt_get(Path(temporary))
            registry.install([*apt, "source", "--download-only", package], Path(temporary))
            (archive,) = Path(temporary).glob(f"{package}_*.orig.tar.*")
            unpack(archive, folder)

    return fetch


def from_debian_crates(*crates: str) -> Fetch:
    """Fetches Rust crates from the packages in which Debian keeps their sources, each into a folder of its name."""

    def fetch(folder: Path) -> None:
        need_program("apt-get")
        with tempfile.TemporaryDirectory() as temporary:
            for crate in crates:
                registry.install(["apt-get", "download", "-q", f"librust-{crate}-dev"], Path(temporary))
                (package,) = Path(temporary).glob(f"librust-{crate}-dev_*.deb")
                subprocess.run(["dpkg-deb", "-x", package, temporary], check=True)
                (source,) = Path(temporary, "usr/share/cargo/registry").glob(f"{crate}-[0-9]*")
                shutil.copytree(source, folder / crate)

    return fetch


def apt_get(folder: Path) -> list[str]:
    """The command ``apt-get`` with Debian's lists of sources in ``folder``. The machine's own apt is not changed."""
    need_program("apt-get")
    about = ("--format", "deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages", "Label: Debian")
    mirrors = subprocess.run(["apt-get", "indextargets", *about], capture_output=True, text=True, check=False).stdout
    need(mirrors, "the lists of Debian's packages (apt-get update)")
    (folder / "sources.list").write_text(mirrors)
    (folder / "lists").mkdir()
    places = {"Etc::SourceList": "sources.list", "Etc::SourceParts": "none", "State::Lists": "lists", "Cache": "cache"}
    options = [f"-oDir::{name}={folder / place}" for name, place in places.items()]
    # Otherwise root's apt-get becomes an account that cannot write into the folder.
    command = ["apt-get", "-q", "-oAPT::Sandbox::User=root", "-oAPT::Update::Error-Mode=any", *options]
    registry.install([*command, "update"], folder)
    return command


def unpack(archive: Path, folder: Path, inside: str = "") -> None:
    """Unpack what the only folder of the archive has, or what is in its folder ``inside``."""
    with tempfile.TemporaryDirectory() as temporary, tarfile.open(archive) as content:
        content.extractall(temporary, filter="data")
        (top,) = Path(temporary).iterdir()
        shutil.copytree(top / inside, folder, dirs_exist_ok=True)

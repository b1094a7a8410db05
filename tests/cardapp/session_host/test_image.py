"""The image's recipe and state, and the commands and messages of a build.

A script stands in for podman. The real one builds the image in ``tests/release/test_session_image.py``.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from cardapp.errors import MissingRequirement
from cardapp.session_host.image import CONTAINERFILE, RECIPE_LABEL, SET_UP, Image
from cardapp.session_host.image_build import check_user_ids
from cardapp.session_host.podman import Podman
from cardapp.session_host.profile import ROOT

RECIPE = (CONTAINERFILE, *SET_UP)
INFO: dict[str, Any] = {
    "host": {
        "ociRuntime": {"path": "/usr/bin/true"},
        "remoteSocket": {"path": "/run/x/podman/podman.sock"},
        "idMappings": {"uidmap": [{"size": 1}, {"size": 65536}]},
    },
    "store": {"graphDriverName": "overlay"},
}
# The script records its arguments. $STUB/WORD has the output of the command WORD, $STUB/WORD.fails its error.
STAND_IN = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do shift; [ "$1" = runc ] && shift; done
echo "$*" >>"$STUB/log"
[ "$1" != unshare ] || { shift; exec "$@"; }
[ ! -e "$STUB/$1.fails" ] || { cat "$STUB/$1.fails" >&2; exit 125; }
[ ! -e "$STUB/$1" ] || cat "$STUB/$1"
"""


class Machine:
    """A repository with the recipe, and a podman that does nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root, self.bin = folder, folder / "repository", folder / "bin"
        for name in RECIPE:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        self.bin.mkdir()
        self.write_program("podman", STAND_IN)
        self.tell("info", INFO)
        self.image = Image(self.root)
        self.said: list[str] = []

    def write_program(self, name: str, script: str) -> None:
        (self.bin / name).write_text(script)
        (self.bin / name).chmod(0o755)

    def tell(self, command: str, document: Any) -> None:
        (self.folder / command).write_text(json.dumps(document))

    def tell_images(self, *images: dict[str, Any]) -> None:
        self.tell("images", list(images))

    def as_listed(self, **labels: str) -> dict[str, Any]:
        return {"Names": [self.image.name()], "Labels": {RECIPE_LABEL: self.image.recipe_digest()} | labels}

    @property
    def podman(self) -> Podman:
        path = f"{self.bin}:/usr/bin:/bin"
        return Podman({"PATH": path, "STUB": str(self.folder), "TMPDIR": str(self.folder), "CONTAINERS_CONF": "/x"})

    def build(self, base: str | None = "localhost/own:1") -> bool:
        return self.image.build(self.podman, base, self.said.append)

    def ran(self) -> list[str]:
        log = self.folder / "log"
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


# -- the recipe -------------------------------------------------------------------------------------------------------


def test_every_file_of_the_recipe_changes_the_digest(machine: Machine) -> None:
    for name in RECIPE:
        before = machine.image.recipe_digest()
        assert re.fullmatch("[0-9a-f]{64}", before)
        with (machine.root / name).open("a") as file:
            file.write("# more\n")
        assert machine.image.recipe_digest() != before
        assert machine.image.name() == f"localhost/card-session:{machine.image.recipe_digest()[:12]}"


def test_the_recipe_has_all_files_that_the_image_is_made_of() -> None:
    copied = [line for line in (ROOT / CONTAINERFILE).read_text().splitlines() if line.startswith("COPY ")]
    assert copied == ["COPY etc etc"]
    locks = {f"etc/requirements/{part}.txt" for part in ("sheets", "card")}  # the part card includes sheets
    assert set(SET_UP) == {"etc/setup.sh"} | locks


# -- the state --------------------------------------------------------------------------------------------------------


def test_an_image_is_missing_outdated_or_current(machine: Machine) -> None:
    machine.tell_images()
    assert machine.image.state(machine.podman) == "missing"
    machine.tell_images({"Names": ["localhost/card-session:latest"], "Labels": {RECIPE_LABEL: "0" * 64}})
    assert machine.image.state(machine.podman) == "outdated"
    machine.tell_images({"Names": None, "Labels": None}, machine.as_listed())
    assert machine.image.state(machine.podman) == "current"
    machine.tell_images(machine.as_listed() | {"Labels": {RECIPE_LABEL: "0" * 64}})
    assert machine.image.state(machine.podman) == "outdated"


# -- the build --------------------------------------------------------------------------------------------------------


def test_a_current_image_is_built_again_only_on_another_base(machine: Machine) -> None:
    machine.tell_images(machine.as_listed())
    assert not machine.build(base=None)
    assert [line.split()[0] for line in machine.ran()] == ["images"]
    machine.tell_images(machine.as_listed(**{"cardapp.base": "localhost/own:1"}))
    assert not machine.build("localhost/own:1")
    assert machine.build("localhost/own:2")
    assert "tag localhost/own:2 localhost/card-session-base:latest" in machine.ran()
    assert any("cardapp.base=localhost/own:2" in line for line in machine.ran())


def test_a_build_names_and_labels_the_image(machine: Machine) -> None:
    assert machine.build()
    (build,) = [line.split() for line in machine.ran() if line.startswith("build ")]
    assert {f"{RECIPE_LABEL}={machine.image.recipe_digest()}", machine.image.name(), "--network=host"} <= set(build)
    assert machine.said == ["building the image (two minutes or so) …"]
    assert list(machine.folder.glob("card-session-image-*")) == []


def test_a_user_without_ids_for_containers_is_told_how_to_get_them() -> None:
    check_user_ids(INFO, 65534)
    for mappings in ([{"size": 1}, {"size": 65534}], None):
        info = INFO | {"host": INFO["host"] | {"idMappings": {"uidmap": mappings}}}
        with pytest.raises(MissingRequirement, match=r"usermod --add-subuids .* nobody; then run podman system migrat"):
            check_user_ids(info, 65534)

"""The image of a session in a container: its recipe, its state and its build.

The label :data:`RECIPE_LABEL` of an image holds the SHA-256 of the image's recipe. The first digits of that digest are
the image's tag, so clones of the repository with different recipes can share a storage.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from cardapp.session_host.image_build import (
    BUILD_BASE,
    DEBIAN_BASE,
    ImageWork,
    StepFailed,
    provide_debian_base,
    write_package_settings,
)
from cardapp.session_host.podman import Podman
from cardapp.session_host.profile import ROOT

REPOSITORY = "localhost/card-session"
LATEST = f"{REPOSITORY}:latest"
RECIPE_LABEL = "cardapp.recipe"
BASE_LABEL = "cardapp.base"
PYTHON = "/opt/cardapp/.venv/bin/python"
"""The image's Python, with the packages that ``cardapp.session_host`` needs."""
CONTAINERFILE = "etc/card-session.Containerfile"
SET_UP = ("etc/setup.sh", "etc/requirements/sheets.txt", "etc/requirements/card.txt")
"""The set-up script, and the lists of the packages that it installs."""

ImageState = Literal["missing", "outdated", "current"]
Announce = Callable[[str], None]


class Image:
    """The image that the repository in ``root`` describes."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root

    def recipe_digest(self) -> str:
        """SHA-256, in hexadecimal digits, of all files that the image depends on, except the base."""
        parts = {name: (self._root / name).read_text("utf-8") for name in (CONTAINERFILE, *SET_UP)}
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def name(self) -> str:
        return f"{REPOSITORY}:{self.recipe_digest()[:12]}"

    def state(self, podman: Podman) -> ImageState:
        """Whether the image exists. ``outdated``: there are images of sessions, but none of this recipe.

        :raises PodmanFailed: podman cannot list its images.
        """
        images = _images(podman)
        if self._current(images) is not None:
            return "current"
        return "outdated" if images else "missing"

    def build(self, podman: Podman, base: str | None, announce: Announce) -> bool:
        """Build the image if there is none of this recipe, or if its base differs from ``base``.

        Returns whether it was built. ``announce`` gets a line before each step that takes long. If ``base`` is None,
        the base is a Debian that the first build makes with debootstrap.

        :raises MissingRequirement: podman, debootstrap or a mirror of Debian is missing.
        :raises StepFailed: a step failed; the text has the last lines of its output.
        """
        if self._is_built(podman, base):
            return False
        try:
            with ImageWork(podman, announce) as work:
                # Another command may have built the image while this one waited.
                if self._is_built(podman, base):
                    return False
                work.prepare()
                base = base or DEBIAN_BASE
                mirror = provide_debian_base(work) if base == DEBIAN_BASE else None
                self._build(work, base, mirror)
        except OSError as error:
            raise StepFailed(f"the image cannot be built: {error}; TMPDIR names the folder of the build") from error
        return True

    def _is_built(self, podman: Podman, base: str | None) -> bool:
        labels = self._current(_images(podman))
        return labels is not None and base in (None, labels.get(BASE_LABEL))

    def _current(self, images: list[dict[str, Any]]) -> Mapping[str, str] | None:
        """The labels of the image of this recipe; None if there is none."""
        digest, name = self.recipe_digest(), self.name()
        for image in images:
            labels = image.get("Labels") or {}
            if name in (image.get("Names") or ()) and labels.get(RECIPE_LABEL) == digest:
                return labels
        return None

    def _build(self, work: ImageWork, base: str, mirror: str | None) -> None:
        context = work.folder / "context"
        for name in SET_UP:
            (context / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self._root / name, context / name)
        work.tag_base(base)
        settings = write_package_settings(work.folder / "settings", mirror, work.environ)
        work.run(
            "building the image (two minutes or so)",
            work.podman.command(
                "build", "--network=host", "--layers=false", "--force-rm", "--pull=never",
                "--file", self._root / CONTAINERFILE, "--build-arg", f"BASE={BUILD_BASE}",
                *(f"--secret=id={path.name},src={path}" for path in settings),
                "--label", f"{RECIPE_LABEL}={self.recipe_digest()}", "--label", f"{BASE_LABEL}={base}",
                "--tag", self.name(), "--tag", LATEST, context,
            ),
        )  # fmt: skip
        # Remove an image of this recipe on another base. It has no name any more, because the new image has taken it.
        work.podman.run("image", "prune", "--force", f"--filter=label={RECIPE_LABEL}")


def _images(podman: Podman) -> list[dict[str, Any]]:
    """The images of sessions, as ``podman images`` describes them."""
    found = podman.run("images", "--format=json", f"--filter=reference={REPOSITORY}")
    images: list[dict[str, Any]] = json.loads(found.stdout or "[]")
    return images

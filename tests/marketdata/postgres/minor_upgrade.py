"""A private copy of PostgreSQL's programs, which a test may replace."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from marketdata.postgres import binaries

ROOT = Path(__file__).resolve().parents[3]


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
        chosen = folder / "chosen"
        chosen.mkdir()
        (chosen / "sitecustomize.py").write_text(
            f"from marketdata.postgres import binaries\nbinaries._SYSTEM = ({str(folder / '*' / 'bin')!r},)\n"
        )
        self.environment = {"PYTHONPATH": f"{chosen}{os.pathsep}{ROOT}"}
        for place in (folder, *folder.rglob("*")):
            if place.is_dir():
                place.chmod(0o755)  # the account postgres runs the programs

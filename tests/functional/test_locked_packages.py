"""What pip accepts and refuses in a set-up, with the real pip and a folder of small packages in place of an index."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.functional

ROOT = Path(__file__).resolve().parents[2]


class Repository:
    """A repository that contains only the set-up and a lock file for its part ``sheets``. The packages are in a
    folder."""

    def __init__(self, folder: Path) -> None:
        self.root, self.packages = folder / "repository", folder / "packages"
        self.packages.mkdir()
        self.lock = self.root / "etc" / "requirements" / "sheets.txt"
        self.lock.parent.mkdir(parents=True)
        shutil.copy(ROOT / "etc" / "setup.sh", self.root / "etc")
        self.environment = {
            "PATH": f"{Path(sys.executable).resolve().parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.packages),
        }

    def add_wheel(self, name: str, version: str, requires: str = "") -> str:
        """Its line in a lock."""
        path = self.packages / f"{name}-{version}-py3-none-any.whl"
        about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}"
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr(f"{name}.py", f"version = {version!r}\n")
            wheel.writestr(f"{name}-{version}.dist-info/METADATA", about)
            wheel.writestr(f"{name}-{version}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
            wheel.writestr(f"{name}-{version}.dist-info/RECORD", "")
        return line(name, version, path)

    def add_sdist(self, name: str, version: str) -> str:
        """Its line in a lock."""
        path = self.packages / f"{name}-{version}.tar.gz"
        script = f"from setuptools import setup\nsetup(name={name!r}, version={version!r}, py_modules=[])\n".encode()
        entry = tarfile.TarInfo(f"{name}-{version}/setup.py")
        entry.size = len(script)
        with tarfile.open(path, "w:gz") as archive:
            archive.addfile(entry, io.BytesIO(script))
        return line(name, version, path)

    def set_up(self, text: str, what: str = "set_up sheets") -> subprocess.CompletedProcess[str]:
        self.lock.write_text(text)
        return subprocess.run(
            ["bash", "-euc", f'. "{self.root}/etc/setup.sh"; {what}'],
            env=self.environment, capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip

    def install(self, text: str) -> subprocess.CompletedProcess[str]:
        """Install into the finished environment, as the set-up does."""
        return self.set_up(text, 'install_locked "$PYTHON" sheets || give_up_without_packages')

    def version(self, name: str) -> str:
        """The installed version; empty if the package is not installed."""
        done = subprocess.run(
            [self.root / ".venv" / "bin" / "python", "-c", f"import {name}; print({name}.version)"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.stdout.strip()


def line(name: str, version: str, path: Path) -> str:
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


@pytest.fixture
def repository() -> Iterator[Repository]:
    with tempfile.TemporaryDirectory(prefix="locked-", dir="/tmp") as folder:
        yield Repository(Path(folder))


@pytest.mark.timeout(300)  # pip runs five times
def test_only_the_locked_file_of_a_locked_wheel_is_installed(repository: Repository) -> None:
    tiny = repository.add_wheel("tiny", "1.0")
    done = repository.set_up(tiny)
    assert done.returncode == 0, done.stderr
    assert repository.version("tiny") == "1.0"

    repository.add_wheel("tiny", "1.1")
    done = repository.set_up(tiny.replace("1.0", "1.1"))
    assert done.returncode == 3
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert "tiny-1.1-py3-none-any.whl" in done.stderr
    assert f"it refused a file that is not the one named in {repository.lock.parent}.\n" in done.stderr
    assert repository.version("tiny") == "1.0"

    repository.add_wheel("bare", "1.0")
    repository.add_wheel("forgotten", "1.0")
    for lock, words, absent in (
        ("bare==1.0\n", "Hashes are required", "bare"),
        (tiny + repository.add_wheel("needy", "1.0", "Requires-Dist: forgotten\n"), "forgotten", "needy"),
        (tiny + repository.add_sdist("sources", "1.0"), "No matching distribution found for sources==1.0", "sources"),
    ):
        done = repository.install(lock)
        assert (done.returncode, words in done.stderr) == (3, True), done.stderr
        assert repository.version(absent) == ""

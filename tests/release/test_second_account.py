"""A service runs under another account than the repository's owner, with the real programs. It uses the owner's
finished environment and writes nothing into the repository. It keeps running while other launchers are started."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.capabilities import need
from tests.functional.other_accounts import NOBODY, ROOT, environment_for_all, requirements

PATH = "/usr/local/bin:/usr/bin:/bin"

pytestmark = pytest.mark.functional


@pytest.fixture
def repository() -> Iterator[Path]:
    """A copy of this repository, owned by root and set up for the market data, in a folder that every account can
    enter."""
    need(os.geteuid() == 0, "root, who can become another account")
    with tempfile.TemporaryDirectory(prefix="shared-", dir="/tmp") as folder:
        root = Path(folder) / "repository"
        Path(folder).chmod(0o755)
        for name in ("bin", "etc", "cardapp", "marketdata"):
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "setup.cfg", root)
        packages = environment_for_all(root / ".venv", requirements("market"))
        (packages / "repository.pth").write_text(f"{root}\n")
        subprocess.run(["bash", "-euc", '. etc/setup.sh; mkdir "$PARTS"; stamp market'], cwd=root, check=True)
        subprocess.run([root / ".venv/bin/python", "-m", "compileall", "-q", root], check=True)
        yield root


def written(root: Path) -> dict[str, int]:
    """Every file of the repository, with its modification time."""
    return {str(path): path.lstat().st_ctime_ns for path in root.rglob("*")}


def test_a_service_of_another_account_runs_on_through_every_launcher(repository: Path) -> None:
    before = written(repository)
    with tempfile.TemporaryDirectory(prefix="market-", dir="/tmp", ignore_cleanup_errors=True) as state:
        other = Path(state, "path")
        other.mkdir(0o755)
        os.chown(state, NOBODY, NOBODY)
        environment = {"PATH": PATH, "HOME": state, "MARKET_STATE_DIR": state, "MARKET_API_PORT": "0"}
        with subprocess.Popen(
            [repository / "bin" / "marketdata-api"], user=NOBODY, group=NOBODY, extra_groups=[],
            env=environment, cwd="/", stdout=subprocess.PIPE, text=True,
        ) as service:  # fmt: skip
            assert service.stdout is not None
            address = service.stdout.readline().strip()
            try:
                for path, user in ((PATH, 0), (f"{other}:{PATH}", 0), (PATH, NOBODY), (f"{other}:{PATH}", NOBODY)):
                    (other / "chromium").touch(0o755)  # a browser is now installed
                    done = subprocess.run(
                        [repository / "bin" / "marketdata-token", "--help"], user=user, group=user, extra_groups=[],
                        env=environment | {"PATH": path}, cwd="/", capture_output=True, text=True, check=False,
                    )  # fmt: skip
                    assert (done.returncode, done.stderr) == (0, "")
                refused = subprocess.run(
                    [repository / "bin" / "cardapp", "layouts"], user=NOBODY, group=NOBODY, extra_groups=[],
                    env=environment, cwd="/", capture_output=True, text=True, check=False,
                )  # fmt: skip
                assert refused.returncode == 3
                assert f"Its owner, root, can finish it with: {repository}/bin/start --setup\n" in refused.stderr
                with urllib.request.urlopen(f"{address}/ready", timeout=10) as answer:
                    assert answer.status == 200
            finally:
                service.terminate()
        assert service.returncode == 0
    assert written(repository) == before

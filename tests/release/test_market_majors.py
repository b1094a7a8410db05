"""The store's tests on each later major version of PostgreSQL that the market data may run on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.capabilities import need
from tests.functional.other_accounts import NOBODY, ROOT, environment_for_all, requirements
from tests.release import postgresql_wheels
from tests.release.postgresql_wheels import MAJORS

pytestmark = pytest.mark.functional

SECONDS = 1500
TESTS = ("tests/marketdata/store", "tests/marketdata/backup", "tests/marketdata/operations/test_copy_pruned.py")
PASSED_MIN = 150
CHECKED_IN = "tests/marketdata/test_major.py"
# Without it, a run on another PostgreSQL than the chosen one would pass, too.
CHECK = """
import psycopg
def test_the_tests_run_on_the_chosen_major(postgres):
    with psycopg.connect(postgres) as connection:
        assert connection.info.server_version // 10000 == {major}
"""


class NormalUser(NamedTuple):
    """A normal user's Python, and the repository that the user may read."""

    python: str | Path
    repository: Path
    user: int | None


@pytest.fixture(scope="module")
def normal_user() -> Iterator[NormalUser]:
    """PostgreSQL's wheels are for a normal user: this one; for root the account nobody."""
    with tempfile.TemporaryDirectory(prefix="shared-", dir="/tmp") as folder:
        repository = Path(folder) / "repository"
        Path(folder).chmod(0o755)
        ignored = shutil.ignore_patterns("__pycache__", "vendor")
        for name in ("bin", "cardapp", "etc", "marketdata", "templates", "tests"):
            shutil.copytree(ROOT / name, repository / name, ignore=ignored)
        shutil.copy(ROOT / "setup.cfg", repository)
        if os.geteuid() != 0:
            yield NormalUser(sys.executable, repository, None)
            return
        tools = ("duckdb", "hypothesis", "pandas", "pytest", "pytest-timeout", "pytest-xdist", "webtest")
        packages = [each for extra in ("sheets", "card", "market", "parquet") for each in requirements(extra)]
        environment_for_all(Path(folder, "venv"), [*packages, *tools])
        yield NormalUser(Path(folder, "venv", "bin", "python"), repository, NOBODY)


@pytest.mark.parametrize("major", MAJORS[1:])
def test_the_tests_of_the_store_pass_on_each_major(
    major: int, postgresqls: dict[int, Path], normal_user: NormalUser
) -> None:
    need(major in postgresqls, f"PostgreSQL {major}, in the system or in a wheel")
    python, repository, user = normal_user
    (repository / CHECKED_IN).write_text(CHECK.format(major=major))
    with tempfile.TemporaryDirectory(prefix="majors-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        home, chosen = Path(folder, "home"), Path(folder, "chosen")
        for each in (home, chosen):
            each.mkdir()
        Path(folder).chmod(0o755)
        if user is not None:
            os.chown(home, user, user)
        environment = {"PATH": os.defpath, "HOME": str(home), "HYPOTHESIS_STORAGE_DIRECTORY": str(home)}
        environment |= postgresql_wheels.only(chosen, postgresqls[major], repository=repository)
        done = subprocess.run(
            [python, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", CHECKED_IN, *TESTS],
            cwd=repository, env=environment, user=user, group=user, extra_groups=None if user is None else [],
            capture_output=True, text=True, timeout=SECONDS, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    counted = re.search(r"(\d+) passed", done.stdout)
    assert counted is not None
    assert int(counted[1]) > PASSED_MIN, done.stdout

"""The plugins of every run: the budget and the seed of property tests, what a machine lacks, the dearest files, the
folder that the workers share, and the record of a release run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from tests.release import record

PLUGINS = ("capabilities", "costs", "properties", "run_folder")
TESTS = """
import time
from hypothesis import given, strategies as st
from tests.capabilities import need, needs

drawn = []

@given(st.integers())
def test_slow(number):
    time.sleep(0.2)
    drawn.append(number)

def test_few_examples_were_drawn():
    assert 1 <= len(drawn) < 20

@given(st.integers(0, 2**64))
def test_failing(number):
    print("drew:", number)
    assert number < 2**40

def test_own(rng):
    print("own:", rng.random())

@needs(False, "a unicorn (Debian package unicorn)")
def test_decorated(): pass

def test_skipped():
    need(0, "a unicorn (Debian package unicorn)")

def test_shared(run_folder):
    print("folder:", run_folder, run_folder.stat().st_mode & 0o777)
"""


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_some.py").write_text(TESTS)
    plugins = [part for name in PLUGINS for part in ("-p", f"tests.{name}")]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", *plugins, "-p", "no:cacheprovider", "-rP", *arguments],
        cwd=folder, capture_output=True, text=True, check=False, timeout=100,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
    )  # fmt: skip
    return done.returncode, done.stdout


def found(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    assert match is not None, text
    return match[1]


def drawn(text: str) -> list[str]:
    """The numbers that the failing test drew, in their order."""
    return re.findall(r"drew: (\d+)", text)


def test_a_run_has_a_seed_a_budget_and_a_summary(tmp_path: Path) -> None:
    status, said = run(tmp_path)
    assert status == 1
    assert "1 failed, 4 passed, 2 skipped" in said
    seed = found(r"^seed: (\d+)$", said)
    assert f"The same examples of the property tests again: --seed {seed}\n" in said
    assert "\nthis machine lacks a unicorn (Debian package unicorn): 2 tests\n" in said
    assert re.search(r"dearest files, in seconds =+\n +\d+\.\d  test_some\.py\n", said)
    folder, mode = found(r"^folder: (.*)$", said).rstrip(".").split()
    assert (Path(folder).exists(), int(mode)) == (False, 0o711)

    # Without the budget the slow test would draw on for minutes.
    status, again = run(tmp_path, "--seed", seed, "-k", "failing or own")
    assert found(r"own: (\S+)", again) == found(r"own: (\S+)", said)
    assert drawn(again) == drawn(said)
    assert found(r"own: (\S+)", run(tmp_path, "-k", "own")[1]) != found(r"own: (\S+)", said)


def test_the_workers_have_the_seed_of_the_run_and_share_its_folder(tmp_path: Path) -> None:
    status, said = run(tmp_path, "-n", "2", "--dist", "each", "-k", "failing or decorated", "-v")
    assert status == 1
    numbers = drawn(said)
    assert numbers[: len(numbers) // 2] == numbers[len(numbers) // 2 :] != []
    assert "this machine lacks a unicorn (Debian package unicorn): 2 tests" in said


def test_a_whole_release_run_is_recorded_in_the_place_of_the_last() -> None:
    counts = {"passed": 7, "failed": 0, "error": 1, "skipped": 0}
    line = record.line(datetime(2026, 1, 31, 12, tzinfo=UTC), "abc", 44.6, counts)
    assert line == "Last whole run: 2026-01-31, commit abc, 45 minutes: 7 passed, 0 failed, 1 error."
    page = record.PAGE.read_text(encoding="utf-8")
    assert page.count(f"\n{record.HEAD}") == 1
    changed = record.with_record(page, line)
    assert changed.count(record.HEAD) == 1
    assert f"\n{line}\n" in changed
    assert record.with_record(changed, line) == changed

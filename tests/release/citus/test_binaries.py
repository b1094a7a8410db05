"""The message without a built Citus. A build happens once, and is complete or leaves nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.release.citus import binaries

BUILD = """\
#!/bin/sh
echo "built from $1" >> {log}
mkdir -p "$2/usr/lib/postgresql/15/bin" && touch "$2/usr/lib/postgresql/15/bin/postgres"
exit {status}
"""


@pytest.fixture(autouse=True)
def cache(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, that every account can reach."""
    state_dir.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(state_dir))
    monkeypatch.delenv("TEST_CITUS", raising=False)
    monkeypatch.delenv("TEST_CITUS_SOURCE", raising=False)
    return state_dir / "marketdata-citus-13.2.2"


def use_build(folder: Path, monkeypatch: pytest.MonkeyPatch, status: int) -> Path:
    """Let this script build instead, without packages. It writes to the log that is returned."""
    log, script = folder / "log", folder / "build.sh"
    script.write_text(BUILD.format(log=log, status=status))
    script.chmod(0o755)
    monkeypatch.setattr(binaries, "_BUILD", script)
    monkeypatch.setattr(binaries, "_PACKAGES", ())
    monkeypatch.setenv("TEST_CITUS_SOURCE", "the source")
    return log


def test_without_its_source_the_test_is_skipped(cache: Path) -> None:
    with pytest.raises(pytest.skip.Exception, match="Set TEST_CITUS_SOURCE to the file citus") as skipped:
        binaries.binaries()
    assert str(cache) in str(skipped.value)


def test_without_root_and_packages_it_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_CITUS_SOURCE", "the source")
    monkeypatch.setattr(binaries, "_PACKAGES", ("dpkg", "no-such-package"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(pytest.skip.Exception, match=r"only root can install: apt-get install no-such-package$"):
        binaries.binaries()


def test_it_is_built_once(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = use_build(tmp_path, monkeypatch, status=0)
    assert binaries.binaries() == binaries.binaries() == cache / "usr/lib/postgresql/15/bin"
    assert log.read_text() == "built from the source\n"


def test_a_failed_build_leaves_nothing(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_build(tmp_path, monkeypatch, status=1)
    with pytest.raises(AssertionError):
        binaries.binaries()
    assert [file.name for file in cache.parent.iterdir()] == [f"{cache.name}.lock"]


def test_a_prefix_without_programs_is_named(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_CITUS", str(state_dir))
    with pytest.raises(AssertionError, match=f"TEST_CITUS: there is no {state_dir}/usr/lib/postgresql/15/bin/postgres"):
        binaries.binaries()

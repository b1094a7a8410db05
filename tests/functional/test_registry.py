"""If a package registry cannot be reached, the test is reported as not run. If it lacks a package, the test fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.functional.registry import install


def installer(stderr: str) -> list[str]:
    return ["sh", "-c", 'echo "$1" >&2; exit 1', "installer", stderr]


@pytest.mark.parametrize(
    "stderr",
    [
        "npm error code EAI_AGAIN\nnpm error network request to the registry failed",
        "npm error code ECONNREFUSED",
        "WARNING: Retrying after connection broken by 'NewConnectionError(Temporary failure in name resolution)'",
    ],
)
def test_without_a_registry_the_test_is_reported_as_not_run(tmp_path: Path, stderr: str) -> None:
    with pytest.raises(pytest.skip.Exception, match="not run: the package registry cannot be reached"):
        install(installer(stderr), tmp_path)


def test_a_package_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ETARGET"):
        install(installer("npm error code ETARGET\nnpm error notarget No matching version found"), tmp_path)

"""The shipped profiles are valid, and every fault of a profile is named with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from cardapp.errors import UsageError
from cardapp.session_host.profile import Limits, Profile, load_profile


def test_the_shipped_profiles_are_valid() -> None:
    assert load_profile("local") == Profile("local", "local", False, 150, 42, 120, None)
    assert load_profile("podman") == Profile("podman", "podman", False, 150, 42, 120, Limits(1024, 256, 600))
    assert load_profile("local-in-place").in_place


def test_an_unknown_profile_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="known: local, local-in-place, podman"):
        load_profile("docker")


FAULTS = (
    ("colums = 80", "colums: unknown"),
    ("columns = wide", "columns = wide"),
    ("columns = 8", "from 40 to 500"),
    ("rows = 100000", "from 10 to 200"),
    ("build_timeout = 0", "from 1 to 3600"),
    ("sources = elsewhere", "copy or in-place"),
    ("runtime = docker", "local or podman"),
    ("runtime = podman", "memory = : must be a number from 256"),
    ("runtime = podman\nsources = in-place", "with runtime = podman it must be copy"),
)


def test_a_bad_value_is_refused_with_file_section_and_key(tmp_path: Path) -> None:
    path = tmp_path / "p.ini"
    for line, named in FAULTS:
        defaults = {"columns": "100", "rows": "30", "build_timeout": "60"}
        defaults.pop(line.split(" ")[0], None)
        kept = "\n".join(f"{key} = {value}" for key, value in defaults.items())
        path.write_text(f"[own]\n{kept}\n{line}\n")
        with pytest.raises(UsageError, match=named) as refused:
            load_profile("own", path)
        assert str(path) in refused.value.detail
        assert "[own]" in refused.value.detail
    path.unlink()
    with pytest.raises(UsageError, match=r"p\.ini"):
        load_profile("own", path)

"""How podman is run: its options on each kind of machine, and its failures. A script stands in for podman; the real one
is used in ``tests/functional/test_session_image.py``."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import pytest

from cardapp.errors import MissingRequirement
from cardapp.session_host import podman as module
from cardapp.session_host.podman import Podman, PodmanFailed

NOTHING_SPECIAL = (1048576, 4194304)
# Parts of the output of `podman info`: on Debian 12 with control groups of version 1, as root and as a user, and with
# version 2 according to podman's documentation.
ROOT = {"cgroupManager": "systemd", "cgroupControllers": ["cpu", "memory", "pids"], "security": {"rootless": False}}
USER = {"cgroupManager": "systemd", "cgroupControllers": ["memory", "pids"], "security": {"rootless": True}}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with podman and runc on it, on a machine that needs no options."""
    monkeypatch.setattr(module, "UNIFIED_GROUPS", tmp_path / "cgroup.procs")
    monkeypatch.setattr(module, "PID_MAX", tmp_path / "pid_max")
    monkeypatch.setattr(module, "SYSTEM_PATH", str(tmp_path))
    (tmp_path / "pid_max").write_text("32768\n")
    set_limits(monkeypatch, *NOTHING_SPECIAL)
    for name in ("podman", "runc"):
        write_program(tmp_path / name, "exit 0")
    return tmp_path


def set_limits(monkeypatch: pytest.MonkeyPatch, files: int, processes: int) -> None:
    limits = {resource.RLIMIT_NOFILE: files, resource.RLIMIT_NPROC: processes}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (limits[kind], limits[kind]))


def write_program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def command(machine: Path, *arguments: str, **environ: str) -> list[str]:
    program, *rest = Podman({"PATH": str(machine)} | environ).command(*arguments)
    assert program == str(machine / "podman")
    return rest


def test_an_ordinary_machine_needs_no_options(machine: Path) -> None:
    assert command(machine, "run", "image") == ["run", "image"]


def test_mixed_control_groups_need_runc(machine: Path) -> None:
    (machine / "cgroup.procs").touch()
    assert command(machine, "exec", "a", "true") == ["--runtime", "runc", "exec", "a", "true"]
    (machine / "runc").unlink()
    assert command(machine, "exec", "a", "true") == ["exec", "a", "true"]


@pytest.mark.parametrize(
    ("files", "processes", "limits"),
    [
        (20000, 96365, ["--ulimit", "nofile=20000:20000", "--ulimit", "nproc=32768:32768"]),
        (20000, 500, ["--ulimit", "nofile=20000:20000", "--ulimit", "nproc=500:500"]),
        (20000, resource.RLIM_INFINITY, ["--ulimit", "nofile=20000:20000", "--ulimit", "nproc=32768:32768"]),
        (resource.RLIM_INFINITY, 500, []),
    ],
)
def test_commands_that_start_a_container_get_the_low_limits(
    machine: Path, monkeypatch: pytest.MonkeyPatch, files: int, processes: int, limits: list[str]
) -> None:
    set_limits(monkeypatch, files, processes)
    for start in ("run", "create", "build"):
        # Before the caller's options, because the last one counts.
        assert command(machine, start, "--ulimit=nproc=9:9") == [start, *limits, "--ulimit=nproc=9:9"]
    assert command(machine, "exec", "a") == ["exec", "a"]


def test_a_configuration_of_the_user_is_left_alone(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (machine / "cgroup.procs").touch()
    set_limits(monkeypatch, 1024, 1024)
    assert command(machine, "run", "image", CONTAINERS_CONF="/x/containers.conf") == ["run", "image"]


def test_a_failure_has_the_message_of_podman(machine: Path) -> None:
    write_program(machine / "podman", 'echo "Error: no such container a" >&2; exit 125')
    with pytest.raises(PodmanFailed) as failed:
        Podman({"PATH": str(machine)}).run("kill", "a")
    assert failed.value.detail == "podman kill failed: no such container a"
    write_program(machine / "podman", "exit 3")
    with pytest.raises(PodmanFailed, match="podman kill failed: exit code 3"):
        Podman({"PATH": str(machine)}).run("kill", "a")


def test_without_runc_mixed_control_groups_name_it(machine: Path) -> None:
    write_program(
        machine / "podman", 'echo "Error: OCI runtime error: crun: cgroups in hybrid mode not supported" >&2; exit 1'
    )
    with pytest.raises(PodmanFailed, match="apt-get install runc"):
        Podman({"PATH": str(machine)}).run("run", "image")


def test_a_podman_that_hangs_is_killed(machine: Path) -> None:
    write_program(machine / "podman", "exec sleep 60")
    with pytest.raises(PodmanFailed, match=r"podman ps did not end within 0 s and was killed"):
        Podman({"PATH": f"{machine}:/usr/bin:/bin"}).run("ps", timeout=0.1)


def test_a_missing_podman_names_its_packages(machine: Path) -> None:
    (machine / "podman").unlink()
    with pytest.raises(MissingRequirement, match="apt-get install podman debootstrap"):
        Podman({"PATH": str(machine)}).run("ps")


@pytest.mark.parametrize(
    ("host", "can"),
    [
        (ROOT, True),
        (ROOT | {"cgroupManager": "cgroupfs"}, True),
        (USER, True),
        (USER | {"cgroupControllers": ["pids"]}, False),
        (USER | {"cgroupManager": "cgroupfs", "cgroupControllers": []}, False),
        (USER | {"cgroupManager": "cgroupfs"}, False),
        ({"cgroupManager": "systemd", "security": {"rootless": False}}, True),
    ],
)
def test_containers_are_limited_where_control_groups_are_delegated(
    tmp_path: Path, host: dict[str, Any], can: bool
) -> None:
    said = tmp_path / "said"
    said.write_text(json.dumps({"host": host}))
    program = tmp_path / "podman"
    program.write_text(f"#!/bin/sh\ncat {said}\n")
    program.chmod(0o755)
    assert Podman({"PATH": f"{tmp_path}:/usr/bin:/bin"}).can_limit() is can

"""How podman is run: its options on each kind of machine, and its failures. A script stands in for podman; the real one
is used in ``tests/release/test_session_image.py``."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

from cardapp.errors import MissingRequirement
from cardapp.session_host.podman import Machine, Podman, PodmanFailed

# Parts of the output of `podman info`: on Debian 12 with control groups of version 1, as root and as a user, and with
# version 2 according to podman's documentation.
ROOT = {"cgroupManager": "systemd", "cgroupControllers": ["cpu", "memory", "pids"], "security": {"rootless": False}}
USER = {"cgroupManager": "systemd", "cgroupControllers": ["memory", "pids"], "security": {"rootless": True}}


class Host:
    """A PATH with podman and runc on it, on a machine that needs no options."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.limits = {resource.RLIMIT_NOFILE: 1048576, resource.RLIMIT_NPROC: 4194304}
        (folder / "pid_max").write_text("32768\n")
        for name in ("podman", "runc"):
            self.write_program(name, "exit 0")

    def write_program(self, name: str, script: str) -> None:
        (self.folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.folder / name).chmod(0o755)

    def podman(self, **environ: str) -> Podman:
        machine = Machine(
            self.folder / "cgroup.procs", self.folder / "pid_max", str(self.folder), lambda kind: self.limits[kind]
        )
        return Podman({"PATH": f"{self.folder}:/usr/bin:/bin"} | environ, machine)

    def command(self, *arguments: str, **environ: str) -> list[str]:
        program, *rest = self.podman(**environ).command(*arguments)
        assert program == str(self.folder / "podman")
        return rest


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_an_ordinary_machine_needs_no_options(host: Host) -> None:
    assert host.command("run", "image") == ["run", "image"]


def test_mixed_control_groups_need_runc(host: Host) -> None:
    (host.folder / "cgroup.procs").touch()
    assert host.command("exec", "a", "true") == ["--runtime", "runc", "exec", "a", "true"]
    alone = {"PATH": str(host.folder)}
    (host.folder / "runc").unlink()
    assert host.command("exec", "a", "true", **alone) == ["exec", "a", "true"]


def test_commands_that_start_a_container_get_the_low_limits(host: Host) -> None:
    for files, processes, limits in (
        (1048575, 96365, ["--ulimit", "nofile=1048575:1048575", "--ulimit", "nproc=32768:32768"]),
        (20000, 500, ["--ulimit", "nofile=20000:20000", "--ulimit", "nproc=500:500"]),
        (20000, resource.RLIM_INFINITY, ["--ulimit", "nofile=20000:20000", "--ulimit", "nproc=32768:32768"]),
        (1048576, 500, []),
        (resource.RLIM_INFINITY, 500, []),
    ):
        host.limits = {resource.RLIMIT_NOFILE: files, resource.RLIMIT_NPROC: processes}
        for start in ("run", "create", "build"):
            # Before the caller's options, because the last one counts.
            assert host.command(start, "--ulimit=nproc=9:9") == [start, *limits, "--ulimit=nproc=9:9"]
        assert host.command("exec", "a") == ["exec", "a"]


def test_a_configuration_of_the_user_is_left_alone(host: Host) -> None:
    (host.folder / "cgroup.procs").touch()
    host.limits = {resource.RLIMIT_NOFILE: 1024, resource.RLIMIT_NPROC: 1024}
    assert host.command("run", "image", CONTAINERS_CONF="/x/containers.conf") == ["run", "image"]


def test_a_failure_has_the_message_of_podman(host: Host) -> None:
    host.write_program("podman", 'echo "Error: no such container a" >&2; exit 125')
    with pytest.raises(PodmanFailed) as failed:
        host.podman().run("kill", "a")
    assert failed.value.detail == "podman kill failed: no such container a"
    host.write_program("podman", "exit 3")
    with pytest.raises(PodmanFailed, match="podman kill failed: exit code 3"):
        host.podman().run("kill", "a")
    hybrid = "OCI runtime error: crun: cgroups in hybrid mode not supported"
    host.write_program("podman", f'echo "Error: {hybrid}" >&2; exit 1')
    with pytest.raises(PodmanFailed, match="apt-get install runc"):
        host.podman().run("run", "image")


def test_a_podman_that_hangs_is_killed_and_a_missing_one_names_its_packages(host: Host) -> None:
    host.write_program("podman", "exec sleep 60")
    with pytest.raises(PodmanFailed, match=r"podman ps did not end within 0 s and was killed"):
        host.podman().run("ps", timeout=0.1)
    (host.folder / "podman").unlink()
    with pytest.raises(MissingRequirement, match="apt-get install podman debootstrap"):
        host.podman(PATH=str(host.folder)).run("ps")


def test_containers_are_limited_where_control_groups_are_delegated(host: Host) -> None:
    said = host.folder / "said"
    host.write_program("podman", f"cat {said}")
    for described, can in (
        (ROOT, True),
        (ROOT | {"cgroupManager": "cgroupfs"}, True),
        (USER, True),
        (USER | {"cgroupControllers": ["pids"]}, False),
        (USER | {"cgroupManager": "cgroupfs", "cgroupControllers": []}, False),
        (USER | {"cgroupManager": "cgroupfs"}, False),
        ({"cgroupManager": "systemd", "security": {"rootless": False}}, True),
    ):
        said.write_text(json.dumps({"host": described}))
        assert host.podman().can_limit() is can, described

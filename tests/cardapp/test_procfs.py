"""Facts about other processes, and about their control groups in both versions."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from cardapp import procfs

PID = 4711
GROUP = "/libpod_parent/libpod-0a1b"
# Lines of /proc/PID/cgroup: version 2; version 1; and both, where version 2 has no controllers.
MEMBERSHIPS = {
    "version 2": [f"0::{GROUP}"],
    "version 1": [f"9:pids:{GROUP}", f"6:freezer:{GROUP}", f"1:name=systemd:{GROUP}"],
    "both": [f"9:pids:{GROUP}", f"6:freezer:{GROUP}", f"0::{GROUP}"],
}


def group_of(folder: Path, version: str, *, frozen: bool) -> None:
    """The files of a process in a control group; the folder stands for both /proc and /sys/fs/cgroup."""
    group = folder / GROUP.lstrip("/") if version == "version 2" else folder / "freezer" / GROUP.lstrip("/")
    (folder / str(PID)).mkdir()
    (folder / str(PID) / "cgroup").write_text("\n".join(MEMBERSHIPS[version]) + "\n")
    group.mkdir(parents=True)
    if version == "version 2":
        (group / "cgroup.events").write_text(f"populated 1\nfrozen {int(frozen)}\n")
    else:
        (group / "freezer.state").write_text("FROZEN\n" if frozen else "THAWED\n")


def test_a_frozen_group_is_recognised(tmp_path: Path) -> None:
    for version in MEMBERSHIPS:
        for frozen in (True, False):
            folder = tmp_path / f"{version} {frozen}"
            folder.mkdir()
            group_of(folder, version, frozen=frozen)
            assert procfs.is_frozen(PID, folder, folder) is frozen, folder.name


def test_a_group_without_a_freezer_is_not_frozen(tmp_path: Path) -> None:
    (tmp_path / str(PID)).mkdir()
    (tmp_path / str(PID) / "cgroup").write_text("0::/\n")
    assert not procfs.is_frozen(PID, tmp_path, tmp_path)
    assert not procfs.is_frozen(1 << 30)


def test_the_state_and_the_tracer_of_a_process_are_read() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        assert procfs.state(process.pid) in ("S", "R", "D")
        assert procfs.tracer(process.pid) == 0
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert procfs.state(process.pid) == "Z"
    assert procfs.state(process.pid) is None
    assert procfs.tracer(process.pid) == 0


def test_has_ended_is_true_from_the_end_of_the_process_on() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        started = procfs.start_time(process.pid)
        assert started is not None
        assert not procfs.has_ended(process.pid, started, 0.05)
        assert procfs.has_ended(process.pid, started - 1, 0)  # another process has the pid now
        process.kill()
        assert procfs.has_ended(process.pid, started, 10)  # it is still a zombie
    assert procfs.has_ended(process.pid, started, 0)

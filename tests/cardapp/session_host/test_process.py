"""Processes are told apart by their start time. Only a session's own processes are ended."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator

import pytest

from cardapp.procfs import start_time
from cardapp.session_host.process import CONTAINER_VARIABLE, Instance, Process, end_processes, pids_with


@pytest.fixture
def mark() -> str:
    return str(uuid.uuid4())


@pytest.fixture
def sleeper(mark: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"], env=dict(os.environ) | {CONTAINER_VARIABLE: mark}) as process:
        yield process
        process.kill()


def test_a_process_is_identified_by_its_start_time(sleeper: subprocess.Popen[bytes]) -> None:
    found = Process(sleeper.pid, start_time(sleeper.pid) or 0)
    assert found.alive
    assert Process.from_json(found.as_json()) == found
    assert not Process(sleeper.pid, found.started + 1).alive
    sleeper.kill()
    sleeper.wait()
    assert not found.alive
    assert start_time(sleeper.pid) is None
    for text in (None, {}, {"pid": "1", "started": 2}, [1, 2]):
        assert Process.from_json(text) is None


def test_a_zombie_is_dead() -> None:
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert start_time(process.pid) is None


def test_an_instance_names_boot_process_and_start() -> None:
    pid = os.getpid()
    assert Instance.of_this_process().name.split(":")[1:] == [str(pid), str(start_time(pid))]


def test_a_stranger_with_the_same_number_is_not_ended(sleeper: subprocess.Popen[bytes]) -> None:
    Process(sleeper.pid, 1).end(1.0)
    assert sleeper.poll() is None


def test_a_process_is_ended_even_if_it_does_not_listen(mark: str) -> None:
    with subprocess.Popen(["sh", "-c", "trap '' TERM; echo; exec sleep 1000"], stdout=subprocess.PIPE) as deaf:
        assert deaf.stdout is not None
        deaf.stdout.readline()
        Process(deaf.pid, start_time(deaf.pid) or 0).end(0.2)
        assert deaf.wait(30) == -9


def test_only_marked_processes_are_found_and_ended(sleeper: subprocess.Popen[bytes], mark: str) -> None:
    with subprocess.Popen(["sleep", "1000"], env=dict(os.environ) | {CONTAINER_VARIABLE: mark + "0"}) as other:
        assert list(pids_with(mark)) == [sleeper.pid]
        assert end_processes(mark, 30.0) == 1
        assert sleeper.wait(30) == -15
        assert other.poll() is None
        other.kill()


def test_a_marked_process_that_does_not_listen_is_killed(mark: str) -> None:
    command = ["sh", "-c", "trap '' TERM; echo; while :; do sleep 1000; done"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ) | {CONTAINER_VARIABLE: mark}) as deaf:
        assert deaf.stdout is not None
        deaf.stdout.readline()
        assert end_processes(mark, 1.0) >= 2
        assert deaf.wait(30) == -9
    assert not list(pids_with(mark))
    assert end_processes(mark, 1.0) == 0

"""What every test may ask for: a state directory of its own, and an environment without settings."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

RELEASE = Path(__file__).parent / "release"
BENCH = Path(__file__).parent / "bench"
HANDLERS = pytest.StashKey[dict[signal.Signals, Any]]()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """tests/release is collected only where it is named, which bin/test --release does."""
    named = any(Path(argument.partition("::")[0]).absolute().is_relative_to(RELEASE) for argument in config.args)
    return True if collection_path == BENCH or (collection_path == RELEASE and not named) else None


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # A setting in the developer's shell must not decide what a test sees.
    for name in [name for name in os.environ if name.startswith("CARD_")]:
        del os.environ[name]
    # A script that starts the run with `&` has it ignore interrupts, and so would every program that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # nohup has the run ignore hang-ups. It goes on doing so, but programs that it starts do not inherit this.
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    config.stash[HANDLERS] = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """How many workers ``-n auto`` means: one more than cores, since a test waits for programs for a third of its
    time; and four at most, each of which starts a Chromium of its own."""
    return min(4, len(os.sched_getaffinity(0)) + 1)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """A service in this process blocks the signals that end it. Programs of later tests would inherit that. A command
    in this process sets handlers of its own, with which a hang-up would end a run that ignores it."""
    for number, handler in item.config.stash[HANDLERS].items():
        signal.signal(number, handler)
    blocked = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    assert not blocked, f"{item.nodeid} leaves signals blocked: {sorted(blocked)}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # What drives real programs takes longest. Begun first, it is not what one worker has left when the others are done.
    items.sort(key=lambda item: item.get_closest_marker("functional") is None)


@pytest.fixture
def state_dir() -> Iterator[Path]:
    """A fresh state directory (0700), removed afterwards.

    It lies right under /tmp because the path of a Unix socket in it has to stay within 107 bytes, which pytest's own
    ``tmp_path`` does not leave room for.
    """
    with tempfile.TemporaryDirectory(prefix="card-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder).resolve()


@pytest.fixture
def card_environment(state_dir: Path) -> dict[str, str]:
    """The environment for a launched ``cardapp`` or ``card-session``: its own state directory, any free port."""
    return dict(os.environ) | {"CARD_STATE_DIR": str(state_dir), "CARD_API_PORT": "0"}

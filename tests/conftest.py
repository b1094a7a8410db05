"""What every test may ask for: loop counts, a state directory of its own, and an environment without settings."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

FULL_TIMEOUT = 3600  # seconds; the stated loop counts take longer than the limit of the quick run


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the stated loop counts instead of the quick ones")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # A setting in the developer's shell must not decide what a test sees.
    for name in [name for name in os.environ if name.startswith("CARD_")]:
        del os.environ[name]
    # A script that starts the run with `&` has it ignore interrupts, and so would every program that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("full") and config.getoption("timeout") is None:
        config.option.timeout = FULL_TIMEOUT
    # The quick run tells the same of the same code each time, by a fifth of hypothesis' usual number of examples; the
    # full one looks further with every run. How long one example takes says more of the machine than of the code.
    settings.register_profile("quick", derandomize=True, deadline=None, max_examples=20)
    settings.register_profile("full", deadline=None)
    settings.load_profile("full" if config.getoption("full") else "quick")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """How many workers ``-n auto`` means: one more than cores, since a test waits for programs for a third of its
    time; and four at most, each of which starts a PostgreSQL and a Chromium of its own."""
    return min(4, len(os.sched_getaffinity(0)) + 1)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("full"):
        for item in items:
            if item.get_closest_marker("full"):
                item.add_marker(pytest.mark.skip(reason="only with --full: it takes long"))
    # What drives real programs takes longest. Begun first, it is not what one worker has left when the others are done.
    items.sort(key=lambda item: item.get_closest_marker("functional") is None)


@pytest.fixture(scope="session")
def loops(pytestconfig: pytest.Config) -> Callable[..., int]:
    """``loops(quick=20, full=200)`` is the count this run wants: ``full`` with ``--full``, else ``quick``."""

    def count(*, quick: int, full: int) -> int:
        return full if pytestconfig.getoption("full") else quick

    return count


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

"""A pytest plugin: property tests draw a new seed each run, within a budget of time in place of a count of examples.

A run's seed stands in its head, and again in its summary if a test failed. ``--seed N`` draws the examples of that run
again, without the budget: so it reaches every example that the run has reached, also on a slower machine.
"""

from __future__ import annotations

import functools
import os
import random
import time
from collections.abc import Callable, Generator
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.errors import FlakyStrategyDefinition, HypothesisException

BUDGET = 1.5
"""Seconds of one property test, after which it draws no further example."""
MOST = 1000
"""Examples of one property test, if they are drawn sooner."""
SEED = pytest.StashKey[int]()


class Enough(pytest.skip.Exception):
    """Ends a property test whose budget is spent. hypothesis passes a skip on at once."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, help="draw the examples of the run that printed this seed")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Decides the seed of this process. A worker has that of the run (``pytest_configure_node``)."""
    given = getattr(config, "workerinput", {}).get("seed", config.option.seed)
    config.stash[SEED] = int.from_bytes(os.urandom(4)) if given is None else given
    config.option.hypothesis_seed = str(config.stash[SEED])
    # How long one example takes says more of the machine than of the code.
    settings.register_profile("run", deadline=None, database=None, max_examples=MOST)
    settings.load_profile("run")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["seed"] = node.config.stash[SEED]


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed: {config.stash[SEED]}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if terminalreporter.getreports("failed") or terminalreporter.getreports("error"):
        terminalreporter.write_line(f"The same examples of the property tests again: --seed {config.stash[SEED]}")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """The test's own randomness, which the run's seed decides."""
    return random.Random(f"{request.config.stash[SEED]} {request.node.nodeid}")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    handle = getattr(getattr(item, "obj", None), "hypothesis", None)
    if handle is None or item.config.option.seed is not None:
        return (yield)
    test = handle.inner_test
    handle.inner_test = within_budget(test)
    try:
        return (yield)
    except Enough:
        return None
    except FlakyStrategyDefinition as error:
        # A test that draws within its body ended before it drew what an earlier example had drawn.
        if not isinstance(error.__context__, Enough):
            raise
        return None
    finally:
        handle.inner_test = test


def within_budget(test: Callable[..., Any]) -> Callable[..., Any]:
    """``test``, until its budget is spent. A failed example is drawn again, however long that takes."""
    end, has_failed = time.monotonic() + BUDGET, False

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> Any:
        nonlocal has_failed
        if time.monotonic() > end and not has_failed:
            raise Enough("its budget is spent")
        try:
            return test(*args, **kwargs)
        except Exception as error:
            has_failed = not isinstance(error, HypothesisException)
            raise

    return run

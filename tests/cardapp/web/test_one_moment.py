"""A reply of the navigation is consistent, even while moves and checkpoints change the state."""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from cardapp.session_client.checkpoint import Checkpoints
from cardapp.session_client.link import SessionLink
from cardapp.session_client.operation import CheckpointStorage, Operation
from cardapp.session_client.session_tools import Binding
from cardapp.web.services import Services
from tests.cardapp.web.conftest import BINDING, Api, observed

SNAPSHOTS = ("t1/b1/p1/s1/one", "t1/b1/p1/s2/one")
LEVELS = ("task", "block", "phase", "step")
STEPS = ("t1/b1/p1/s1", "t1/b1/p1/s2", "t1/b2/p1/s1", "t2/b1/p1/s1")


@pytest.fixture
def real(services: Services) -> Services:
    """The services with the real checkpoints, but without a session."""
    checkpoints = Checkpoints(
        card_loader=services.card_loader,  # type: ignore[arg-type]
        link=SessionLink(services.settings.mcp_choice),
        storage=CheckpointStorage(services.database, services.clock),
        timeout=1.0,
    )
    return dataclasses.replace(services, checkpoints=checkpoints)


def publish(services: Services, key: str, generation: int) -> None:
    """Store the end of an operation, as a checkpoint does after a successful replay."""
    served = services.card_loader.current()
    record = CheckpointStorage(services.database, services.clock)
    operation = Operation(
        generation=record.take_generation(generation),
        snapshot_ref=key,
        identity=served.identity,
        binding=Binding.of(BINDING),
        started_at=services.clock(),
        observed=observed(),
    ).finished("ready", services.clock())
    record.ready(served, operation, socket="/tmp/s", stop_id="s-1", actor="api", synced=True)  # type: ignore[arg-type]


@pytest.fixture
def publishing(real: Services) -> Iterator[Services]:
    """The services, while a thread publishes one checkpoint after another."""
    over = threading.Event()

    def loop() -> None:
        for generation in itertools.count(1):
            publish(real, SNAPSHOTS[generation % 2], generation)
            if over.is_set():
                return

    thread = threading.Thread(target=loop)
    thread.start()
    yield real
    over.set()
    thread.join()


def assert_one_moment(found: dict[str, Any]) -> None:
    """One transaction stored the published snapshot and the last operation, so both have the same generation."""
    published, last = found["published"], found["checkpoint"]["last"]
    assert (published and published["generation"]) == (last and last["generation"])
    assert (published and published["key"]) == (last and last["snapshot_ref"])


def test_a_reply_shows_a_concurrent_publication_completely_or_not_at_all(publishing: Services) -> None:
    api = Api(publishing)
    for at in range(40):
        move = {"level": "step", "delta": (1, -1)[at % 2]}
        place = {"focus_level": "task", "task_id": ("t1", "t2")[at % 2], "sync_requested": True}
        for method, path, body in (
            ("POST", "/api/navigation/move", move),
            ("PUT", "/api/navigation/current", place),
            ("GET", "/api/navigation/current", None),
        ):
            assert_one_moment(api(method, path, body, status=200).json)

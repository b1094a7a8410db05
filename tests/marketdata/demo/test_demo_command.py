"""``bin/marketdata-demo``: its chain stays the same until a reset."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from marketdata import cli
from marketdata.demo import state_directory
from marketdata.demo.chain import CHAIN, DemoProvider
from marketdata.errors import AlreadyRunning, StateError
from marketdata.ingest.chain_cursor import ChainCursor
from marketdata.ingest.outbox import Outbox
from marketdata.ingest.outbox import outbox_path as path_of_outbox
from marketdata.settings import Settings, load
from marketdata.source.evm import Header


@pytest.fixture
def settings(state_dir: Callable[..., object]) -> Settings:
    return load({"MARKET_STATE_DIR": str(state_dir)})


def outbox_path(settings: Settings) -> Path:
    return path_of_outbox(settings, "md_ticks_v1", state_directory.FOLDER)


def first_block(settings: Settings) -> Header:
    with state_directory.alone(settings):
        return state_directory.connected(
            settings, outbox_path(settings), state_directory.SOURCE, threading.Event()
        ).headers([0])[0]


def connected_at(settings: Settings, monkeypatch: pytest.MonkeyPatch, now: float) -> DemoProvider:
    monkeypatch.setattr(time, "time", lambda: now)
    return state_directory.connected(settings, outbox_path(settings), state_directory.SOURCE, threading.Event())


def test_a_restart_keeps_the_chain_and_a_reset_replaces_it(settings: Settings) -> None:
    first = first_block(settings)
    assert first_block(settings) == first
    state_directory.remove_outboxes(settings)
    assert first_block(settings) == first
    state_directory.remove_chain(settings)
    assert first_block(settings).hash != first.hash


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"seed": "xy", "genesis": 1, "history": 0}'])
def test_a_damaged_chain_file_is_named_with_a_remedy(settings: Settings, content: str) -> None:
    first_block(settings)
    (settings.state_dir / "demo" / "chain.json").write_text(content)
    with pytest.raises(StateError, match=r"chain\.json cannot be read .*bin/marketdata-demo reset"):
        first_block(settings)


def test_a_clock_that_was_set_back_is_reported(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest block of the earlier run is known after a restart."""
    first_block(settings)
    now = time.time()
    with closing(Outbox(outbox_path(settings))) as outbox:
        place = ChainCursor(outbox, CHAIN)
        place.begin_at([0])
        ahead = connected_at(settings, monkeypatch, now + 86_400).head(with_finalized=False)[0].number
        with place.transaction() as transaction:
            place.advance(transaction, ahead + 1)
    for seconds in (86_400 - 30, 86_400 + 30):
        assert connected_at(settings, monkeypatch, now + seconds).head(with_finalized=False)
    with pytest.raises(StateError, match=f"block {ahead} was read before.* bin/marketdata-demo reset"):
        connected_at(settings, monkeypatch, now).head(with_finalized=False)


def test_a_second_demo_is_refused(settings: Settings) -> None:
    with state_directory.alone(settings), pytest.raises(AlreadyRunning), state_directory.alone(settings):
        pass


def test_the_demo_refuses_to_run_beside_a_real_source(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MARKET_STATE_DIR", str(settings.state_dir))
    settings.secrets_dir.mkdir(parents=True)
    (settings.secrets_dir / "rpc.json").write_text(json.dumps({}))
    assert cli.main(["demo", "run"]) == cli.WRONG_USE
    assert "run bin/marketdata-ingestor" in capsys.readouterr().err
    assert not (settings.state_dir / "demo").exists()

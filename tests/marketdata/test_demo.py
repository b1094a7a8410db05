"""The demo source in a state directory: its chain stays the same, until it begins anew."""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from marketdata import cli
from marketdata.demo import cli as demo
from marketdata.demo import state
from marketdata.errors import AlreadyRunning, StateError
from marketdata.ingest import destination
from marketdata.ingest.chain_cursor import ChainCursor
from marketdata.ingest.outbox import Outbox
from marketdata.settings import Settings, load
from marketdata.source.demo.node import DemoNode
from marketdata.source.evm import Header
from marketdata.store import registry, symbols


@pytest.fixture
def settings(state_dir: Callable[..., object]) -> Settings:
    return load({"MARKET_STATE_DIR": str(state_dir)})


def outbox_path(settings: Settings) -> Path:
    return destination.outbox_path(settings, "md_ticks_v1", state.FOLDER)


def first_block(settings: Settings) -> Header:
    with state.alone(settings):
        return state.connected(settings, outbox_path(settings), threading.Event()).headers([0])[0]


def connected_at(settings: Settings, monkeypatch: pytest.MonkeyPatch, now: float) -> DemoNode:
    monkeypatch.setattr(time, "time", lambda: now)
    return state.connected(settings, outbox_path(settings), threading.Event())


def test_a_restart_goes_on_with_the_chain_and_its_removal_ends_it(settings: Settings) -> None:
    first = first_block(settings)
    assert first_block(settings) == first
    state.remove_outboxes(settings)
    assert first_block(settings) == first
    state.remove_chain(settings)
    assert first_block(settings).hash != first.hash


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"seed": "xy", "genesis": 1, "history": 0}'])
def test_a_damaged_file_is_named_with_what_to_do(settings: Settings, content: str) -> None:
    first_block(settings)
    (settings.state_dir / "demo" / "chain.json").write_text(content)
    with pytest.raises(StateError, match=r"chain\.json cannot be read .*bin/marketdata-demo reset"):
        first_block(settings)


@pytest.mark.parametrize("step", ["erase", "remove_chain"])
def test_a_reset_that_is_interrupted_leaves_a_chain_that_is_read_anew(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    first = first_block(settings)
    with closing(Outbox(outbox_path(settings))) as outbox:
        ChainCursor(outbox).enter(state.FILE.pools)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(registry, "registered", lambda *_: [SimpleNamespace(version=None, n=1)])
    monkeypatch.setattr(symbols, "erase", lambda *_: 0)
    monkeypatch.setattr(symbols if step == "erase" else state, step, interrupted)
    parser = argparse.ArgumentParser()
    demo.add_commands(parser, lambda _: nullcontext())  # type: ignore[arg-type, return-value]
    options = parser.parse_args(["reset"])
    with pytest.raises(KeyboardInterrupt):
        options.run(options, settings)
    assert first_block(settings) == first
    assert not outbox_path(settings).exists()


def test_a_clock_that_was_ahead(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read then is known after a restart."""
    first_block(settings)
    now = time.time()
    with closing(Outbox(outbox_path(settings))) as outbox:
        place = ChainCursor(outbox)
        place.enter(state.FILE.pools)
        ahead = connected_at(settings, monkeypatch, now + 86_400).head(with_finalized=False)[0].number
        with place.transaction() as transaction:
            place.advance(transaction, state.SYMBOLS, ahead + 1)
    for seconds in (86_400 - 30, 86_400 + 30):
        assert connected_at(settings, monkeypatch, now + seconds).head(with_finalized=False)
    with pytest.raises(StateError, match=f"block {ahead} was read before.* bin/marketdata-demo reset"):
        connected_at(settings, monkeypatch, now).head(with_finalized=False)


def test_only_one_runs(settings: Settings) -> None:
    with state.alone(settings), pytest.raises(AlreadyRunning), state.alone(settings):
        pass


def test_it_does_not_run_beside_a_real_source(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MARKET_STATE_DIR", str(settings.state_dir))
    settings.secrets_dir.mkdir(parents=True)
    (settings.secrets_dir / "rpc.json").write_text(json.dumps({}))
    assert cli.main(["demo", "run"]) == cli.WRONG_USE
    assert "run bin/marketdata-ingestor" in capsys.readouterr().err
    assert not (settings.state_dir / "demo").exists()

"""The demo source in a state directory: its chain stays the same, until it begins anew."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

import pytest

from marketdata import cli
from marketdata.demo import state
from marketdata.errors import AlreadyRunning, StateError
from marketdata.settings import Settings, load
from marketdata.source.evm import Header


@pytest.fixture
def settings(state_dir: Callable[..., object]) -> Settings:
    return load({"MARKET_STATE_DIR": str(state_dir)})


def first_block(settings: Settings) -> Header:
    with state.alone(settings):
        return state.connected(settings, threading.Event()).headers([0])[0]


def test_a_restart_goes_on_with_the_chain_and_forget_ends_it(settings: Settings) -> None:
    first = first_block(settings)
    assert first_block(settings) == first
    state.outbox_path(settings).touch()
    state.forget(settings)
    assert not state.outbox_path(settings).exists()
    assert first_block(settings).hash != first.hash


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"seed": "xy", "genesis": 1, "history": 0}'])
def test_a_damaged_file_is_named_with_what_to_do(settings: Settings, content: str) -> None:
    first_block(settings)
    (settings.state_dir / "demo" / "chain.json").write_text(content)
    with pytest.raises(StateError, match=r"chain\.json cannot be read .*bin/marketdata-demo reset"):
        first_block(settings)


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

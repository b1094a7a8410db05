"""Replays of the shipped cards in random order give the same proofs on every Debian release, and every slow replay is
counted."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable

import pytest

from cardapp.card.catalog import Catalog
from cardapp.card.source import load_card
from cardapp.settings import ROOT
from tests.functional.card_proofs import CARDS, RECORDED, card_session, digest, replayed
from tests.functional.session_process import SessionTool

pytestmark = [pytest.mark.functional, pytest.mark.full, pytest.mark.each_runtime]


@pytest.mark.parametrize("name", CARDS)
def test_the_check_of_a_card_replays_every_snapshot(name: str, runtime: str) -> None:
    card = ROOT / "etc" / "cards" / name
    command = [sys.executable, "-P", "-m", "cardapp", "check", "--replay", "--profile", runtime, str(card)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    count = len(Catalog(load_card(str(card)).card).snapshots)
    assert done.stdout.splitlines()[-1] == f"all {count} snapshots were replayed and match the card"


@pytest.mark.parametrize("name", CARDS)
def test_random_replays_prove_what_was_recorded_on_another_release(
    tool: SessionTool, name: str, loops: Callable[..., int]
) -> None:
    recorded = json.loads(RECORDED.read_text())[name]
    chosen, laps = random.Random(name), loops(quick=10, full=250)
    fallbacks: Counter[str] = Counter()
    methods: Counter[str] = Counter()
    with card_session(tool, name) as (session, card):
        snapshots = Catalog(card).snapshots
        assert recorded.keys() == snapshots.keys()
        for key in chosen.choices(sorted(snapshots)[:: 4 if laps < 100 else 1], k=laps):
            result, proved = replayed(session, card, key, snapshots[key])
            assert digest(proved) == recorded[key], (key, result["method"], proved)
            fallbacks.update(result["fallbacks"])
            methods[result["method"]] += 1
    assert methods["fork"] > 0
    assert fallbacks.keys() <= {"late_pc_sign"}
    assert fallbacks["late_pc_sign"] < laps // 2, "termdebug seldom shows a stop by itself"

"""Replays of the shipped cards in random order give the same proofs on every Debian release, and every slow replay is
counted."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter

import pytest

from cardapp.card.catalog import Catalog
from cardapp.settings import ROOT
from tests.functional.session_process import SessionTool
from tests.release.card_proofs import CARDS, RECORDED, card_session, digest, replayed

pytestmark = pytest.mark.functional
LAPS = 100


@pytest.mark.parametrize("name", CARDS)
def test_every_snapshot_of_a_shipped_card_is_proved_as_on_another_release(
    tool: SessionTool, name: str, rng: random.Random
) -> None:
    recorded = json.loads(RECORDED.read_text())[name]
    fallbacks: Counter[str] = Counter()
    methods: Counter[str] = Counter()
    with card_session(tool, name) as (session, card):
        snapshots = Catalog(card).snapshots
        assert recorded.keys() == snapshots.keys()
        for key in rng.choices(sorted(snapshots), k=LAPS):
            result, proved = replayed(session, card, key, snapshots[key])
            assert digest(proved) == recorded[key], (key, result["method"], proved)
            fallbacks.update(result["fallbacks"])
            methods[result["method"]] += 1
    assert methods["fork"] > 0
    assert fallbacks.keys() <= {"late_pc_sign"}
    assert fallbacks["late_pc_sign"] < LAPS // 2, "termdebug seldom shows a stop by itself"
    command = [sys.executable, "-P", "-m", "cardapp", "check", "--replay", str(ROOT / "etc" / "cards" / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"all {len(snapshots)} snapshots were replayed and match the card" in done.stdout.splitlines()

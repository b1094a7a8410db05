"""Cards on programs that nobody here made: what ``record`` writes is proved again and again, and each change of the
program is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.functional.command_line import cardapp
from tests.release.others.getopts import getopts
from tests.release.others.ninja import ninja
from tests.release.others.pbzip2 import pbzip2
from tests.release.others.program import Mutation, OtherProgram

pytestmark = pytest.mark.functional
REPEATED = 10


@pytest.mark.parametrize("make", [ninja, pbzip2, getopts])
def test_another_program_is_proved_and_each_change_of_it_is_found(
    make: Callable[[], OtherProgram], state_dir: Path
) -> None:
    program = make()
    card = state_dir / program.name
    program.write(card)
    recorded = cardapp("record", "--yes", card, CARD_STATE_DIR=str(state_dir / "state"))
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    assert '"?"' not in (card / "card_source.json").read_text()
    proved = checked(card, state_dir, "--repeat", str(REPEATED))
    assert proved["ok"], proved["faults"]
    assert [each["replays"] for each in proved["snapshots"]] == [REPEATED] * len(program.stops)
    found = {mutation: drifted(card, state_dir, mutation) for mutation in program.mutations}
    assert all(found.values()), found


def drifted(card: Path, state_dir: Path, mutation: Mutation) -> list[str]:
    """What a check finds to differ while the source file is changed: values, or places of stops."""
    file = card / "src" / mutation.file
    original = file.read_text()
    assert original.count(mutation.old) == 1, mutation
    file.write_text(original.replace(mutation.old, mutation.new))
    faults = checked(card, state_dir, "--fail-fast")["faults"]
    file.write_text(original)
    return [each["expression"] for each in faults if each["code"] == "snapshot_drift"]


def checked(card: Path, state_dir: Path, *options: str) -> dict[str, Any]:
    done = cardapp("check", "--replay", "--format", "json", *options, card, CARD_STATE_DIR=str(state_dir / "state"))
    report: dict[str, Any] = json.loads(done.stdout)["cards"][0]
    return report

from __future__ import annotations

import pytest

from cardapp.session_client.fallbacks import NAMES, Fallbacks
from cardapp.session_client.tool_results import faults
from cardapp.session_host import schemas
from cardapp.web.schemas import definitions

READING = {
    "method": "fork",
    "fresh": False,
    "fallbacks": [],
    "file": None,
    "line": None,
    "function": None,
    "values": {},
    "allocator": None,
    "stop_id": "x",
}


def test_each_name_counts_for_itself() -> None:
    fallbacks = Fallbacks()
    fallbacks.add(["late_pc_sign", "second_run", "late_pc_sign"])
    assert fallbacks.counts() == {"late_pc_sign": 2, "no_checkpoint": 0, "failed_restart": 0, "second_run": 1}


def test_session_service_and_description_have_the_same_names() -> None:
    described = definitions()["SlowFallbacks"][1]
    assert NAMES == schemas.FALLBACKS == tuple(described["properties"]) == tuple(described["required"])


def test_a_session_of_an_earlier_release_reports_none() -> None:
    assert faults("checkpoint_replay", {name: value for name, value in READING.items() if name != "fallbacks"}) == ()
    assert faults("checkpoint_replay", {name: value for name, value in READING.items() if name != "fresh"})


@pytest.mark.parametrize("found", [["other"], "late_pc_sign", ["late_pc_sign"] * 1001])
def test_a_peer_cannot_count_what_there_is_not(found: object) -> None:
    assert faults("checkpoint_replay", READING | {"fallbacks": ["late_pc_sign"]}) == ()
    assert faults("checkpoint_replay", READING | {"fallbacks": found})

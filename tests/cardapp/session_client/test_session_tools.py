"""The slow methods of replays, and the schema of their result."""

from __future__ import annotations

from cardapp.session_client.checkpoint import Fallbacks
from cardapp.session_client.session_tools import SLOW_FALLBACKS, result_faults
from cardapp.session_host import session_tools
from cardapp.web.schemas import definitions

CARD = {"id": "arena", "uuid": "u", "version": "1", "source_sha256": "0" * 64, "title": "Arena"}
READING = {
    "binding": {"container_id": "c", "instance": "i", "profile": "p", "target": "t", "card": CARD},
    "method": "fork", "fresh": False, "fallbacks": [], "file": None, "line": None, "function": None,
    "causes": [], "inside": None, "signal": None, "values": {}, "allocator": None, "stop_id": "x",
}  # fmt: skip


def test_each_slow_way_has_its_own_count() -> None:
    fallbacks = Fallbacks()
    fallbacks.add(["late_pc_sign", "second_run", "late_pc_sign"])
    assert fallbacks.counts() == {"late_pc_sign": 2, "no_checkpoint": 0, "failed_restart": 0, "second_run": 1}


def test_session_service_and_description_have_the_same_names() -> None:
    described = definitions()["SlowFallbacks"][1]
    assert SLOW_FALLBACKS == session_tools.SLOW_FALLBACKS
    assert tuple(described["properties"]) == tuple(described["required"]) == SLOW_FALLBACKS


def test_unknown_or_too_many_fallbacks_are_refused() -> None:
    assert result_faults("checkpoint_replay", {name: value for name, value in READING.items() if name != "fallbacks"})
    for count in (0, 1, 1000):
        assert result_faults("checkpoint_replay", READING | {"fallbacks": ["late_pc_sign"] * count}) == ()
    for found in (["other"], "late_pc_sign", ["late_pc_sign"] * 1001):
        assert result_faults("checkpoint_replay", READING | {"fallbacks": found}), found

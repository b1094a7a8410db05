from __future__ import annotations

from dataclasses import replace
from typing import Any

from cardapp.card.navigation import FRESH, Position
from cardapp.card.progress import LastResult, Status
from cardapp.state import card_state, checkpoint_results
from cardapp.state.database import Database

AT = "2025-03-01T10:00:00.000Z"
LATER = "2025-03-01T10:00:01.500Z"
READY = LastResult("ready", AT, "t1/b1/p1/s1/first", None)
TIMEOUT = LastResult("timeout", LATER, "t1/b1/p1/s2/end", "replay_timeout")
SOMEWHERE = Position(
    task_id="t1", block_id="b1", phase_id="p1", step_id="s1", snapshot_ref="t1/b1/p1/s1/first", focus_level="step",
    sync_requested=True, actor="zoë",
)  # fmt: skip


def test_a_saved_position_is_loaded_unchanged(db: Database) -> None:
    with db.write() as conn:
        assert card_state.load_position(conn, "u") == card_state.SavedPosition(FRESH, 0, None)
        first = card_state.save_position(conn, "u", SOMEWHERE, AT)
        assert first == card_state.SavedPosition(SOMEWHERE, 1, AT) == card_state.load_position(conn, "u")
        second = card_state.save_position(conn, "u", FRESH, LATER)
        assert second == card_state.SavedPosition(FRESH, 2, LATER) == card_state.load_position(conn, "u")


def test_cards_do_not_share_their_state(db: Database) -> None:
    with db.write() as conn:
        card_state.save_position(conn, "a", SOMEWHERE, AT)
        card_state.save_viewer(conn, "a", {"scale": 2}, AT)
        card_state.set_status(conn, "a", "t1.b1.p1.s1", "approved", "", "me", AT)
        checkpoint_results.save_operation(conn, "a", {"state": "ready"})
        checkpoint_results.save_result(conn, "a", "t1/b1/p1/s1", READY)
        checkpoint_results.publish(conn, "a", **published())
    with db.read() as conn:
        assert card_state.load_position(conn, "b").revision == 0
        assert card_state.load_viewer(conn, "b") == (None, 0)
        assert card_state.load_statuses(conn, "b") == {}
        assert checkpoint_results.load_operation(conn, "b") is None
        assert checkpoint_results.load_results(conn, "b") == {}
        assert checkpoint_results.load_publication(conn, "b") is None


def test_a_saved_viewer_state_is_loaded_unchanged(db: Database) -> None:
    state: dict[str, Any] = {"scale": 1.25, "scroll": {"x": 0, "y": 12.5}, "viewer": {"page": {"fit": True}}}
    with db.write() as conn:
        assert card_state.save_viewer(conn, "u", state, AT) == 1
        assert card_state.load_viewer(conn, "u") == (state, 1)
        assert card_state.save_viewer(conn, "u", {"scale": 2}, LATER) == 2
        assert card_state.load_viewer(conn, "u") == ({"scale": 2}, 2)


def published(**members: Any) -> dict[str, Any]:
    return {
        "key": "t1/b1/p1/s1/first", "page_index": 3, "operation_id": "op-1", "generation": 7, "stop_id": "stop-1",
        "binding": {"container_id": "c", "instance": "i", "profile": "local", "target": "arena"}, "instance": "i",
        "socket": "/s/mcp.sock", "source_sha256": "ab" * 32, "observed": {"line": 31, "values": {}}, "at": AT,
    } | members  # fmt: skip


def test_a_publication_keeps_all_and_the_observation_of_the_previous_one(db: Database) -> None:
    first, second = published(), published(key="t1/b1/p1/s2/end", observed={"line": 40, "values": {}})
    with db.write() as conn:
        assert [checkpoint_results.publish(conn, "u", **each) for each in (first, second)] == [1, 2]
        now = checkpoint_results.load_publication(conn, "u")
    assert now == checkpoint_results.Publication(
        sync="on", reason=None, updated_at=second.pop("at"), revision=2, previous_key=first["key"],
        previous_observed=first["observed"], **second,
    )  # fmt: skip


def test_sync_goes_off_once_with_its_first_reason(db: Database) -> None:
    with db.write() as conn:
        assert checkpoint_results.switch_off(conn, "u", "nothing was ever on", AT) is False
        checkpoint_results.publish(conn, "u", **published())
        assert checkpoint_results.switch_off(conn, "u", "target_reset", LATER) is True
        assert checkpoint_results.switch_off(conn, "u", "session_changed", LATER) is False
        now = checkpoint_results.load_publication(conn, "u")
        assert now is not None
        shown = (now.sync, now.reason, now.key, now.updated_at, now.revision)
        assert shown == ("off", "target_reset", "t1/b1/p1/s1/first", LATER, 2)
        checkpoint_results.publish(conn, "u", **published(generation=8))
        now = checkpoint_results.load_publication(conn, "u")
        assert now is not None
        assert (now.sync, now.reason, now.generation, now.revision) == ("on", None, 8, 3)


def test_the_generation_never_falls(db: Database) -> None:
    with db.write() as conn:
        assert checkpoint_results.load_generation(conn) == 0
        found = [checkpoint_results.save_generation(conn, asked) for asked in (5, 1, 5, 6)]
    with db.read() as conn:
        assert [*found, checkpoint_results.load_generation(conn)] == [5, 5, 5, 6, 6]


def test_the_last_operation_and_results_are_kept(db: Database) -> None:
    with db.write() as conn:
        for state in ("failed", "ready"):
            checkpoint_results.save_operation(conn, "u", {"state": state, "observed": None})
            checkpoint_results.save_result(conn, "u", "t1/b1/p1/s1", replace(READY, state=state))
        checkpoint_results.save_result(conn, "u", "t1/b1/p1/s2", TIMEOUT)
    with db.read() as conn:
        assert checkpoint_results.load_operation(conn, "u") == {"state": "ready", "observed": None}
        assert checkpoint_results.load_results(conn, "u") == {"t1/b1/p1/s1": READY, "t1/b1/p1/s2": TIMEOUT}
        assert checkpoint_results.load_result(conn, "u", "t1/b1/p1/s2") == TIMEOUT
        assert checkpoint_results.load_result(conn, "b", "t1/b1/p1/s2") is None


def test_a_status_can_be_approved_and_withdrawn(db: Database) -> None:
    with db.write() as conn:
        assert card_state.load_statuses(conn, "u") == {}
        assert card_state.set_status(conn, "u", "t1.b1.p1.s1", "approved", "läuft", "me", AT) == Status(
            "approved", "läuft", "me", AT, 1
        )
        card_state.set_status(conn, "u", "t1.b1.p1.s2", "approved", "", "me", AT)
        card_state.set_status(conn, "u", "t1.b1.p1.s1", "pending", "", "you", LATER)
    with db.read() as conn:
        assert card_state.load_statuses(conn, "u") == {
            "t1.b1.p1.s1": Status("pending", "", "you", LATER, 2),
            "t1.b1.p1.s2": Status("approved", "", "me", AT, 1),
        }
        assert card_state.load_status(conn, "u", "t1.b1.p1.s1") == Status("pending", "", "you", LATER, 2)
        assert card_state.load_status(conn, "b", "t1.b1.p1.s1") is None

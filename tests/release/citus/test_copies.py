"""The tests of copies, with a version that Citus distributes on one side or on both."""

from __future__ import annotations

import pytest

from tests.marketdata.operations import test_copy, test_copy_pruned
from tests.marketdata.operations.test_copy_pruned import conn, filled, pair  # noqa: F401

ON_EITHER_SIDE = (
    test_copy.test_everything_is_carried_over,
    test_copy_pruned.test_a_late_tick_goes_back_as_candles_to_the_version_whose_ticks_are_pruned,
    test_copy_pruned.test_versions_with_random_writes_prunes_copies_and_switches_stay_equal,
)
ON_BOTH_SIDES = (
    test_copy.test_ticks_that_arrive_during_a_pass_are_carried_by_the_next,
    test_copy.test_times_that_a_chain_has_to_read_again_are_removed_from_the_target,
    test_copy_pruned.test_days_that_were_copied_in_part_are_replaced_and_their_ticks_deleted,
    test_copy_pruned.test_a_killed_copy_goes_on,
)
globals().update({test.__name__: test for test in (*ON_EITHER_SIDE, *ON_BOTH_SIDES)})


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    layouts = ["to-citus", "from-citus", "citus"] if metafunc.function in ON_EITHER_SIDE else ["citus"]
    metafunc.parametrize("layout", layouts, indirect=True)

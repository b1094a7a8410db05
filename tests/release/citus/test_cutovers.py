"""The tests of cutovers between two versions that Citus distributes."""

from __future__ import annotations

import pytest

from tests.marketdata.operations.test_cutover import (  # noqa: F401
    conn,
    test_a_difference_is_refused_and_its_candles_are_named,
    test_equal_versions_are_switched_and_back,
    test_the_former_version_takes_no_writes_for_a_while,
)

pytestmark = pytest.mark.parametrize("layout", ["citus"], indirect=True)

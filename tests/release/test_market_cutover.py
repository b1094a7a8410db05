"""From version 1 to version 2 and back while ticks and reorganisations arrive through the APIs; nothing is lost or
stored twice."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.functional.market_process import SECONDS, ApiProcess
from tests.functional.market_versions import Chain, Versions, assert_holds
from tests.functional.serving import until

pytestmark = pytest.mark.functional


def test_a_cutover_and_a_rollback_under_load_lose_and_double_nothing(state_dir: Path) -> None:
    api = ApiProcess(state_dir)
    api.start()
    with closing(Versions(api)) as versions:
        chain = Chain(lambda: api.port, api.token("alg"))
        chain.grow(200)
        chain.start()
        for current, new in ((1, 2), (2, 1)):
            versions.follow(current, new)
            before = chain.sent
            said = versions.run("cutover", str(new))
            assert f"version {new} is the current one, and version {current} is kept" in said
            until(lambda new=new: versions.served(api) == f"md_ticks_v{new}", SECONDS)
            until(lambda before=before: chain.sent > before + 200, SECONDS)
            versions.end_copy()
        chain.stop()
        assert chain.reorganisations > 10
        assert_holds(api, chain)

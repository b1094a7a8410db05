"""``bin/start`` or one of its services is killed at many points. Nothing remains, and the next start works."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.functional.session_process import eventually
from tests.functional.test_start import READY, gone_soon, identity, left_over, started
from tests.functional.test_start import card_environment as card_environment

pytestmark = pytest.mark.functional


def services(environment: dict[str, str], module: str) -> list[int]:
    """The processes that serve with this environment."""
    mine = f"MARKET_STATE_DIR={environment['MARKET_STATE_DIR']}".encode()
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            if command.rstrip().endswith(module) and mine in (place / "environ").read_bytes():
                found.append(int(place.name))
    return found


@pytest.mark.parametrize(("module", "when"), [("marketdata api", "ready"), ("cardapp serve", "starting")])
def test_a_service_that_is_killed_ends_the_other(card_environment: dict[str, str], module: str, when: str) -> None:
    """This also holds while the session is being started and nothing waits for a service."""
    with started(card_environment, until=READY if when == "ready" else "") as (process, _printed):
        if when == "starting":
            eventually(lambda: any("cardapp.session_host start" in each for each in left_over(card_environment)), 60)
        for each in services(card_environment, module):
            os.kill(each, signal.SIGKILL)
        rest, _ = process.communicate(timeout=60)
        assert process.returncode == 128 + signal.SIGKILL
        assert READY not in rest
    assert gone_soon(card_environment)


@pytest.mark.parametrize("when", [READY, "cardapp.session_host.mcp_server"])
def test_nothing_outlives_a_start_that_is_killed(card_environment: dict[str, str], when: str) -> None:
    """SIGKILL ends it as soon as the given part runs, or when it is ready. Nothing prevents the next start."""
    with started(card_environment, until=READY if when == READY else "") as (process, _printed):
        if when != READY:
            eventually(lambda: any(when in command for command in left_over(card_environment)), 60)
        process.kill()
        process.wait(timeout=30)
        assert gone_soon(card_environment), left_over(card_environment)
    assert list(Path(card_environment["CARD_STATE_DIR"]).rglob("session.json")) == []
    with started(card_environment) as (_process, printed):
        assert printed.endswith(READY)
        assert identity(printed)["id"] == "arena"
        assert "session default runs\n" in printed
    assert left_over(card_environment) == []

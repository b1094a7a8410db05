"""The commands under another account than the one whose state directory is set."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.functional.market_process import command
from tests.functional.other_accounts import NOBODY, market_commands, needs_root

pytestmark = [pytest.mark.functional, needs_root]

COMMANDS = (
    "token list", "init", "ingestor dead-letters list", "ingestor check", "ingestor", "backfill --from-block 1",
    "user list", "frontend", "api", "db", "demo reset", "export --format csv",
)  # fmt: skip


def test_the_state_of_another_account_is_not_permitted(state_dir: Path) -> None:
    """A command neither says that something is missing, nor shows a traceback."""
    state_dir.chmod(0o755)
    state = state_dir / "state"
    assert command(state, "user", "list").returncode == 0
    for name in ("ingestor", "secrets"):
        (state / name).mkdir(mode=0o700, parents=True)
    for mode in (0o700, 0o711):
        state.chmod(mode)
        for arguments, code, said in market_commands(NOBODY, state, COMMANDS):
            # The ingestor waits until the account may read its files, and is ended here.
            assert code == (0 if arguments == "ingestor" else 1), (arguments, code, said)
            assert "not permitted: " in said, (arguments, said)
            assert "belongs to root, and this is nobody" in said, said

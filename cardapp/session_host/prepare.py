"""Brings a session's sources up to date and builds them: ``python -m cardapp.session_host.prepare``.

Building runs commands of the card. So this runs where the card's program runs: in the calling process for the local
runtime, and as a command in the container for podman.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cardapp.card.source import load_card
from cardapp.errors import CardAppError
from cardapp.session_host.build import Workspace
from cardapp.session_host.profile import load_profile
from cardapp.session_host.sources import Fetched, fetch


@dataclass(frozen=True)
class Preparation:
    """What is prepared: the sources of the card in ``card_source``, in ``work`` (absolute paths), for a profile.

    With ``refresh`` edited files are replaced, after a backup, and the program is built in any case.
    """

    card_source: str
    work: str
    profile: str
    refresh: bool

    def run(self) -> Fetched | None:
        """The report of the fetch; None if the profile uses the card's sources in place.

        :raises CardAppError: the card cannot be read, its sources cannot be fetched, or its build fails.
        """
        loaded, profile = load_card(self.card_source), load_profile(self.profile)
        fetched = None
        if not profile.in_place:
            fetched = fetch(loaded.target_directory, Path(self.work), loaded.card.target, replace_edits=self.refresh)
        workspace = Workspace(Path(self.work), loaded.card.target)
        if self.refresh or workspace.is_stale():
            workspace.build(profile.build_timeout)
        return fetched


def command(preparation: Preparation) -> list[str]:
    """The arguments of this module, after ``python -m cardapp.session_host.prepare``."""
    return [json.dumps(asdict(preparation))]


def result(output: str) -> Fetched | None:
    """The report in what the command printed.

    :raises CardAppError: the command failed, with the message and the code that it had.
    """
    try:
        found = json.loads(output)
    except ValueError as error:
        raise CardAppError(f"the preparation of the sources ended without a report: {output[-500:]}") from error
    if "error" in found:
        raise CardAppError(found["error"]["detail"], code=found["error"]["code"])
    return Fetched(**found["fetched"]) if found["fetched"] is not None else None


def main(argv: list[str]) -> int:
    """Print ``{"fetched": …}`` or ``{"error": {"code", "detail"}}``; returns 0 for both."""
    try:
        fetched = Preparation(**json.loads(argv[0])).run()
    except CardAppError as error:
        return _report({"error": {"code": error.code, "detail": error.detail}})
    return _report({"fetched": asdict(fetched) if fetched is not None else None})


def _report(document: dict[str, Any]) -> int:
    json.dump(document, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The launchers ``bin/marketdata-COMMAND``: links to one script, which takes the command from the name of the link."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

from marketdata.cli import make_parser
from marketdata.settings import ROOT

LAUNCHERS = sorted(ROOT.glob("bin/marketdata-*"))


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=120)


def commands() -> set[str]:
    (actions,) = (each for each in make_parser()._actions if isinstance(each, argparse._SubParsersAction))
    return set(actions.choices)


def test_every_command_has_a_launcher_that_links_to_the_script() -> None:
    assert {each.name.removeprefix("marketdata-") for each in LAUNCHERS} == commands()
    assert {str(each.readlink()) for each in LAUNCHERS} == {"marketdata"}


def test_a_launcher_shows_the_help_of_its_command() -> None:
    done = run(ROOT / "bin" / "marketdata-token", "--help")
    assert (done.returncode, done.stdout.split()[:2]) == (0, ["usage:", "bin/marketdata-token"])


def test_an_unknown_command_is_answered_with_those_that_exist(tmp_path: Path) -> None:
    (tmp_path / "marketdata-tokn").symlink_to(ROOT / "bin" / "marketdata")
    done = run(tmp_path / "marketdata-tokn")
    assert done.returncode == 2
    assert "argument COMMAND: invalid choice: 'tokn' (choose from " in done.stderr
    assert done.stderr.endswith("; did you mean token?\n")

"""The command ``new``: its options, and the check of the card that it writes."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path

from cardapp.authoring.located_program import Wish, locate
from cardapp.authoring.new_card import LANGUAGES, check_folder, write_at, write_starter
from cardapp.console import ArgumentParser, end_as_after_ctrl_c
from cardapp.errors import UsageError

DONE = 0


def add_new(commands: argparse._SubParsersAction[ArgumentParser]) -> None:
    """Add the command to the parser of ``cardapp``."""
    parser = commands.add_parser(
        "new",
        help="write a new card that passes all checks, on a small program or on a function of your program",
        description="Writes a card into DIR and replays it. Without --at the card gets its own small program. With "
        "--at it stops where a program of your repository calls the function for the first time: a copy of the "
        "repository is built as its Makefile, configure, CMakeLists.txt or Cargo.toml says, and its programs are run.",
    )
    parser.add_argument("directory", metavar="DIR", help="the folder of the card; it must be new or empty")
    parser.add_argument("--at", metavar="FILE:FUNCTION", help="a function of an existing program")
    parser.add_argument("--language", choices=LANGUAGES, help="the language of the small program (default: c)")
    existing = parser.add_argument_group("with --at, if the program is not found or needs input")
    existing.add_argument("--build", metavar="COMMAND", help="the build command, run in the current folder")
    existing.add_argument("--program", metavar="FILE", help="the program that the build makes")
    existing.add_argument("--args", metavar="TEXT", help="the program's arguments, quoted as for a shell")
    existing.add_argument("--stdin", metavar="FILE", help="the program's standard input, a file of the repository")
    parser.add_argument(
        "--profile", help="a section of etc/card-session.ini (default: CARD_SESSION_PROFILE, else local)"
    )
    parser.set_defaults(run=_new)


def _new(options: argparse.Namespace) -> int:
    end_as_after_ctrl_c()
    folder = Path(options.directory)
    profile = options.profile or os.environ.get("CARD_SESSION_PROFILE")
    check_folder(folder)
    if options.at is None:
        _refuse_options(options, ("build", "program", "args", "stdin"), "needs --at FILE:FUNCTION")
        language = options.language or "c"
        write_starter(folder, language, profile)
    else:
        _refuse_options(options, ("language",), "is for a card without --at: the file's suffix determines its language")
        found = locate(_wish(options), _report)
        _report(f"{found.program} calls {found.function}: writing and replaying the card")
        write_at(folder, found, profile)
    print(f"{folder / 'card_source.json'} is written, and its snapshot was replayed and matches")
    print(f"next: write its texts and further steps, then bin/cardapp record {folder}")
    return DONE


def _report(doing: str) -> None:
    print(doing, flush=True)


def _refuse_options(options: argparse.Namespace, names: tuple[str, ...], reason: str) -> None:
    for name in names:
        if getattr(options, name) is not None:
            raise UsageError(f"new --{name} {reason}")


def _wish(options: argparse.Namespace) -> Wish:
    try:
        arguments = tuple(shlex.split(options.args or ""))
    except ValueError as error:
        raise UsageError(f"new --args: {error}") from error
    return Wish(options.at, options.build, options.program, arguments, options.stdin)

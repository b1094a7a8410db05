"""A debugging strategy: gdb commands at a stop, and the expected output of each command.

Only the commands in :data:`COMMANDS` may be run, under their full names. gdb itself knows aliases and abbreviations, a
prefix that runs a shell (``!``, ``|``), and commands that run other commands (``frame apply``), so a command is parsed
here first. Only a name with its arguments is passed to gdb.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cardapp.card import expression
from cardapp.card.model import Expectation
from cardapp.card.proof import same_value

_EXPRESSION = ".*"
_COUNT = r"[0-9]{0,6}"
_FRAME = r"[0-9]{0,6}|level [0-9]{1,6}|function [A-Za-z_][A-Za-z0-9_:]*"

COMMANDS: Mapping[str, str] = {
    "print": _EXPRESSION,
    "info": r"[a-z][a-z-]*( .*)?",
    "backtrace": r"(full ?)?(-?[0-9]{1,6})?",
    "x": _EXPRESSION,
    "ptype": _EXPRESSION,
    "list": _EXPRESSION,
    "frame": _FRAME,
    "up": _COUNT,
    "down": _COUNT,
    "next": _COUNT,
    "step": _COUNT,
    "finish": "",
    "until": _EXPRESSION,
    "continue": _COUNT,
    "display": _EXPRESSION,
    "tbreak": _EXPRESSION,
    "output": _EXPRESSION,
}
"""The commands of a strategy, each with the pattern of its arguments (contract: "Predicting, a class")."""

MOVES = frozenset({"next", "step", "finish", "until", "continue"})
"""The commands that move the program."""

_FORMATTED = frozenset({"print", "x", "ptype", "display", "output"})
_VALUES = frozenset({"print", "display", "output"})
_COMMAND = re.compile(r"(?P<name>[^\s/]*)(?P<format>/\S*)?(?:\s+(?P<rest>.*))?", re.DOTALL)
_FORMAT = re.compile(r"/-?[0-9]{0,4}[a-zA-Z]{0,4}")
_MAX_NAME = 30
_BEFORE_VALUE = re.compile(r"^(?:\d+: .*? = |\$\d+ = )", re.DOTALL)


@dataclass(frozen=True)
class Strategy:
    """``key`` is the snapshot that the strategy is pinned to. ``expected_observations`` is as long as ``commands``;
    None: nothing is expected of this command."""

    id: str
    key: str
    label: str
    commands: tuple[str, ...]
    expected_observations: tuple[str | None, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "key": self.key,
            "label": self.label,
            "commands": list(self.commands),
            "expected_observations": list(self.expected_observations),
        }


def name_of(command: str) -> str:
    """The name of the command: ``print`` of ``print/x a``."""
    found = _COMMAND.fullmatch(command.strip())
    return found["name"] if found is not None else ""


def fault(command: str, macros: Collection[str] = ()) -> str | None:
    """Why the command may not be run, as a sentence without a subject. None if it may be. ``macros`` are the names of
    function-like macros, which a command that prints a value may use."""
    found = _COMMAND.fullmatch(command.strip())
    name = found["name"] if found is not None else ""
    if found is None or name not in COMMANDS:
        shown = name[:_MAX_NAME] or command.strip()[:_MAX_NAME]
        return f"begins with {shown!r}, which is not allowed: write one of {', '.join(COMMANDS)}, in full"
    form, rest = found["format"], (found["rest"] or "").strip()
    if form is not None and (name not in _FORMATTED or _FORMAT.fullmatch(form) is None):
        return f"has {form[:_MAX_NAME]!r} behind {name}: give a format like /x or /8xb, and only to print, x, output"
    if re.fullmatch(COMMANDS[name], rest) is None:
        return f"has arguments that {name} may not have here: {_arguments(name)}"
    if (reason := expression.fault(rest, macros if name in _VALUES else ())) is not None:
        return f"{reason}; look at a variable instead"
    return None


def _arguments(name: str) -> str:
    return {
        "frame": "give a number, `level N` or `function NAME`",
        "finish": "give none",
        "info": "give one of its topics, like `locals`",
        "backtrace": "give a number, or `full`",
    }.get(name, "give a number or none")


def results(strategy: Strategy, outputs: Sequence[str]) -> Iterator[dict[str, Any]]:
    """``{command, output, expected?, match?}`` of each command. A command that did not run has no output."""
    for place, (command, expected) in enumerate(zip(strategy.commands, strategy.expected_observations, strict=True)):
        output = outputs[place] if place < len(outputs) else None
        found: dict[str, Any] = {"command": command, "output": output}
        if expected is not None:
            found |= {"expected": expected, "match": output is not None and is_observed(command, expected, output)}
        yield found


def is_observed(command: str, expected: str, output: str) -> bool:
    """Whether the command printed the expected output.

    A value is compared as in a proof. Any other output must contain the expected text as whole words.
    """
    found = output.strip()
    if name_of(command) in _VALUES:
        return same_value(Expectation(command, _value(expected)), _value(found)) or _is_line(expected, found)
    wanted, text = _plain(expected), _plain(found)
    return re.search(rf"(?<!\w){re.escape(wanted)}(?!\w)", text) is not None


def _value(text: str) -> str:
    """``48`` of ``$1 = 48`` and of ``2: a.used = 48``."""
    return _BEFORE_VALUE.sub("", text.strip())


def _is_line(expected: str, output: str) -> bool:
    """Whether the whole output equals the expected text. The output may be a message of gdb instead of a value."""
    return _plain(expected) == _plain(output)


def _plain(text: str) -> str:
    return " ".join(text.split())

"""The table of keyboard shortcuts (contract: ``GET /api/keyboard``). The page and the editor make their key bindings
from this table.

A shortcut is written as modifiers (``Ctrl``, ``Alt``, ``Shift``) and a key, joined by ``+``. The key is a KeyboardEvent
``key`` value (``F1``, ``Enter``, ``ArrowLeft``). A printable key is named by its position on a US keyboard (``6``,
``Backtick``), because modifiers and other keyboard layouts change the character.

Why these keys:

- The page uses the left and right arrows without ``Alt``, because browsers use ``Alt`` with an arrow for their history.
  Up, down, ``Space``, ``Home`` and ``End`` remain for scrolling.
- The editor uses the arrows with ``Alt``, because Neovim does not use these keys.
- ``Alt`` and a digit select a level, from the coarsest to the finest. ``Alt+6`` for the allocator is
  in the contract; ``Alt+7`` and ``Alt+8`` follow it.
- ``F9`` and ``F4`` move the program. With ``Shift`` the program enters or leaves a function.
- No shortcut uses a key that browsers reserve (F3, F5, F6, F7, F10 to F12, ``Ctrl`` with a letter, a digit or Tab). In
  the editor, no shortcut uses a key that Neovim's modes need (``Escape``, ``Enter``, plain characters). ``F1`` replaces
  Neovim's help key; ``:help`` still works.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from cardapp.card.model import LEVELS, Level

Scope = Literal["page", "editor"]


@dataclass(frozen=True)
class Shortcut:
    """Any of ``keys`` triggers the action. ``level`` is the level that the action applies to; None means the current
    focus level."""

    action: str
    keys: tuple[str, ...]
    scope: Scope
    description: str
    level: Level | None = None

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"action": self.action, "keys": list(self.keys), "scope": self.scope}
        if self.level is not None:
            shown["level"] = self.level
        return {**shown, "description": self.description}


_RESET = "Restart the program and refresh the debugger"
_SYNC = "Run the program to the stop of the position"
_REDRAW = "Fit the editor to its pane and redraw it"
_PREVIOUS = "Go to the previous step, task, … of the position's level"
_NEXT = "Go to the next step, task, … of the position's level"

SHORTCUTS: tuple[Shortcut, ...] = (
    Shortcut("reset", ("F1",), "page", _RESET),
    Shortcut("sync", ("F2", "Enter"), "page", _SYNC),
    Shortcut("redraw", ("Ctrl+Backtick",), "page", _REDRAW),
    Shortcut("previous", ("ArrowLeft",), "page", _PREVIOUS),
    Shortcut("next", ("ArrowRight",), "page", _NEXT),
    Shortcut("previous_stop", ("Shift+ArrowLeft",), "page", "Go to the previous stop of the step"),
    Shortcut("next_stop", ("Shift+ArrowRight",), "page", "Go to the next stop of the step"),
    Shortcut("coarser", ("Shift+ArrowUp",), "page", "Go up a level: from a step to its phase"),
    Shortcut("finer", ("Shift+ArrowDown",), "page", "Go down a level: from a phase to its first step"),
    *(
        Shortcut("focus", (f"Alt+{digit}",), "page", f"Go to the position's {level}", level)
        for digit, level in enumerate(LEVELS)
    ),
    Shortcut("allocator", ("Alt+6",), "page", "Show or hide the memory"),
    Shortcut("annotations", ("Alt+7",), "page", "Show or hide all annotations"),
    Shortcut("explain", ("Alt+8",), "page", "Show or hide the list of annotations and strategies"),
    Shortcut("events", ("Alt+9",), "page", "Show or hide the events"),
    Shortcut("control", ("F8",), "page", "Send keys to the editor, or stop sending them"),
    Shortcut("next_line", ("F9",), "page", "Execute one line of the program"),
    Shortcut("step_into", ("Shift+F9",), "page", "Execute one line, and enter the function that it calls"),
    Shortcut("go_on", ("F4",), "page", "Let the program continue, or interrupt it"),
    Shortcut("finish_function", ("Shift+F4",), "page", "Let the program return from its function"),
    Shortcut("approve", ("A",), "page", "Approve the step, or withdraw the approval"),
    Shortcut("search", ("/",), "page", "Search titles, texts and code"),
    Shortcut("help", ("?",), "page", "Show the shortcuts"),
    Shortcut("dismiss", ("Escape",), "page", "Close the open dialog or panel"),
    Shortcut("reset", ("F1",), "editor", _RESET),
    Shortcut("sync", ("F2",), "editor", _SYNC),
    Shortcut("redraw", ("Ctrl+Backtick",), "editor", _REDRAW),
    Shortcut("previous", ("Alt+ArrowLeft",), "editor", _PREVIOUS),
    Shortcut("next", ("Alt+ArrowRight",), "editor", _NEXT),
)


def as_json() -> dict[str, Any]:
    """``{levels: [...], shortcuts: [{action, keys, scope, level?, description}]}``."""
    return {"levels": list(LEVELS), "shortcuts": [shortcut.as_json() for shortcut in SHORTCUTS]}

"""The one table of shortcuts (contract: ``GET /api/keyboard``): the page and the editor's plugin bind what it lists.

Keys are written for both: modifiers ``Ctrl``, ``Alt``, ``Shift`` and a key, joined by ``+``. The key is a KeyboardEvent
``key`` value (``F1``, ``Enter``, ``ArrowLeft``), but a printable one is named by its place on a US keyboard (``6``,
``Backtick``), so that a modifier or another layout does not change it.

What was chosen and why:

- A page has the plain arrows to the left and right (browsers keep ``Alt`` with them for their history), and leaves up
  and down, ``Space``, ``Home`` and ``End`` to scrolling. The editor has the same two with ``Alt``, free in Neovim.
- ``Alt`` and a digit choose the level, from the coarsest to the finest; ``Alt+6`` shows the allocator, as the contract
  has it.
- Nothing uses a key that a browser keeps to itself (F3, F5, F6, F7, F10 to F12, ``Ctrl`` with a letter, a digit or Tab)
  or that Neovim's modes live on (``Escape``, ``Enter`` and plain characters are the editor's own). ``F1`` is taken
  from Neovim's help, which ``:help`` still opens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from cardapp.card.model import LEVELS, Level

Scope = Literal["page", "editor"]


@dataclass(frozen=True)
class Shortcut:
    """``keys`` are alternatives. ``level`` is what the action works on; None is the position's focus level."""

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
_SYNC = "Bring the program to the saved position"
_REDRAW = "Fit the editor's pane and draw all of it again"
_PREVIOUS = "Go to the previous item on the focus level"
_NEXT = "Go to the next item on the focus level"

SHORTCUTS: tuple[Shortcut, ...] = (
    Shortcut("reset", ("F1",), "page", _RESET),
    Shortcut("sync", ("F2", "Enter"), "page", _SYNC),
    Shortcut("redraw", ("Ctrl+Backtick",), "page", _REDRAW),
    Shortcut("previous", ("ArrowLeft",), "page", _PREVIOUS),
    Shortcut("next", ("ArrowRight",), "page", _NEXT),
    Shortcut("coarser", ("Shift+ArrowUp",), "page", "Focus the level above"),
    Shortcut("finer", ("Shift+ArrowDown",), "page", "Focus the level below"),
    *(
        Shortcut("focus", (f"Alt+{digit}",), "page", f"Focus the {level} level", level)
        for digit, level in enumerate(LEVELS)
    ),
    Shortcut("allocator", ("Alt+6",), "page", "Show or hide the picture of the allocator"),
    Shortcut("control", ("F8",), "page", "Give the keyboard to the editor, or take it back"),
    Shortcut("dismiss", ("Escape",), "page", "Close what lies over the page"),
    Shortcut("reset", ("F1",), "editor", _RESET),
    Shortcut("sync", ("F2",), "editor", _SYNC),
    Shortcut("redraw", ("Ctrl+Backtick",), "editor", _REDRAW),
    Shortcut("previous", ("Alt+ArrowLeft",), "editor", _PREVIOUS),
    Shortcut("next", ("Alt+ArrowRight",), "editor", _NEXT),
)


def as_json() -> dict[str, Any]:
    """``{levels: [...], shortcuts: [{action, keys, scope, level?, description}]}``."""
    return {"levels": list(LEVELS), "shortcuts": [shortcut.as_json() for shortcut in SHORTCUTS]}

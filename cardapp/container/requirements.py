"""The programs that a session needs."""

from __future__ import annotations

import shutil

from cardapp.errors import MissingRequirement

# Each with the Debian package that brings it.
PROGRAMS = {"nvim": "neovim", "gdb": "gdb", "tmux": "tmux", "gcc": "gcc", "make": "make"}


def require_programs() -> None:
    """:class:`MissingRequirement` names everything that is not there, and how to get it, in one message."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        packages = " ".join(PROGRAMS[name] for name in missing)
        raise MissingRequirement(
            f"missing on this machine: {', '.join(missing)}. On Debian or Ubuntu: sudo apt-get install {packages}"
        )

"""The programs that a session needs."""

from __future__ import annotations

import shutil

from cardapp.errors import MissingRequirement

# Program: its Debian package.
PROGRAMS = {"nvim": "neovim", "gdb": "gdb", "tmux": "tmux", "gcc": "gcc", "make": "make"}


def require_programs() -> None:
    """:raises MissingRequirement: programs are missing; names all of them and how to install them."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        packages = " ".join(PROGRAMS[name] for name in missing)
        raise MissingRequirement(
            f"missing on this machine: {', '.join(missing)}. On Debian or Ubuntu: sudo apt-get install {packages}"
        )

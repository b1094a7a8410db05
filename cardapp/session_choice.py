"""The path of a session's socket, and the file that names the chosen session. The service and the session tool use
both."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from cardapp.errors import StateError

MCP_SOCKET = Path("run", "mcp.sock")
"""The path of the MCP server's socket in the session's folder."""


def session_folder(state_directory: Path, name: str) -> Path:
    """The folder of the session ``name``. Resolved, because gdb and Neovim name files by their real path."""
    return state_directory.resolve() / "sessions" / name


def choose(choice: Path, name: str, socket: Path) -> None:
    """Write the session into the choice file. Raises :class:`StateError` if that fails."""
    write_json(choice, {"name": name, "socket": str(socket)}, "CARD_MCP_CHOICE")


def write_json(path: Path, document: dict[str, Any], setting: str = "CARD_STATE_DIR") -> None:
    """Replace ``path`` atomically, so that a reader sees the old or the new document, also after a crash.

    :raises StateError: the file cannot be written; the message names ``setting``, which decides the path.
    """
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with new.open("w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        raise StateError(f"{path} cannot be written ({error.strerror}); set {setting} to a writable place") from error
    finally:
        with contextlib.suppress(OSError):
            new.unlink()

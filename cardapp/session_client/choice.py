"""The MCP choice: the file that names the session on which this service acts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cardapp.errors import SessionUnavailable
from cardapp.schema import decode

_START = "start one with bin/card-session start CARD_DIR, or choose one with bin/card-session select NAME"


@dataclass(frozen=True)
class Choice:
    """A session's name and the path of its MCP socket."""

    name: str
    socket: str


def read_choice(path: Path) -> Choice:
    """The chosen session; :class:`SessionUnavailable` says why there is none and how to choose one."""
    try:
        document = decode(path.read_bytes())
    except FileNotFoundError as error:
        raise SessionUnavailable(f"no session is chosen: {_START}") from error
    except (OSError, ValueError) as error:
        raise SessionUnavailable(f"{path} cannot be read ({error}): {_START}", code="bad_choice") from error
    name = document.get("name") if isinstance(document, dict) else None
    socket = document.get("socket") if isinstance(document, dict) else None
    if not isinstance(name, str) or not isinstance(socket, str) or "\0" in socket:
        raise SessionUnavailable(f'{path} must hold {{"name": …, "socket": …}}: {_START}', code="bad_choice")
    return Choice(name, socket)

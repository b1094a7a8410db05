"""Finds the lines of the values of a JSON text; pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s\[\]{}:,"]+')


def pointer(path: Iterable[str | int]) -> str:
    """The JSON pointer (RFC 6901) of a path of names and positions."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def lines(text: str) -> dict[str, int]:
    """The line, from 1, on which each value of a valid JSON text begins, by its JSON pointer. The line of a member is
    the line of its name."""
    found: dict[str, int] = {}
    path: list[str | int] = []
    is_name = False
    line, at = 1, 0
    for token in _TOKEN.finditer(text):
        line += text.count("\n", at, token.start())
        at, sign = token.start(), token[0]
        if sign in ("}", "]"):
            path.pop()
            is_name = False
        elif sign == ",":
            is_name = isinstance(path[-1], str)
            if isinstance(path[-1], int):
                path[-1] += 1
        elif is_name:
            path[-1] = json.loads(sign)
            found[pointer(path)] = line
            is_name = False
        elif sign != ":":
            found.setdefault(pointer(path), line)
            if sign == "{":
                path.append("")
                is_name = True
            elif sign == "[":
                path.append(0)
    return found

"""The constants of the program in predictions, which the session's gdb evaluates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cardapp.card.literal import Constant, Constants
from cardapp.errors import CardAppError
from cardapp.session_client.session_tools import CONSTANTS

SECONDS = 2.0
_MAX_TEXTS = 100
"""How many texts the session takes at once."""


def read(call: Callable[[str, dict[str, Any]], dict[str, Any]], texts: Sequence[str]) -> Constants:
    """What gdb makes of texts with names of the program's constants and types, asked with ``call(tool, arguments)``.

    The rest is missing: also everything, if the session does not answer.
    """
    if not texts:
        return {}
    try:
        found = call(CONSTANTS, {"texts": [*texts][:_MAX_TEXTS]})
    except CardAppError:
        return {}
    return {text: Constant(each["value"], each["number"]) for text, each in found["values"].items()}

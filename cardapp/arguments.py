"""The parser of command lines: the one of the standard library, with a better message."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, NoReturn

_MISSING = "the following arguments are required"


class ArgumentParser(argparse.ArgumentParser):
    """Names a mistyped option, where argparse only says which argument is missing."""

    _given: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._given = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        unknown = " ".join(each for each in takewhile(lambda each: each != "--", self._given) if self._is_unknown(each))
        super().error(f"unrecognized arguments: {unknown}" if unknown and message.startswith(_MISSING) else message)

    def _is_unknown(self, argument: str) -> bool:
        """argparse knows an option by its beginning, too."""
        name = argument.partition("=")[0]
        return name.startswith("--") and not any(each.startswith(name) for each in self._option_string_actions)

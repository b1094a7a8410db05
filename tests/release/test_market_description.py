"""The description of the data API, checked by schemathesis for long, and with tokens of the wrong scope."""

from __future__ import annotations

import pytest

from marketdata import token
from tests.functional.market_process import ApiProcess
from tests.functional.test_market_description import ADMIN, api, run, tokens

__all__ = ["api", "tokens"]

pytestmark = pytest.mark.functional


def test_many_responses_match_the_description(api: ApiProcess, tokens: dict[str, str]) -> None:
    run(api, tokens, "--exclude-path-regex", ADMIN, "--max-examples", "60")


@pytest.mark.parametrize("holder", ["read", "nobody"])
def test_responses_to_any_one_token_match_the_description(api: ApiProcess, tokens: dict[str, str], holder: str) -> None:
    """With one token, half of the requests or all are refused. The description lists these refusals, too."""
    shown = dict.fromkeys(tokens, (tokens | {"nobody": token.generate()})[holder])
    run(api, shown, "--phases", "coverage", "--exclude-path-regex", ADMIN, "--warnings", "off")

"""Requests of a page that a test holds back or answers itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, Route


def held(page: Page, url: str, times: int | None = None) -> list[Route]:
    """The requests to this address from now on. They wait until the test continues or answers them."""
    found: list[Route] = []

    def hold(route: Route) -> None:
        found.append(route)

    page.route(url, hold, times=times)
    return found


def answer(page: Page, url: str | Callable[[str], bool], body: Any, status: int = 200, **headers: str) -> None:
    """Answer each request to this address with ``body``, also after the test has changed it."""
    kind = "application/json" if status < 400 else "application/problem+json"

    def fulfill(route: Route) -> None:
        route.fulfill(status=status, headers={"Content-Type": kind, **headers}, body=json.dumps(body))

    page.route(url, fulfill)

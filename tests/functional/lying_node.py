"""A node that leaves out logs: a proxy in front of the real one."""

from __future__ import annotations

import http.client
import json
import random
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

from tests.functional.anvil import SECONDS, Anvil
from tests.marketdata.source.provider import Provider, error

Lie = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
"""Changes a list of logs that the node has answered."""


class LyingNode(Provider):
    """Passes requests on. ``logs`` changes the logs of each answer of ``eth_getLogs`` that has logs, except of
    searches for the creation of a pool, which name two topics. ``receipts`` changes the logs of each receipt. While
    they are None, the answers are honest. ``lacks`` is a method that is unknown. ``calls`` counts the calls by method.
    Ranges of more than ``most_blocks`` are refused; ``ranges`` are those that were not."""

    def __init__(self, chain: Anvil) -> None:
        super().__init__(lambda request, _: self._passed_on(request))
        self._port = chain.port
        self._lock = threading.Lock()
        self.logs: Lie | None = None
        self.receipts: Lie | None = None
        self.lacks = ""
        self.calls: dict[str, int] = {}
        self.most_blocks: int | None = None
        self.ranges: list[tuple[int, int]] = []

    def _passed_on(self, request: Any) -> Any:
        for call in request if isinstance(request, list) else [request]:
            if _asks_for_swaps(call) and "fromBlock" in call["params"][0]:
                first, last = (int(call["params"][0][name], 16) for name in ("fromBlock", "toBlock"))
                if self.most_blocks is not None and last - first >= self.most_blocks:
                    return error(request, f"range {last - first + 1} exceeds limit of {self.most_blocks}", -32602)
                self.ranges.append((first, last))
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=SECONDS)) as connection:
            connection.request("POST", "/", json.dumps(request), {"Content-Type": "application/json"})
            answer = json.loads(connection.getresponse().read())
        asked, answers = (request, answer) if isinstance(request, list) else ([request], [answer])
        calls = {call["id"]: call for call in asked}
        with self._lock:
            for call in answers:
                method = calls[call["id"]]["method"]
                self.calls[method] = self.calls.get(method, 0) + 1
                if method == self.lacks:
                    call["error"] = {"code": -32601, "message": f"the method {method} does not exist"}
                    del call["result"]
                if self.logs is not None and _asks_for_swaps(calls[call["id"]]) and call.get("result"):
                    call["result"] = self.logs(call["result"])
                if self.receipts is not None and method == "eth_getBlockReceipts":
                    for receipt in call.get("result", ()):
                        receipt["logs"] = self.receipts(receipt["logs"])
        return answer


def _asks_for_swaps(call: dict[str, Any]) -> bool:
    return call["method"] == "eth_getLogs" and len(call["params"][0]["topics"]) == 1


class Lies:
    """A :data:`Lie` that drops one log of some answers, and empties others; it says honestly how often."""

    def __init__(self, chance: random.Random, most: int, one_in: int = 4) -> None:
        self._chance = chance
        self._most = most
        self._one_in = one_in
        self.dropped = self.emptied = 0

    def __call__(self, logs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        kind = self._chance.randrange(2 * self._one_in)
        if kind == 0 and self.dropped < self._most:
            self.dropped += 1
            at = self._chance.randrange(len(logs))
            return logs[:at] + logs[at + 1 :]
        if kind == 1 and self.emptied < self._most:
            self.emptied += 1
            return []
        return logs

    @property
    def is_done(self) -> bool:
        return self.dropped == self.emptied == self._most

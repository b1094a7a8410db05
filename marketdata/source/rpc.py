"""JSON-RPC over HTTP: one kept-alive connection, calls in batches, retries, a budget of calls per second.

One thread uses an :class:`Rpc`. The URL and the header values may contain a key, so no error message shows them.
"""

from __future__ import annotations

import base64
import http.client
import json
import random
import re
import socket
import threading
from collections.abc import Sequence
from contextlib import closing, suppress
from copy import copy
from functools import partial
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from marketdata.errors import ProviderError, RangeRefused, Stopped
from marketdata.source.provider_errors import Kind, meaning
from marketdata.source.rpc_file import Endpoint

TIMEOUT = 20.0
"""Seconds of silence after which a request fails."""
MAX_RESPONSE_BYTES = 256 << 20
MAX_RANGE_BYTES = 16 << 20
"""A larger answer for several blocks is not read: fewer blocks are asked for, which need less memory."""
_MAX_BATCH = 100
"""Maximum number of calls in one request. If ``rpc.json`` allows fewer calls per second, the batches are smaller."""
FORGET = 500
"""After this many answered batches a larger batch is tried again, because a proxy's limit may have been temporary."""
TRIES = 6
"""How often a request is sent before its failure is reported."""
MAX_RETRY_AFTER = 60.0
"""The longest time in seconds that a provider's ``Retry-After`` is obeyed."""
_RATE_REFUSALS = 2
"""After this many rate errors for one batch, the batch is halved and the halves are sent one after the other."""
MIN_PAUSE, _MAX_PAUSE = 0.25, 8.0
_CREDENTIAL_ERRORS = (http.client.UNAUTHORIZED, http.client.FORBIDDEN)
_MIN_SECRET_LENGTH = 8
"""Shorter parts of a path or query, like ``v2``, are not secrets."""


_REVERT_CODES = (3, -32015)
"""The code of an error when a contract reverts the call: of geth and most other nodes, and of Nethermind."""


class Call(NamedTuple):
    method: str
    params: Sequence[Any] = ()


class Refusal(NamedTuple):
    """Replaces the result of a call that the provider answered with an error that ``provider_errors`` does not know.
    ``is_revert`` is True if a contract ended the call. Its message is then the contract's own text."""

    detail: str
    is_revert: bool


class _TryAgain(Exception):
    """This try failed; the next try may succeed. ``after`` is how many seconds the provider asks to wait. ``is_rate``
    is True if the provider reported too many requests."""

    def __init__(self, detail: str, after: float | None = None, *, is_rate: bool = False) -> None:
        super().__init__(detail)
        self.after = after
        self.is_rate = is_rate


class _SmallerBatches(Exception):
    """The provider refuses this many calls in one request."""


class Budget:
    """Token bucket of calls per second, shared by all connections to one provider."""

    def __init__(self, per_second: float) -> None:
        self._interval = 1 / per_second
        self._free_at = monotonic()
        self._lock = threading.Lock()

    @property
    def wait(self) -> float:
        """How many seconds the next call has to wait."""
        return max(0.0, self._free_at - monotonic())

    def spend(self, calls: int) -> float:
        """Take one token for each call; return how many seconds to wait before sending them. The bucket holds the
        tokens of one second."""
        with self._lock:
            now = monotonic()
            start = max(self._free_at, now - 1)
            self._free_at = start + calls * self._interval
        return start - now


class Rpc:
    """A client of one provider. Setting ``stopping`` ends every pause with :class:`Stopped`; ``interrupt`` ends a
    running request. If the provider asks to wait longer than ``patience`` seconds, the request is not tried again."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        stopping: threading.Event,
        timeout: float = TIMEOUT,
        tries: int = TRIES,
        patience: float = MAX_RETRY_AFTER,
        min_pause: float = MIN_PAUSE,
        range_bytes: int = MAX_RANGE_BYTES,
        forget: int = FORGET,
    ) -> None:
        headers, per_second = endpoint.headers, endpoint.requests_per_s
        parts = urlsplit(endpoint.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connect = partial(kind, parts.hostname or "", parts.port, timeout=timeout)
        self._connection = self._connect()
        self.name = f"{parts.hostname}:{self._connection.port}"
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._headers = {"Content-Type": "application/json", "Accept": "application/json", **headers}
        self._headers |= authorization(parts)
        credentials = [parts.username, parts.password, *headers.values(), self._headers.get("Authorization")]
        self._secrets = _secrets(self._target, [each for each in credentials if each])
        self._stopping = stopping
        self._tries = tries
        self._patience = patience
        self._min_pause = min_pause
        self._range_bytes = range_bytes
        self._forget = forget
        self.budget = Budget(per_second)
        self._largest = min(_MAX_BATCH, max(1, int(per_second)))
        self._batch = self._largest
        self._answered = 0
        self.requests = 0
        self.answering_s = 0.0
        """The time that this connection has waited for answers, in seconds."""

    @property
    def batch_size(self) -> int:
        """The number of calls that a request has at most, as far as the provider's refusals are known."""
        return self._batch

    def beside(self) -> Rpc:
        """A second client of this provider, with its own connection, for another thread. Both share one budget."""
        other = copy(self)
        other._connection = self._connect()
        other.requests = 0
        return other

    def reach(self, seconds: float) -> None:
        """Try once to connect to the host. Raises ProviderError after at most ``seconds``, the search for the host's
        name included. That search has no timeout of its own, so another thread does it."""
        failures = [f" within {seconds:g} s"]
        connection = self._connect()
        connection.timeout = seconds

        def connect() -> None:
            try:
                with closing(connection):
                    connection.connect()
                failures.clear()
            except socket.gaierror as error:
                failures[0] = f": the name of the host is not found ({error.strerror})"
            except TimeoutError:
                pass
            except OSError as error:
                failures[0] = f": {error.strerror or error}"

        connecting = threading.Thread(target=connect, name="connect", daemon=True)
        connecting.start()
        connecting.join(seconds)
        if failures:
            raise ProviderError(f"{self.name}: no connection{failures[0]}")

    def call(self, method: str, *params: Any) -> Any:
        return self.batch([Call(method, params)])[0]

    def batch(self, calls: Sequence[Call]) -> list[Any]:
        """The results, in the order of the calls.

        Raises RangeRefused when a call asks for too many blocks. Raises ProviderError when every try failed, or when a
        call is refused.
        """
        results = self.each(calls)
        for result in results:
            if isinstance(result, Refusal):
                raise ProviderError(f"{self.name}: {result.detail}", code="call_refused")
        return results

    def each(self, calls: Sequence[Call]) -> list[Any]:
        """Do the same as ``batch``, but return a :class:`Refusal` in the place of each refused call."""
        results: list[Any] = []
        size = self._batch
        while len(results) < len(calls):
            part = calls[len(results) : len(results) + size]
            try:
                results += self._with_retries(part)
            except _SmallerBatches:
                size = len(part) // 2
        # The size is stored only after success. If even a single call fails, the size of the batch is not the cause.
        self._answered = self._answered + 1 if size == self._batch else 0
        self._batch = size
        if self._answered >= self._forget:
            self._answered, self._batch = 0, min(self._largest, size * 2)
        return results

    def interrupt(self) -> None:
        """End a request that another thread waits for. That thread gets ProviderError."""
        with suppress(OSError, AttributeError):
            self._connection.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._connection.close()

    def _with_retries(self, calls: Sequence[Call]) -> list[Any]:
        refused = 0
        for tried in range(1, self._tries + 1):
            wait = self.budget.spend(len(calls))
            if wait > 0:
                self._wait(wait)
            try:
                return self._once(calls)
            except _TryAgain as error:
                self._connection.close()
                if tried == self._tries or self._stopping.is_set() or (error.after or 0) > self._patience:
                    raise ProviderError(f"{self.name}: {self._shown(str(error))}") from None
                refused += error.is_rate
                if refused >= _RATE_REFUSALS and len(calls) > 1:
                    raise _SmallerBatches from None
                # Full jitter: processes that were refused together do not try again together.
                longest = min(_MAX_PAUSE, self._min_pause * 2**tried)
                self._wait(max(error.after or 0, random.uniform(self._min_pause / 2, longest)))
        raise AssertionError  # the last try returns or raises

    def _wait(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise Stopped("the process ends")

    def _once(self, calls: Sequence[Call]) -> list[Any]:
        sent = [
            {"jsonrpc": "2.0", "id": number, "method": call.method, "params": list(call.params)}
            for number, call in enumerate(calls)
        ]
        most = self._range_bytes if any(map(_has_blocks, calls)) else MAX_RESPONSE_BYTES
        status, headers, content = self._exchange(json.dumps(sent if len(sent) > 1 else sent[0]).encode(), most)
        if len(content) > most:
            self._connection.close()
            raise self._too_much(f"its answer has more than {most >> 20} MiB", calls)
        if status in _CREDENTIAL_ERRORS:
            shown = self._shown(content.decode(errors="replace"))
            raise ProviderError(f"{self.name}: it refuses the credentials of rpc.json (HTTP status {status}): {shown}")
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError):
            self._check_status(status, headers, content.decode(errors="replace"), calls)
            raise _TryAgain("its answer is not JSON") from None
        answers = answer if isinstance(answer, list) else [answer]
        if len(answers) == len(calls) and all(map(_is_answer, answers)):
            return self._results(calls, answers)
        # The answer is one error for the whole batch, or no JSON-RPC response.
        self._check_error(json.dumps(answer), calls)
        self._check_status(status, headers, json.dumps(answer), calls)
        raise _TryAgain("its answer does not fit the request")

    def _exchange(self, body: bytes, most: int) -> tuple[int, http.client.HTTPMessage, bytes]:
        """Status, headers and the content, of which at most one byte more than ``most`` is read."""
        self.requests += 1
        began = monotonic()
        try:
            self._connection.request("POST", self._target, body, self._headers)
            response = self._connection.getresponse()
            content = response.read(most + 1)
        except (OSError, http.client.HTTPException) as error:
            raise _TryAgain(f"no answer: {type(error).__name__ if not str(error) else error}") from None
        except BaseException:
            self._connection.close()
            raise
        self.answering_s += monotonic() - began
        return response.status, response.headers, content

    def _results(self, calls: Sequence[Call], answers: list[dict[str, Any]]) -> list[Any]:
        # The id of a single response is ignored: some providers send errors with the id null.
        by_id = {each.get("id"): each for each in answers} if len(answers) > 1 else {0: answers[0]}
        results = []
        for number in range(len(calls)):
            found = by_id.get(number)
            if found is None:
                raise _TryAgain("its answer lacks the result of a call")
            if "result" not in found:
                results.append(self._refusal(calls, number, found.get("error")))
            else:
                results.append(found["result"])
        return results

    def _refusal(self, calls: Sequence[Call], number: int, error: Any) -> Refusal:
        about = error if isinstance(error, dict) else {"message": error}
        message = str(about.get("message"))
        is_revert = about.get("code") in _REVERT_CODES or "revert" in message.lower()
        # The text of a revert comes from a contract. It may read like any message of a provider.
        if not (is_revert and calls[number].method == "eth_call"):
            self._check_error(json.dumps(error), calls)
        return Refusal(self._shown(f"{calls[number].method}: {message}"), is_revert)

    def _check_error(self, text: str, calls: Sequence[Call]) -> None:
        found = meaning(text)
        if found is None:
            return
        if found.kind is Kind.RANGE:
            raise self._too_much(text, calls, found.suggested)
        if found.kind is Kind.BATCH and len(calls) > 1:
            raise _SmallerBatches
        raise _TryAgain(text, is_rate=found.kind is Kind.RATE)

    def _check_status(self, status: int, headers: http.client.HTTPMessage, text: str, calls: Sequence[Call]) -> None:
        if status == http.client.OK:
            return
        about = f"HTTP status {status}: {text}"
        if status == http.client.REQUEST_ENTITY_TOO_LARGE:
            raise self._too_much(about, calls)
        after = headers.get("Retry-After", "")
        raise _TryAgain(
            about,
            min(float(after), MAX_RETRY_AFTER) if after.isdecimal() else None,
            is_rate=status == http.client.TOO_MANY_REQUESTS,
        )

    def _too_much(self, about: str, calls: Sequence[Call], suggested: int | None = None) -> Exception:
        """The error that makes the next request smaller: fewer blocks if a call has a range, otherwise fewer calls."""
        if any(_has_range(call) for call in calls):
            return RangeRefused(f"{self.name}: {self._shown(about)}", suggested)
        return _SmallerBatches() if len(calls) > 1 else _TryAgain(about)

    def _shown(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return " ".join(text.split())[:300]


def authorization(parts: SplitResult) -> dict[str, str]:
    """The header that sends the name and the password of a URL, if it has a name."""
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


def _secrets(target: str, credentials: Sequence[str]) -> list[str]:
    """The texts that no message may show, longest first. A provider's message may contain a credential as it was sent,
    decoded, or in part, like the key of ``Bearer KEY``."""
    parts = {part for part in re.split(r"[/?&=]", target) if len(part) >= _MIN_SECRET_LENGTH}
    parts |= {part for value in credentials for part in (value, *value.split())}
    return sorted((parts | {unquote(each) for each in parts}) - {""}, key=len, reverse=True)


def _has_range(call: Call) -> bool:
    return call.method == "eth_getLogs" and not any("blockHash" in filter for filter in call.params)


def _has_blocks(call: Call) -> bool:
    """Whether the call asks for the logs of more than one block."""
    return _has_range(call) and any(each.get("fromBlock") != each.get("toBlock") for each in call.params)


def _is_answer(value: Any) -> bool:
    return isinstance(value, dict) and ("result" in value or "error" in value)

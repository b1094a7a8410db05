"""Counts requests and ingested items, and renders the sums of all processes in Prometheus' text format (0.0.4)."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from marketdata.api.shared_memory import Name, Row, SharedMemory

LATENCY_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the latency histogram, in seconds."""

_REQUESTS, _LATENCY, _INGESTED, _FAILURES, _LIVE = "requests", "latency", "ingested", "failures", "live"
"""The kinds of rows in the shared memory: the first part of a row's name. The other parts are the values of labels. A
row of latencies has the counts by bound, and at its end the seconds; the others have one number."""
_LATENCY_NUMBERS = len(LATENCY_BOUNDS) + 2


class ByLabel(NamedTuple):
    """The values of a metric, by the value of its label."""

    label: str
    values: Mapping[str, float]


class ByLabels(NamedTuple):
    """The values of a metric, by the values of its labels."""

    labels: Sequence[str]
    values: Mapping[tuple[str, ...], float]


Figure = tuple[str, float | ByLabel | ByLabels]
"""A metric's help text, and its value or its values by labels."""


class Metrics:
    """The counters of this process in the memory that it shares with the others."""

    def __init__(self, memory: SharedMemory) -> None:
        assert memory.own is not None
        self._memory = memory
        self._region = memory.own
        self._rows = self._region.rows()
        self._lock = threading.Lock()

    def observe(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count one answered request. ``path`` is the route's path with the names of its parameters. With their values,
        every value would create another series."""
        with self._lock:
            self._row((_REQUESTS, method, path, status))[0] += 1
            latency = self._row((_LATENCY, method, path), _LATENCY_NUMBERS)
            latency[bisect_left(LATENCY_BOUNDS, seconds)] += 1
            latency[-1] += seconds

    def ingested(self, outcome: str, count: int) -> None:
        """Count ``count`` ingested items with the result ``outcome``."""
        with self._lock:
            self._row((_INGESTED, outcome))[0] += count

    def database_failed(self, code: str, sqlstate: str) -> None:
        """Count a request that failed because of the database, by the code of its error and PostgreSQL's SQLSTATE."""
        with self._lock:
            self._row((_FAILURES, code, sqlstate))[0] += 1

    def live_sent(self, count: int) -> None:
        """Count messages that were sent over WebSockets."""
        with self._lock:
            self._row((_LIVE,))[0] += count

    def _row(self, name: Name, length: int = 1) -> Row:
        row = self._rows.get(name)
        if row is None:
            row = self._rows[name] = self._region.add_row(name, length)
        return row

    def render(self, figures: Mapping[str, Figure]) -> str:
        """Returns the counters of all processes as text. ``figures`` are further metrics by their names.
        Names that end with ``_total`` are counters, the others are gauges."""
        rows = sorted(self._memory.totals().items(), key=lambda each: tuple(map(str, each[0])))
        lines = _head("marketdata_requests_total", "Answered requests.", "counter")
        for (method, path, status), (count,) in _of(_REQUESTS, rows):
            labels = f'method="{method}",path="{path}",status="{status}"'
            lines.append(f"marketdata_requests_total{{{labels}}} {count:.0f}")
        about = "Time from the request's arrival at a worker to its response."
        lines += _head("marketdata_request_seconds", about, "histogram")
        for (method, path), (*counts, seconds) in _of(_LATENCY, rows):
            lines += _histogram(f'method="{method}",path="{path}"', counts, seconds)
        lines += _head("marketdata_ingested_total", "Ingested items by outcome.", "counter")
        for (outcome,), (count,) in _of(_INGESTED, rows):
            lines.append(f'marketdata_ingested_total{{outcome="{outcome}"}} {count:.0f}')
        about = "Requests that failed because of the database."
        lines += _head("marketdata_database_failures_total", about, "counter")
        for (code, state), (count,) in _of(_FAILURES, rows):
            lines.append(f'marketdata_database_failures_total{{code="{code}",sqlstate="{state}"}} {count:.0f}')
        lines += _head("marketdata_live_messages_total", "Candles and ticks sent over WebSockets.", "counter")
        lines.append(f"marketdata_live_messages_total {sum(count for _, (count,) in _of(_LIVE, rows)):.0f}")
        for name, (about, value) in figures.items():
            lines += _head(name, about, "counter" if name.endswith("_total") else "gauge")
            if isinstance(value, ByLabel):
                value = ByLabels([value.label], {(key,): each for key, each in value.values.items()})
            if isinstance(value, ByLabels):
                lines += [f"{name}{{{_labels(value.labels, key)}}} {each:.3f}" for key, each in value.values.items()]
            else:
                lines.append(f"{name} {value:.12g}")
        return "\n".join(lines) + "\n"


def _of(kind: str, rows: Sequence[tuple[Name, list[float]]]) -> Iterator[tuple[Name, list[float]]]:
    """The rows of this kind, by their names without the kind."""
    return ((name[1:], row) for name, row in rows if name[0] == kind)


def _head(name: str, about: str, kind: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]


def _labels(names: Sequence[str], values: Sequence[str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _histogram(labels: str, counts: Sequence[float], seconds: float) -> list[str]:
    lines, total = [], 0.0
    for bound, count in zip(LATENCY_BOUNDS, counts, strict=False):
        total += count
        lines.append(f'marketdata_request_seconds_bucket{{{labels},le="{bound:g}"}} {total:.0f}')
    total += counts[-1]
    lines.append(f'marketdata_request_seconds_bucket{{{labels},le="+Inf"}} {total:.0f}')
    lines.append(f"marketdata_request_seconds_sum{{{labels}}} {seconds:.6f}")
    lines.append(f"marketdata_request_seconds_count{{{labels}}} {total:.0f}")
    return lines

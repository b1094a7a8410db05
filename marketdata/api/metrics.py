"""Counts requests and ingested items, and renders the counters in Prometheus' text format (0.0.4)."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

LATENCY_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the latency histogram, in seconds."""


@dataclass(slots=True)
class _Latency:
    counts: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BOUNDS) + 1))
    seconds: float = 0.0


class ByLabel(NamedTuple):
    """The values of a metric, by the value of its label."""

    label: str
    values: Mapping[str, float]


class Metrics:
    """The counters of this process since its start."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: defaultdict[tuple[str, str, int], int] = defaultdict(int)
        self._latency: defaultdict[tuple[str, str], _Latency] = defaultdict(_Latency)
        self._ingested: defaultdict[str, int] = defaultdict(int)
        self._database_failures: defaultdict[tuple[str, str], int] = defaultdict(int)

    def observe(self, method: str, path: str, status: int, seconds: float) -> None:
        """Count one answered request. ``path`` is the route's path with the names of its parameters. With their values,
        every value would create another series."""
        with self._lock:
            self._requests[method, path, status] += 1
            latency = self._latency[method, path]
            latency.counts[bisect_left(LATENCY_BOUNDS, seconds)] += 1
            latency.seconds += seconds

    def ingested(self, outcome: str, count: int) -> None:
        """Count ``count`` ingested items with the result ``outcome``."""
        with self._lock:
            self._ingested[outcome] += count

    def database_failed(self, code: str, sqlstate: str) -> None:
        """Count a request that failed because of the database, by the code of its error and PostgreSQL's SQLSTATE."""
        with self._lock:
            self._database_failures[code, sqlstate] += 1

    def render(self, figures: Mapping[str, tuple[str, float | ByLabel]]) -> str:
        """Returns all counters as text. ``figures`` are further metrics: a name, its help text, and its value or its
        values by a label. Names that end with ``_total`` are counters, the others are gauges."""
        with self._lock:
            requests, ingested = dict(self._requests), dict(self._ingested)
            failures = dict(self._database_failures)
            latency = {key: (list(each.counts), each.seconds) for key, each in self._latency.items()}
        lines = ["# HELP marketdata_requests_total Answered requests.", "# TYPE marketdata_requests_total counter"]
        for (method, path, status), count in sorted(requests.items()):
            labels = f'method="{method}",path="{path}",status="{status}"'
            lines.append(f"marketdata_requests_total{{{labels}}} {count}")
        lines += [
            "# HELP marketdata_request_seconds Time from the request's arrival at a worker to its response.",
            "# TYPE marketdata_request_seconds histogram",
        ]
        for (method, path), (counts, seconds) in sorted(latency.items()):
            lines += _histogram(f'method="{method}",path="{path}"', counts, seconds)
        lines += [
            "# HELP marketdata_ingested_total Ingested items by outcome.",
            "# TYPE marketdata_ingested_total counter",
        ]
        lines += [f'marketdata_ingested_total{{outcome="{name}"}} {n}' for name, n in sorted(ingested.items())]
        lines += [
            "# HELP marketdata_database_failures_total Requests that failed because of the database.",
            "# TYPE marketdata_database_failures_total counter",
        ]
        for (code, state), count in sorted(failures.items()):
            lines.append(f'marketdata_database_failures_total{{code="{code}",sqlstate="{state}"}} {count}')
        for name, (about, value) in figures.items():
            lines += [f"# HELP {name} {about}", f"# TYPE {name} {'counter' if name.endswith('_total') else 'gauge'}"]
            if isinstance(value, ByLabel):
                lines += [f'{name}{{{value.label}="{_escaped(key)}"}} {each:.3f}' for key, each in value.values.items()]
            else:
                lines.append(f"{name} {value:.12g}")
        return "\n".join(lines) + "\n"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _histogram(labels: str, counts: list[int], seconds: float) -> list[str]:
    lines, total = [], 0
    for bound, count in zip(LATENCY_BOUNDS, counts, strict=False):
        total += count
        lines.append(f'marketdata_request_seconds_bucket{{{labels},le="{bound:g}"}} {total}')
    total += counts[-1]
    lines.append(f'marketdata_request_seconds_bucket{{{labels},le="+Inf"}} {total}')
    lines.append(f"marketdata_request_seconds_sum{{{labels}}} {seconds:.6f}")
    lines.append(f"marketdata_request_seconds_count{{{labels}}} {total}")
    return lines

"""What the handlers work with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from marketdata.api.auth import Gate
from marketdata.api.ingestion import Ingestion
from marketdata.api.metrics import Metrics
from marketdata.api.remembered import Remembered
from marketdata.api.served import Served
from marketdata.api.together import Together
from marketdata.api.watch import Watch
from marketdata.store.candles import Counter
from marketdata.store.pool import Pool
from marketdata.store.version import Version


@dataclass(frozen=True)
class Services:
    """The parts of one running service. ``counters`` tells how a version's symbol stands now, ``backlog`` how many
    requests wait for a worker."""

    pool: Pool
    reads: Pool
    served: Served
    gate: Gate
    watch: Watch
    ingestion: Ingestion
    answers: Remembered
    counters: Together[tuple[Version, str], Counter]
    metrics: Metrics
    backlog: Callable[[], int]
    started_at: float
